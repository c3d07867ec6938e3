//! What a run found, as a table for people and as JSON for programs.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fmt;
use std::time::SystemTime;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

pub use crate::percentiles::Percentiles;

use crate::arrivals::ArrivalProcess;
use crate::csv::Csv;
use crate::engine::RunResult;
use crate::intervals::TimelinePoint;
use crate::parallel;
use crate::percentiles::{CurvePoint, PERCENTILE_HEADS, curve};
use crate::plan::{RunPlan, ThreadClass, Waiting};
use crate::record::{TypeRecord, new_histogram};
use crate::table::{Table, number};

/// Name and version of [`Report`]'s JSON. The version is [`SCHEMA_VERSION`].
pub const SCHEMA: &str = "psp-run/1";

/// Version of [`Report`]'s JSON. It grows when a field changes its meaning or goes away.
pub const SCHEMA_VERSION: u32 = 1;

/// Steps per unit in histograms of slowdown.
pub const SLOWDOWN_STEPS: f64 = 1e3;

/// A generator whose 99th percentile lag is more than this part of a type's 99th percentile latency
/// may have shaped it.
const LAG_SHARE_MAX: f64 = 0.2;

/// Share of requests without a latency from which percentiles may flatter the server.
const FAILED_SHARE_MAX: f64 = 1e-3;

/// Shortfall of the achieved rate from which it is remarked upon.
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
    /// How arrivals were distributed.
    pub arrivals: ArrivalProcess,
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
    /// How its threads waited: `busy-poll` or `spin-N-us`.
    pub waiting: String,
    /// Requests that might be in flight on one connection.
    pub pipeline: usize,
    /// A request without a reply for so long was given up, in seconds.
    pub timeout_s: f64,
}

impl Client {
    fn new(plan: &RunPlan) -> Self {
        let uname = rustix::system::uname();
        let part = |text: &CStr| text.to_string_lossy().into_owned();
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            system: format!("{} {}", part(uname.sysname()), part(uname.release())),
            cores: parallel::cores(),
            waiting: match plan.waiting {
                Waiting::BusyPoll => "busy-poll".to_owned(),
                Waiting::SleepThenSpin(spin) => format!("spin-{}-us", spin.as_micros()),
            },
            pipeline: plan.pipeline,
            timeout_s: plan.timeout.as_secs_f64(),
        }
    }
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
    /// Planned rate in requests per second.
    pub offered_rps: f64,
    /// Completed requests per second.
    pub achieved_rps: f64,
    /// Arrivals of the schedule. Each ends in one of the counts below.
    pub scheduled: u64,
    /// Requests given to the operating system.
    pub sent: u64,
    /// Requests answered without an error.
    pub completed: u64,
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
    /// Intended send time to last byte of the reply, in microseconds; absent when none completed.
    pub latency_us: Option<Percentiles>,
    /// The same divided by the dilation; absent without dilation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_undilated_us: Option<Percentiles>,
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
        let mut slowdown_total = new_histogram();
        let mut types = Vec::new();
        for (ty, record) in plan.types.iter().zip(&result.records) {
            let slowdown = ty
                .service_ns()
                .map(|service_ns| slowdowns(&record.latency_ns, f64::from(service_ns)));
            if let Some(slowdown) = &slowdown {
                slowdown_total
                    .add(slowdown)
                    .expect("all histograms have one range");
            }
            total.add(record);
            let is_datagram = ty.service_ns().is_some();
            types.push(TypeReport {
                name: ty.name.clone(),
                slow_thread: ty.thread == ThreadClass::Slow,
                connections: if is_datagram { 0 } else { ty.connections },
                service_us: ty
                    .service_ns()
                    .map(|service_ns| f64::from(service_ns) / f64::from(dilation) / 1e3),
                summary: Summary::new(record, ty.rate_rps, duration_s, dilation, slowdown),
                timeline: record.timeline.clone(),
            });
        }
        let rate_rps = plan.types.iter().map(|ty| ty.rate_rps).sum();
        let slowdown_known = plan.types.iter().all(|ty| ty.service_ns().is_some());
        let slowdown_total = slowdown_known.then_some(slowdown_total);
        let overall = Summary::new(&total, rate_rps, duration_s, dilation, slowdown_total);
        let mut report = Self {
            schema: SCHEMA.to_owned(),
            schema_version: SCHEMA_VERSION,
            target: plan.target.to_string(),
            arrivals: plan.arrivals,
            seed: plan.seed,
            started_unix_s: result
                .measured_from
                .duration_since(SystemTime::UNIX_EPOCH)
                .unwrap_or_default()
                .as_secs_f64(),
            client: Client::new(plan),
            warmup_s: plan.warmup.as_secs_f64(),
            duration_s,
            interrupted: result.interrupted,
            dilation,
            overall,
            types,
            warnings: Vec::new(),
        };
        report.warnings = report.doubts();
        report
    }

    fn doubts(&self) -> Vec<String> {
        let mut doubts = Vec::new();
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
            let expected = summary.offered_rps * self.duration_s;
            if summary.is_short(self.duration_s) && !self.interrupted {
                doubts.push(format!(
                    "{name}: {} requests were sent where {expected:.0} were offered",
                    summary.sent,
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
    fn new(
        record: &TypeRecord,
        offered_rps: f64,
        duration_s: f64,
        dilation: u32,
        slowdown: Option<Histogram<u64>>,
    ) -> Self {
        let latency = |unit| Percentiles::of(&record.latency_ns, unit);
        Self {
            offered_rps,
            achieved_rps: if duration_s > 0.0 {
                record.completed as f64 / duration_s
            } else {
                0.0
            },
            scheduled: record.scheduled,
            sent: record.sent,
            completed: record.completed,
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
            latency_us: latency(1e3),
            latency_undilated_us: (dilation > 1)
                .then(|| latency(1e3 * f64::from(dilation)))
                .flatten(),
            slowdown: slowdown.and_then(|histogram| Percentiles::of(&histogram, SLOWDOWN_STEPS)),
            lag_us: Percentiles::of(&record.lag_ns, 1e3),
            latency_curve_us: curve(&record.latency_ns, 1e3),
        }
    }

    /// Whether so many requests have no latency that the percentiles flatter the server.
    pub(crate) fn is_flattering(&self) -> bool {
        self.failed() as f64 > self.scheduled as f64 * FAILED_SHARE_MAX
    }

    /// Whether fewer requests were sent in `duration_s` seconds than the offered rate says.
    pub(crate) fn is_short(&self, duration_s: f64) -> bool {
        let expected = self.offered_rps * duration_s;
        let missing = expected - self.sent as f64;
        // Three standard deviations of a Poisson count are chance.
        missing > (expected * RATE_SHORTFALL_MAX).max(3.0 * expected.sqrt())
    }

    /// Requests that were due and have no latency.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.errors.values().sum::<u64>() + self.dropped + self.timeouts
    }
}

/// The distribution of latency / service time, in thousandths.
fn slowdowns(latency_ns: &Histogram<u64>, service_ns: f64) -> Histogram<u64> {
    let mut slowdowns = new_histogram();
    for step in latency_ns.iter_recorded() {
        let slowdown = step.value_iterated_to() as f64 / service_ns * SLOWDOWN_STEPS;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the conversion saturates"
        )]
        let slowdown = slowdown.round() as u64;
        slowdowns.saturating_record_n(slowdown, step.count_at_value());
    }
    slowdowns
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
            ];
            let points = [summary.latency_us, summary.slowdown, summary.lag_us];
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
    ];
    let points = ["latency_us", "slowdown", "lag_us"].into_iter();
    let points = points.flat_map(|figure| {
        PERCENTILE_HEADS.map(|head| format!("{figure}_{}", head.replace('.', "")))
    });
    fixed.map(str::to_owned).into_iter().chain(points).collect()
}

