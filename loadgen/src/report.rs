//! What a run found, as a table for people and as JSON for programs.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fmt;
use std::time::SystemTime;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

pub use crate::percentiles::Percentiles;
pub use crate::record::SLOWDOWN_STEPS;

use crate::arrivals::ArrivalProcess;
use crate::csv::Csv;
use crate::engine::RunResult;
use crate::intervals::TimelinePoint;
use crate::parallel;
use crate::percentiles::{CurvePoint, PERCENTILE_HEADS, curve};
use crate::plan::{Pacing, RunPlan, ThreadClass, Waiting};
use crate::record::TypeRecord;
use crate::sim_run::SimulationReport;
use crate::table::{Table, number};

/// Name and version of [`Report`]'s JSON. The version is [`SCHEMA_VERSION`].
pub const SCHEMA: &str = "psp-run/1";

/// Version of [`Report`]'s JSON. It grows when a field changes its meaning or goes away.
pub const SCHEMA_VERSION: u32 = 1;

/// A generator whose 99th percentile lag is more than this part of a type's 99th percentile latency
/// may have shaped it.
const LAG_SHARE_MAX: f64 = 0.2;

/// Share of requests without a latency from which percentiles may flatter the server.
const FAILED_SHARE_MAX: f64 = 1e-3;

/// Share of the scheduled requests that may be sent late, or not at all, while the offered rate
/// counts as kept. One request may be, whatever its share.
const RATE_SHORTFALL_MAX: f64 = 0.01;

/// Everything a run found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// What was measured.
    pub target: String,
    /// What made requests be sent.
    #[serde(default)]
    pub mode: Mode,
    /// How arrivals were distributed where they were drawn.
    pub arrivals: ArrivalProcess,
    /// The closed loop; absent in an open one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_loop: Option<ClosedLoopReport>,
    /// The recorded arrivals; absent where they were drawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceReport>,
    /// The simulated server; absent when it was a live one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulation: Option<SimulationReport>,
    /// Seed of schedules and keys.
    pub seed: u64,
    /// When the measured part began, in seconds since 1970.
    pub started_unix_s: f64,
    /// Where and how the generator ran.
    pub client: Client,
    /// Length of the warm-up in seconds.
    pub warmup_s: f64,
    /// Length of the measured part in seconds.
    pub duration_s: f64,
    /// Part of the measured time in which a core of the generator's machine stood still; absent when nobody
    /// watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalled_share: Option<f64>,
    /// Whether the run was stopped before its end.
    pub interrupted: bool,
    /// Factor by which service times were multiplied.
    pub dilation: u32,
    /// All types together.
    pub overall: Summary,
    /// Each type.
    pub types: Vec<TypeReport>,
    /// Reasons to doubt the figures.
    pub warnings: Vec<String>,
}

/// The generator's part of the conditions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Client {
    /// Its version.
    pub version: String,
    /// Operating system and its release.
    pub system: String,
    /// Cores that it might use.
    pub cores: usize,
    /// How its threads waited: `busy-poll` or `spin-N-us`; `virtual-time` where all was simulated.
    pub waiting: String,
    /// Requests that might be in flight on one connection; 0 where there was none.
    pub pipeline: usize,
    /// A request without a reply for so long was given up, in seconds; 0 where none was.
    pub timeout_s: f64,
}

impl Client {
    fn new(plan: &RunPlan) -> Self {
        Self {
            waiting: match plan.waiting {
                Waiting::BusyPoll => "busy-poll".to_owned(),
                Waiting::SleepThenSpin(spin) => format!("spin-{}-us", spin.as_micros()),
            },
            pipeline: plan.pipeline,
            timeout_s: plan.timeout.as_secs_f64(),
            ..Self::simulated()
        }
    }

    /// No connections, and no request is given up.
    pub(crate) fn simulated() -> Self {
        let uname = rustix::system::uname();
        let part = |text: &CStr| text.to_string_lossy().into_owned();
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            system: format!("{} {}", part(uname.sysname()), part(uname.release())),
            cores: parallel::cores(),
            waiting: "virtual-time".to_owned(),
            pipeline: 0,
            timeout_s: 0.0,
        }
    }
}

/// What made requests be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Their schedule; latency counts from the intended send time.
    #[default]
    Open,
    /// Replies to earlier ones; latency counts from the actual send.
    Closed,
}

