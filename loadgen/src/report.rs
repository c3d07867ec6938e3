//! What a run found, as a table for people and as JSON for programs.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

pub use crate::record::SLOWDOWN_STEPS;

use crate::arrivals::ArrivalProcess;
use crate::engine::RunResult;
use crate::plan::{Pacing, RunPlan, ThreadClass};
use crate::record::TypeRecord;

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
    /// Seed of schedules and keys.
    pub seed: u64,
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
    /// Completed requests per second.
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
}

/// Points of a distribution.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Percentiles {
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Maximum.
    pub max: f64,
}

impl Percentiles {
    /// Reads `histogram`, each value divided by `unit`. `None` when it is empty.
    #[must_use]
    pub fn of(histogram: &Histogram<u64>, unit: f64) -> Option<Self> {
        let at = |quantile| histogram.value_at_quantile(quantile) as f64 / unit;
        (!histogram.is_empty()).then(|| Self {
            mean: histogram.mean() / unit,
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: at(1.0),
        })
    }

    fn columns(&self) -> [f64; PERCENTILE_HEADS.len()] {
        [self.p50, self.p90, self.p99, self.p999, self.max]
    }
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
            let is_datagram = ty.service_ns().is_some();
            let rate_rps = ty.rate_rps_mean(result.measured);
            types.push(TypeReport {
                name: ty.name.clone(),
                slow_thread: ty.thread == ThreadClass::Slow,
                connections: if is_datagram { 0 } else { ty.connections },
                service_us: ty
                    .service_ns()
                    .map(|service_ns| f64::from(service_ns) / f64::from(dilation) / 1e3),
                summary: Summary::new(record, rate_rps, is_datagram, &offers),
            });
        }
        let rates = plan
            .types
            .iter()
            .map(|ty| ty.rate_rps_mean(result.measured));
        let slowdown_known = plan.types.iter().all(|ty| ty.service_ns().is_some());
        let overall = Summary::new(&total, rates.sum(), slowdown_known, &offers);
        let mut report = Self {
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
            seed: plan.seed,
            warmup_s: plan.warmup.as_secs_f64(),
            duration_s,
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

    fn doubts(&self) -> Vec<String> {
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
            if failed as f64 > summary.scheduled as f64 * FAILED_SHARE_MAX {
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
    fn new(record: &TypeRecord, drawn_rps: f64, has_slowdown: bool, offers: &Offers<'_>) -> Self {
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
            achieved_rps: per_second(record.completed),
            scheduled: record.scheduled,
            sent: record.sent,
            sent_in_time: record.sent_in_time,
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
            slowdown: has_slowdown
                .then(|| Percentiles::of(&record.slowdown, SLOWDOWN_STEPS))
                .flatten(),
            lag_us: Percentiles::of(&record.lag_ns, 1e3),
        }
    }

    /// Requests that were due and have no latency.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.errors.values().sum::<u64>() + self.dropped + self.timeouts
    }
}

/// What the summaries of a run have in common.
struct Offers<'a> {
    pacing: &'a Pacing,
    duration_s: f64,
    dilation: u32,
}

/// A number with as many digits as matter.
fn number(value: f64) -> String {
    let decimals = match value {
        ..10.0 => 2,
        ..100.0 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

/// The heads of columns of percentiles; [`Percentiles::columns`] has what is under them.
const PERCENTILE_HEADS: [&str; 5] = ["p50", "p90", "p99", "p99.9", "max"];

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
        let rows: Vec<(&str, &Summary)> = self
            .types
            .iter()
            .map(|ty| (ty.name.as_str(), &ty.summary))
            .chain((self.types.len() > 1).then_some(("overall", &self.overall)))
            .collect();
        let counts = Table::new(
            "",
            &[
                "offered/s",
                "achieved/s",
                "sent",
                "completed",
                "errors",
                "drops",
                "timeouts",
            ],
            rows.iter().map(|&(name, summary)| {
                let counts = [
                    summary.sent,
                    summary.completed,
                    summary.errors.values().sum(),
                    summary.dropped,
                    summary.timeouts,
                ];
                let rates =
                    [summary.offered_rps, summary.achieved_rps].map(|rate| format!("{rate:.1}"));
                let cells = rates
                    .into_iter()
                    .chain(counts.map(|count| count.to_string()));
                (name, cells.collect())
            }),
        );
        write!(f, "\n{counts}")?;
        for (name, summary) in &rows {
            if *name != "overall" {
                for (kind, count) in &summary.errors {
                    writeln!(f, "  {name}: {count} x {kind}")?;
                }
                if summary.reconnects > 0 {
                    let count = summary.reconnects;
                    writeln!(f, "  {name}: connections opened again {count} times")?;
                }
            }
        }
        self.write_points(f, "latency, us", &rows, |summary| summary.latency_us)?;
        self.write_points(f, "latency / dilation, us", &rows, |summary| {
            summary.latency_undilated_us
        })?;
        self.write_points(f, "slowdown", &rows, |summary| summary.slowdown)?;
        self.write_points(f, "generator lag, us", &rows, |summary| summary.lag_us)?;
        for warning in &self.warnings {
            write!(f, "\nwarning: {warning}")?;
        }
        if !self.warnings.is_empty() {
            writeln!(f)?;
        }
        Ok(())
    }
}

impl Report {
    fn write_points(
        &self,
        f: &mut fmt::Formatter<'_>,
        title: &str,
        rows: &[(&str, &Summary)],
        points: impl Fn(&Summary) -> Option<Percentiles>,
    ) -> fmt::Result {
        let rows: Vec<_> = rows
            .iter()
            .filter_map(|&(name, summary)| {
                let points = points(summary)?;
                Some((name, points.columns().map(number).to_vec()))
            })
            .collect();
        if rows.is_empty() {
            return Ok(());
        }
        let table = Table::new(title, &PERCENTILE_HEADS, rows.into_iter());
        write!(f, "\n{table}")
    }
}

/// Rows with a name and right-aligned cells.
struct Table {
    lines: Vec<Vec<String>>,
}

impl Table {
    fn new<'a>(
        title: &str,
        heads: &[&str],
        rows: impl Iterator<Item = (&'a str, Vec<String>)>,
    ) -> Self {
        let head = std::iter::once(title).chain(heads.iter().copied());
        let mut lines = vec![head.map(str::to_owned).collect()];
        lines.extend(rows.map(|(name, mut cells)| {
            cells.insert(0, name.to_owned());
            cells
        }));
        Self { lines }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.lines.first().map_or(0, Vec::len);
        let widths: Vec<usize> = (0..columns)
            .map(|column| {
                let cells = self.lines.iter().map(|line| line[column].chars().count());
                cells.max().unwrap_or(0)
            })
            .collect();
        for line in &self.lines {
            let mut text = String::new();
            for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
                if column == 0 {
                    write!(text, "{cell:<width$}")?;
                } else {
                    write!(text, "  {cell:>width$}")?;
                }
            }
            writeln!(f, "{}", text.trim_end())?;
        }
        Ok(())
    }
}
