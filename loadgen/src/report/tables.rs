//! The report of a run as tables.

use std::fmt;

use psp_sim::measure::{PERCENTILE_HEADS, Percentiles};
use psp_sim::text::{Table, number};

use super::run_report::{OVERALL, Report, TypeReport};
use super::summary::Summary;

/// The text table.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pace = match (&self.closed_loop, &self.trace) {
            (Some(closed), _) => {
                let whose = if closed.per_type { "for each type" } else { "in all" };
                writeln!(
                    f,
                    "mode: closed. {} requests outstanding {whose}, {} us between reply and next \
                     request; latency counts from the actual send",
                    closed.outstanding, closed.think_us,
                )?;
                "closed loop".to_owned()
            }
            (None, Some(trace)) => match trace.speed {
                Some(speed) => format!("arrivals of {} x {speed}", trace.file),
                None => format!("requests of {}, {} arrivals", trace.file, self.arrivals),
            },
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
        self.fmt_tables(f)
    }
}

impl Report {
    /// Counts, what went wrong, percentiles and warnings.
    fn fmt_tables(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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

/// A title and its percentiles.
type Points = (&'static str, fn(&Summary) -> Option<Percentiles>);

const POINTS: [Points; 5] = [
    ("latency, us", |summary| summary.latency_us),
    ("calm latency, us", |summary| summary.calm_latency_us),
    ("latency / dilation, us", |summary| summary.latency_undilated_us),
    ("slowdown", |summary| summary.slowdown),
    ("generator lag, us", |summary| summary.lag_us),
];

impl Report {
    /// Titles and tables: outcomes of the requests, then each kind of percentiles that the run has.
    pub(crate) fn tables(&self) -> Vec<(String, Table)> {
        // A single type needs no total.
        let rows: Vec<_> = self.summaries().filter(|(name, _)| *name != OVERALL || self.types.len() > 1).collect();
        let heads = ["", "offered/s", "achieved/s", "sent", "completed", "errors", "drops", "timeouts"];
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