/// A closed loop in a [`Report`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClosedLoopReport {
    /// Most requests in flight.
    pub outstanding: usize,
    /// Whether that is for each type, and not for all together.
    pub per_type: bool,
    /// Time between a reply and the next request in microseconds.
    pub think_us: f64,
}

/// Recorded arrivals in a [`Report`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TraceReport {
    /// The file.
    pub file: String,
    /// How many times as fast as recorded they were replayed.
    pub speed: f64,
}

/// One type's part of a [`Report`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TypeReport {
    /// Name of the type.
    pub name: String,
    /// Whether it had the thread of slow types.
    pub slow_thread: bool,
    /// Connections of its own; 0 for datagrams.
    pub connections: usize,
    /// Service time that was asked for, not dilated, in microseconds.
    pub service_us: Option<f64>,
    /// What was counted and measured.
    #[serde(flatten)]
    pub summary: Summary,
    /// One point for each second of the measurement.
    pub timeline: Vec<TimelinePoint>,
}

/// Counts and percentiles of one type or of all.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Planned rate in requests per second; that of the recorded arrivals, or what a closed loop
    /// came to.
    pub offered_rps: f64,
    /// Requests per second that were sent before the measured part ended.
    #[serde(default)]
    pub sent_rps: f64,
    /// Whether at least 99 % of the scheduled requests were sent before the measured part ended.
    /// Absent in a closed loop, which offers no rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_kept: Option<bool>,
    /// Replies without an error per second of the measured part, by the time at which they came:
    /// those to requests of the warm-up count, those after the end do not.
    pub achieved_rps: f64,
    /// Arrivals of the schedule. Each ends in one of the counts below.
    pub scheduled: u64,
    /// Requests given to the operating system.
    pub sent: u64,
    /// Those of them that were before the measured part ended.
    #[serde(default)]
    pub sent_in_time: u64,
    /// Requests answered without an error.
    pub completed: u64,
    /// Replies without an error that came while the measured part lasted.
    #[serde(default)]
    pub completed_within: u64,
    /// Requests answered with an error or lost with their connection, by kind.
    pub errors: BTreeMap<String, u64>,
    /// Requests not sent because too many were outstanding.
    pub dropped: u64,
    /// Requests given up without a reply.
    pub timeouts: u64,
    /// Requests without a reply when the run was interrupted.
    pub unfinished: u64,
    /// Requests that waited in the generator for a free connection.
    pub queued: u64,
    /// Times a connection was opened again.
    pub reconnects: u64,
    /// What was looked up and was there; absent when replies told nothing of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hits: Option<u64>,
    /// What was looked up and was not there; absent like `hits`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub misses: Option<u64>,
    /// Intended send time to last byte of the reply, in microseconds; absent when none completed.
    pub latency_us: Option<Percentiles>,
    /// The same divided by the dilation; absent without dilation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_undilated_us: Option<Percentiles>,
    /// The latency of calm requests, those in whose time no core of the generator's machine stood still, in
    /// microseconds; absent when nobody watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calm_latency_us: Option<Percentiles>,
    /// How many those are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calm: Option<u64>,
    /// Latency divided by the service time; absent where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slowdown: Option<Percentiles>,
    /// How late the generator itself was, in microseconds; part of the latency. Absent when nothing
    /// was due.
    pub lag_us: Option<Percentiles>,
    /// The percentile curve of the latency, in microseconds.
    pub latency_curve_us: Vec<CurvePoint>,
}