/// The text table.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let arrivals = self.arrivals;
        writeln!(
            f,
            "{}: {arrivals} arrivals, {:.1} s measured after {:.1} s of warm-up, seed {}",
            self.target, self.duration_s, self.warmup_s, self.seed,
        )?;
        let [counts, points @ ..] = &self.tables()[..] else {
            return Ok(());
        };
        write!(f, "\n{}", counts.1)?;
        for ty in &self.types {
            for (kind, count) in &ty.summary.errors {
                writeln!(f, "  {}: {count} x {kind}", ty.name)?;
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

const POINTS: [Points; 4] = [
    ("latency, us", |summary| summary.latency_us),
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

    use crate::command::Keyspace;
    use crate::intervals::IntervalCollector;
    use crate::plan::{RequestPlan, TypePlan};
    use crate::target::Target;

    fn ty(name: &str, rate_rps: f64) -> TypePlan {
        TypePlan {
            name: name.to_owned(),
            rate_rps,
            connections: 1,
            thread: ThreadClass::Fast,
            request: RequestPlan::Synthetic {
                request_type: 0,
                service_ns: 1_000,
            },
        }
    }

    /// Ten seconds with 100 `GET`s: 90 completed after 1 us to 90 us, 6 errors, 4 timeouts. No
    /// request of `odd.name` was due.
    pub(crate) fn report() -> Report {
        let plan = RunPlan {
            target: "psp://127.0.0.1:9".parse::<Target>().unwrap(),
            types: vec![ty("GET", 10.0), ty("odd.name", 0.0)],
            arrivals: ArrivalProcess::Poisson,
            seed: 7,
            warmup: Duration::ZERO,
            duration: Duration::from_secs(10),
            timeout: Duration::from_secs(1),
            outstanding_max: 100,
            pipeline: 1,
            keyspace: Keyspace::new(1, 1),
            dilation: 1,
            waiting: Waiting::BusyPoll,
            slow_nice: 0,
        };
        let mut collector = IntervalCollector::default();
        let mut intervals = collector.add_type(0);
        let mut record = TypeRecord {
            scheduled: 100,
            sent: 100,
            completed: 90,
            timeouts: 4,
            ..TypeRecord::default()
        };
        record.errors.add("BUSY", 6);
        for index in 1..=90 {
            record.latency_ns.record(index * 1_000).unwrap();
            record.lag_ns.record(index * 20).unwrap();
            intervals.completed(index * 100_000_000, index * 1_000);
        }
        intervals.finish();
        collector.collect(&mut |_| {});
        record.timeline = collector.into_timelines().swap_remove(0);
        let result = RunResult {
            records: vec![record, TypeRecord::default()],
            measured_from: SystemTime::UNIX_EPOCH,
            measured: Duration::from_secs(10),
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