impl Report {
    /// Puts a plan and its result together.
    #[must_use]
    pub fn new(plan: &RunPlan, result: &RunResult) -> Self {
        let duration_s = result.measured.as_secs_f64();
        let dilation = plan.dilation.max(1);
        let mut total = TypeRecord::default();
        let mut types = Vec::new();
        let offers = Offers {
            pacing: &plan.pacing,
            duration_s,
            dilation,
        };
        for (ty, record) in plan.types.iter().zip(&result.records) {
            total.add(record);
            let slowdown_known = ty.service_ns().is_some();
            let rate_rps = ty.rate_rps_mean(result.measured);
            types.push(TypeReport {
                name: ty.name.clone(),
                slow_thread: ty.thread == ThreadClass::Slow,
                connections: if plan.target.protocol.is_datagram() {
                    0
                } else {
                    ty.connections
                },
                service_us: ty
                    .service_ns()
                    .map(|service_ns| f64::from(service_ns) / f64::from(dilation) / 1e3),
                summary: Summary::new(record, rate_rps, slowdown_known, &offers),
                timeline: record.timeline.clone(),
            });
        }
        let rates = plan
            .types
            .iter()
            .map(|ty| ty.rate_rps_mean(result.measured));
        let slowdown_known = plan.types.iter().all(|ty| ty.service_ns().is_some());
        let overall = Summary::new(&total, rates.sum(), slowdown_known, &offers);
        let mut report = Self {
            schema: SCHEMA.to_owned(),
            schema_version: SCHEMA_VERSION,
            target: plan.target.to_string(),
            mode: match plan.pacing {
                Pacing::Drawn | Pacing::Trace(_) => Mode::Open,
                Pacing::Closed(_) => Mode::Closed,
            },
            arrivals: plan.arrivals,
            closed_loop: match plan.pacing {
                Pacing::Closed(closed) => Some(ClosedLoopReport {
                    outstanding: closed.outstanding,
                    per_type: closed.per_type,
                    think_us: closed.think.as_secs_f64() * 1e6,
                }),
                Pacing::Drawn | Pacing::Trace(_) => None,
            },
            trace: match &plan.pacing {
                Pacing::Trace(trace) => Some(TraceReport {
                    file: trace.path().display().to_string(),
                    speed: trace.speed(),
                }),
                Pacing::Drawn | Pacing::Closed(_) => None,
            },
            simulation: None,
            seed: plan.seed,
            started_unix_s: result
                .measured_from
                .duration_since(SystemTime::UNIX_EPOCH)
                .unwrap_or_default()
                .as_secs_f64(),
            client: Client::new(plan),
            warmup_s: plan.warmup.as_secs_f64(),
            duration_s,
            stalled_share: result
                .stalled
                .map(|stalled| stalled.as_secs_f64() / duration_s.max(f64::MIN_POSITIVE)),
            interrupted: result.interrupted,
            dilation,
            overall,
            types,
            warnings: Vec::new(),
        };
        report.warnings = report.doubts();
        if plan.ramp > plan.warmup {
            report.warnings.push(format!(
                "connections were opened over {:.1} s, which reaches into the measured part",
                plan.ramp.as_secs_f64()
            ));
        }
        report
    }

    pub(crate) fn doubts(&self) -> Vec<String> {
        let mut doubts = Vec::new();
        if self.mode == Mode::Closed {
            doubts.push(
                "closed loop: what a slow server kept from being sent is missing from the \
                 percentiles; compare them with those of closed loops alone"
                    .to_owned(),
            );
        }
        for ty in &self.types {
            let (name, summary) = (&ty.name, &ty.summary);
            if let (Some(lag), Some(latency)) = (summary.lag_us, summary.latency_us)
                && lag.p99 > latency.p99 * LAG_SHARE_MAX
            {
                let (lag, latency) = (lag.p99, latency.p99);
                doubts.push(format!(
                    "{name}: the generator was late by {} us at p99, {:.0} % of the measured {} us; \
                     the latency is partly its own (try --busy-poll, a lower rate or a free core)",
                    number(lag),
                    lag / latency * 100.0,
                    number(latency),
                ));
            }
            let failed = summary.failed();
            if summary.is_flattering() {
                doubts.push(format!(
                    "{name}: {failed} of {} requests failed and have no latency; the percentiles \
                     flatter the server",
                    summary.scheduled,
                ));
            }
            if summary.rate_kept == Some(false) && !self.interrupted {
                let in_time = summary.sent_in_time;
                doubts.push(format!(
                    "{name}: the offered rate was not kept: {in_time} of {} requests were sent in \
                     time ({:.1} %), {} later, {} never",
                    summary.scheduled,
                    in_time as f64 / summary.scheduled as f64 * 100.0,
                    summary.sent - in_time,
                    summary.scheduled.saturating_sub(summary.sent),
                ));
            }
        }
        if self.interrupted {
            doubts.push(format!(
                "interrupted after {:.1} s of measurement",
                self.duration_s
            ));
        }
        doubts
    }
}

impl Summary {
    /// `drawn_rps` is the planned rate where arrivals are drawn.
    pub(crate) fn new(
        record: &TypeRecord,
        drawn_rps: f64,
        has_slowdown: bool,
        offers: &Offers<'_>,
    ) -> Self {
        let Offers {
            pacing,
            duration_s,
            dilation,
        } = *offers;
        let latency = |unit| Percentiles::of(&record.latency_ns, unit);
        let per_second = |count: u64| {
            if duration_s > 0.0 {
                count as f64 / duration_s
            } else {
                0.0
            }
        };
        let late = record.scheduled.saturating_sub(record.sent_in_time) as f64;
        let looked_up = record.hits + record.misses > 0;
        let late_max = (record.scheduled as f64 * RATE_SHORTFALL_MAX).max(1.0);
        Self {
            offered_rps: match pacing {
                Pacing::Drawn => drawn_rps,
                Pacing::Trace(_) | Pacing::Closed(_) => per_second(record.scheduled),
            },
            sent_rps: per_second(record.sent_in_time),
            rate_kept: match pacing {
                Pacing::Drawn | Pacing::Trace(_) => Some(late <= late_max),
                Pacing::Closed(_) => None,
            },
            achieved_rps: per_second(record.completed_within),
            scheduled: record.scheduled,
            sent: record.sent,
            sent_in_time: record.sent_in_time,
            completed: record.completed,
            completed_within: record.completed_within,
            errors: record
                .errors
                .iter()
                .map(|(kind, count)| (kind.to_owned(), count))
                .collect(),
            dropped: record.dropped,
            timeouts: record.timeouts,
            unfinished: record.unfinished,
            queued: record.queued,
            reconnects: record.reconnects,
            hits: looked_up.then_some(record.hits),
            misses: looked_up.then_some(record.misses),
            latency_us: latency(1e3),
            latency_undilated_us: (dilation > 1)
                .then(|| latency(1e3 * f64::from(dilation)))
                .flatten(),
            calm_latency_us: record
                .calm_latency_ns
                .as_ref()
                .and_then(|calm_ns| Percentiles::of(calm_ns, 1e3)),
            calm: record.calm_latency_ns.as_ref().map(Histogram::len),
            slowdown: has_slowdown
                .then(|| Percentiles::of(&record.slowdown, SLOWDOWN_STEPS))
                .flatten(),
            lag_us: Percentiles::of(&record.lag_ns, 1e3),
            latency_curve_us: curve(&record.latency_ns, 1e3),
        }
    }

    /// Whether so many requests have no latency that the percentiles flatter the server.
    pub(crate) fn is_flattering(&self) -> bool {
        self.failed() as f64 > self.scheduled as f64 * FAILED_SHARE_MAX
    }

    /// The latency that tells most about the server: that of calm requests where they were told apart.
    #[must_use]
    pub fn telling_us(&self) -> Option<Percentiles> {
        self.calm_latency_us.or(self.latency_us)
    }

    /// Requests that were due and have no latency.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.errors.values().sum::<u64>() + self.dropped + self.timeouts
    }
}

/// What the summaries of a run have in common.
pub(crate) struct Offers<'a> {
    pub(crate) pacing: &'a Pacing,
    pub(crate) duration_s: f64,
    pub(crate) dilation: u32,
}

/// The name under which all types together go.
pub const OVERALL: &str = "overall";

impl Report {
    /// Names and figures of all types, and of all of them together.
    pub fn summaries(&self) -> impl Iterator<Item = (&str, &Summary)> {
        let types = self.types.iter().map(|ty| (ty.name.as_str(), &ty.summary));
        types.chain(std::iter::once((OVERALL, &self.overall)))
    }

    /// One line for each type and one for all together, after a line of heads.
    #[must_use]
    pub fn csv(&self) -> String {
        let mut csv = Csv::new(csv_heads().iter().map(String::as_str));
        self.push_csv(&mut csv);
        csv.into_text()
    }

    pub(crate) fn push_csv(&self, csv: &mut Csv) {
        for (name, summary) in self.summaries() {
            let start = [
                self.target.clone(),
                self.seed.to_string(),
                self.duration_s.to_string(),
                name.to_owned(),
                summary.offered_rps.to_string(),
                summary.achieved_rps.to_string(),
            ];
            let counts = [
                summary.scheduled,
                summary.sent,
                summary.completed,
                summary.errors.values().sum(),
                summary.dropped,
                summary.timeouts,
                summary.unfinished,
                summary.queued,
                summary.reconnects,
                summary.hits.unwrap_or(0),
                summary.misses.unwrap_or(0),
            ];
            let points = [
                summary.latency_us,
                summary.calm_latency_us,
                summary.slowdown,
                summary.lag_us,
            ];
            let points = points.into_iter().flat_map(|points| {
                let columns = points.map(|points| points.columns().map(|value| value.to_string()));
                columns.unwrap_or_default()
            });
            let counts = counts.iter().map(ToString::to_string);
            csv.push(start.into_iter().chain(counts).chain(points));
        }
    }
}

pub(crate) fn csv_heads() -> Vec<String> {
    let fixed = [
        "target",
        "seed",
        "duration_s",
        "type",
        "offered_rps",
        "achieved_rps",
        "scheduled",
        "sent",
        "completed",
        "errors",
        "dropped",
        "timeouts",
        "unfinished",
        "queued",
        "reconnects",
        "hits",
        "misses",
    ];
    let points = ["latency_us", "calm_latency_us", "slowdown", "lag_us"].into_iter();
    let points = points.flat_map(|figure| {
        PERCENTILE_HEADS.map(|head| format!("{figure}_{}", head.replace('.', "")))
    });
    fixed.map(str::to_owned).into_iter().chain(points).collect()
}

/// The text table.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pace = match (&self.closed_loop, &self.trace) {
            (Some(closed), _) => {
                let whose = if closed.per_type {
                    "for each type"
                } else {
                    "in all"
                };
                writeln!(
                    f,
                    "mode: closed. {} requests outstanding {whose}, {} us between reply and next \
                     request; latency counts from the actual send",
                    closed.outstanding, closed.think_us,
                )?;
                "closed loop".to_owned()
            }
            (None, Some(trace)) => format!("arrivals of {} x {}", trace.file, trace.speed),
            (None, None) => format!("{} arrivals", self.arrivals),
        };
        writeln!(
            f,
            "{}: {pace}, {:.1} s measured after {:.1} s of warm-up, seed {}",
            self.target, self.duration_s, self.warmup_s, self.seed,
        )?;
        if let Some(simulation) = &self.simulation {
            writeln!(
                f,
                "simulated: {} on {} workers, {:.1} % of their time service, {:.1} % overhead, \
                 {} preemptions",
                simulation.policy,
                simulation.workers,
                simulation.utilization * 100.0,
                simulation.overhead * 100.0,
                simulation.preemptions,
            )?;
        }
        if let (Some(stalled), Some(calm)) = (self.stalled_share, self.overall.calm) {
            writeln!(
                f,
                "stalls: a core of this machine stood still for {:.1} % of the time; {calm} of {} requests were calm",
                stalled * 100.0,
                self.overall.completed,
            )?;
        }
        let [counts, points @ ..] = &self.tables()[..] else {
            return Ok(());
        };
        write!(f, "\n{}", counts.1)?;
        for TypeReport { name, summary, .. } in &self.types {
            for (kind, count) in &summary.errors {
                writeln!(f, "  {name}: {count} x {kind}")?;
            }
            if let (Some(hits), Some(misses)) = (summary.hits, summary.misses) {
                let share = misses as f64 / (hits + misses) as f64 * 100.0;
                writeln!(f, "  {name}: {hits} hits, {misses} misses ({share:.1} %)")?;
            }
            if summary.reconnects > 0 {
                let count = summary.reconnects;
                writeln!(f, "  {name}: connections opened again {count} times")?;
            }
        }
        for (_, table) in points {
            write!(f, "\n{table}")?;
        }
        for warning in &self.warnings {
            write!(f, "\nwarning: {warning}")?;
        }
        if !self.warnings.is_empty() {
            writeln!(f)?;
        }
        Ok(())
    }
}

/// A title and the percentiles under it.
type Points = (&'static str, fn(&Summary) -> Option<Percentiles>);

const POINTS: [Points; 5] = [
    ("latency, us", |summary| summary.latency_us),
    ("calm latency, us", |summary| summary.calm_latency_us),
    ("latency / dilation, us", |summary| {
        summary.latency_undilated_us
    }),
    ("slowdown", |summary| summary.slowdown),
    ("generator lag, us", |summary| summary.lag_us),
];

impl Report {
    /// Titles and tables: what became of the requests, then each kind of percentiles that there is.
    pub(crate) fn tables(&self) -> Vec<(String, Table)> {
        // A single type is all there is.
        let rows: Vec<_> = self
            .summaries()
            .filter(|(name, _)| *name != OVERALL || self.types.len() > 1)
            .collect();
        let heads = [
            "",
            "offered/s",
            "achieved/s",
            "sent",
            "completed",
            "errors",
            "drops",
            "timeouts",
        ];
        let mut counts = Table::new(1, heads);
        for &(name, summary) in &rows {
            counts.push(vec![
                name.to_owned(),
                format!("{:.1}", summary.offered_rps),
                format!("{:.1}", summary.achieved_rps),
                summary.sent.to_string(),
                summary.completed.to_string(),
                summary.errors.values().sum::<u64>().to_string(),
                summary.dropped.to_string(),
                summary.timeouts.to_string(),
            ]);
        }
        let mut tables = vec![("Requests".to_owned(), counts)];
        for (title, points) in POINTS {
            let mut table = Table::new(1, std::iter::once(title).chain(PERCENTILE_HEADS));
            for &(name, summary) in &rows {
                if let Some(points) = points(summary) {
                    let cells = points.columns().map(number);
                    table.push(std::iter::once(name.to_owned()).chain(cells).collect());
                }
            }
            if !table.is_empty() {
                tables.push((title.to_owned(), table));
            }
        }
        tables
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::time::Duration;

    use crate::intervals::IntervalCollector;
    use crate::plan::{RequestPlan, ServicePlan, TypePlan};
    use crate::target::Target;
    use crate::workload::Distribution;

    fn ty(name: &str, rate_rps: f64) -> TypePlan {
        let service = ServicePlan {
            mean_ns: 1_000,
            distribution: Distribution::Fixed,
        };
        let request = RequestPlan::Synthetic {
            request_type: 0,
            service,
        };
        TypePlan::new(name, rate_rps, request)
    }

    /// Ten seconds with 100 `GET`s: 90 completed after 1 us to 90 us, 6 errors, 4 timeouts. No
    /// request of `odd.name` was due.
    pub(crate) fn report() -> Report {
        let target: Target = "psp://127.0.0.1:9".parse().unwrap();
        let plan = RunPlan {
            seed: 7,
            warmup: Duration::ZERO,
            ..RunPlan::new(target, vec![ty("GET", 10.0), ty("odd.name", 0.0)])
        };
        let mut collector = IntervalCollector::default();
        let mut intervals = collector.add_type(0);
        let mut record = TypeRecord {
            scheduled: 100,
            sent: 100,
            sent_in_time: 100,
            completed: 90,
            completed_within: 90,
            timeouts: 4,
            ..TypeRecord::default()
        };
        record.errors.add("BUSY", 6);
        for index in 1..=90 {
            record.latency_ns.record(index * 1_000).unwrap();
            record.lag_ns.record(index * 20).unwrap();
            record.slowdown.record(index * 1_000).unwrap();
            intervals.completed(index * 100_000_000, index * 1_000);
        }
        intervals.finish();
        collector.collect(&mut |_| {});
        record.timeline = collector.into_timelines().swap_remove(0);
        let result = RunResult {
            records: vec![record, TypeRecord::default()],
            measured_from: SystemTime::UNIX_EPOCH,
            measured: Duration::from_secs(10),
            stalled: None,
            interrupted: false,
        };
        Report::new(&plan, &result)
    }

    #[test]
    fn json_keeps_everything() {
        let report = report();
        let json = serde_json::to_string(&report).unwrap();
        assert_eq!(serde_json::from_str::<Report>(&json).unwrap(), report);
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(value["schema"], SCHEMA);
        assert!(SCHEMA.ends_with(&format!("/{SCHEMA_VERSION}")));
        let get = &value["types"][0];
        assert_eq!(get["timeline"].as_array().unwrap().len(), 10);
        assert_eq!(get["timeline"][1]["completed"], 10);
        assert_eq!(get["errors"]["BUSY"], 6);
        assert!(get["latency_us"]["p9999"].as_f64().unwrap() > 89.0);
        assert!(get["slowdown"]["p999"].as_f64().unwrap() > 89.0);
    }

    #[test]
    fn csv_has_a_line_for_each_type_and_empty_cells_for_no_figure() {
        let csv = report().csv();
        let lines: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
        assert_eq!(lines.len(), 4);
        assert!(lines.iter().all(|line| line.len() == lines[0].len()));
        let cell = |line: usize, head: &str| {
            let column = lines[0].iter().position(|cell| *cell == head).unwrap();
            lines[line][column]
        };
        assert_eq!((cell(1, "type"), cell(1, "errors")), ("GET", "6"));
        assert_eq!(cell(2, "latency_us_p9999"), "");
        assert!(cell(3, "lag_us_p50").parse::<f64>().unwrap() > 0.8);
    }
}
