//! Finds the load that a server holds. The rate rises until an objective breaks; then the interval
//! between the last rate that kept it and the first that broke it is halved repeatedly.

use std::fmt;

use psp_sim::measure::PERCENTILE_HEADS;
use psp_sim::text::{Table, number};
use serde::{Deserialize, Serialize};

use super::condition::Condition;
use super::run_report::Report;

/// Name and version of [`SweepReport`]'s JSON. The version grows when a field changes its meaning or
/// goes away.
pub const SWEEP_SCHEMA: &str = "psp-sweep/1";

/// The rates of the search.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Range {
    /// The first rate in requests per second.
    pub from_rps: f64,
    /// The highest rate.
    pub to_rps: f64,
    /// Factor between two rates while the objective is kept. Above 1.
    pub factor: f64,
    /// The search ends when the rate held is known to this fraction of itself. Above 0.
    pub precision: f64,
    /// How often a rate may break the objective before it is too high. At least 1.
    #[serde(default = "one")]
    pub tries_max: u32,
}

fn one() -> u32 {
    1
}

/// The search for the highest rate of one target.
#[derive(Debug, Clone, Copy)]
pub struct Search {
    range: Range,
    kept: Option<f64>,
    broken: Option<f64>,
    tries: u32,
}

impl Search {
    /// A search at its beginning.
    #[must_use]
    pub fn new(range: Range) -> Self {
        Self { range, kept: None, broken: None, tries: 0 }
    }

    /// The next rate in requests per second; `None` when the search is over.
    #[must_use]
    pub fn next_rps(&self) -> Option<f64> {
        let Range { from_rps, to_rps, factor, precision, tries_max: _ } = self.range;
        match (self.kept, self.broken) {
            (None, None) => Some(from_rps),
            (None, Some(_)) => None,
            (Some(kept), None) if kept >= to_rps => None,
            (Some(kept), None) => Some((kept * factor).min(to_rps)),
            (Some(kept), Some(broken)) => (broken > kept * (1.0 + precision)).then(|| (kept * broken).sqrt()),
        }
    }

    /// Records whether the objective was kept at `rate_rps`. The same rate comes next while it may
    /// be tried again.
    pub fn tried(&mut self, rate_rps: f64, is_kept: bool) {
        self.tries += 1;
        if !is_kept && self.tries < self.range.tries_max {
            return;
        }
        self.tries = 0;
        let side = if is_kept { &mut self.kept } else { &mut self.broken };
        *side = Some(rate_rps);
    }

    /// The highest rate that kept the objective.
    #[must_use]
    pub fn held_rps(&self) -> Option<f64> {
        self.kept
    }
}

/// The results of a sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SweepReport {
    /// [`SWEEP_SCHEMA`].
    pub schema: String,
    /// The objective.
    pub slo: Vec<String>,
    /// The range of the search.
    pub range: Range,
    /// Whether it was stopped before its end.
    pub interrupted: bool,
    /// The targets, in the order in which they were given.
    pub targets: Vec<Swept>,
}

/// One target of a sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Swept {
    /// Its name.
    pub name: String,
    /// The command that started it, if one did.
    pub command: Option<String>,
    /// The highest rate that kept the objective, in requests per second; absent if none did.
    pub held_rps: Option<f64>,
    /// The measured points by ascending rate. A rate that was tried repeatedly has its last point.
    pub points: Vec<SweepPoint>,
}

/// One rate of a sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SweepPoint {
    /// The rate in requests per second, of all types that the sweep scales.
    pub rate_rps: f64,
    /// How the objective was missed; empty if it was kept.
    pub misses: Vec<String>,
    /// The run.
    pub report: Report,
}

impl SweepPoint {
    /// Checks a run against an objective. In addition to the conditions, the offered rate must have
    /// been sent, and hardly any request may have failed.
    #[must_use]
    pub fn judge(rate_rps: f64, slo: &[Condition], report: Report) -> Self {
        let runs = std::slice::from_ref(&report);
        let mut misses: Vec<String> = slo
            .iter()
            .map(|condition| (condition, condition.verdict(runs)))
            .filter(|(_, verdict)| verdict.holds != Some(true))
            .map(|(condition, verdict)| condition.describe(verdict))
            .collect();
        for ty in &report.types {
            let (name, summary) = (&ty.name, &ty.summary);
            if summary.is_flattering() {
                let (failed, scheduled) = (summary.failed(), summary.scheduled);
                misses.push(format!("{name}: {failed} of {scheduled} requests failed"));
            }
            if summary.rate_kept == Some(false) {
                let sent = summary.sent_rps;
                misses.push(format!("{name}: only {sent:.0} requests per second were sent"));
            }
        }
        Self { rate_rps, misses, report }
    }

    /// Whether the objective was kept.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.misses.is_empty()
    }
}

impl SweepReport {
    /// Titles and tables: the rate that each target holds, and all points.
    pub(crate) fn tables(&self) -> Vec<(String, Table)> {
        let mut held = Table::new(3, ["target", "held, requests/s", "broken by"]);
        let heads = ["target", "type", "rate/s", "kept", "offered/s", "achieved/s", "failed"];
        let heads = heads.into_iter().chain(PERCENTILE_HEADS);
        let mut points = Table::new(2, heads).group(7, "latency, us");
        for target in &self.targets {
            let broken = target.points.iter().find(|point| !point.is_kept());
            held.push(vec![
                target.name.clone(),
                target.held_rps.map_or_else(|| "-".to_owned(), number),
                broken.map_or_else(
                    || "nothing that was tried".to_owned(),
                    |point| format!("{}/s: {}", number(point.rate_rps), point.misses.join("; ")),
                ),
            ]);
            for point in &target.points {
                for ty in &point.report.types {
                    let summary = &ty.summary;
                    let mut cells = vec![
                        target.name.clone(),
                        ty.name.clone(),
                        number(point.rate_rps),
                        if point.is_kept() { "yes" } else { "no" }.to_owned(),
                        number(summary.offered_rps),
                        number(summary.achieved_rps),
                        summary.failed().to_string(),
                    ];
                    match summary.latency_us {
                        Some(latency) => cells.extend(latency.columns().map(number)),
                        None => cells.extend(PERCENTILE_HEADS.map(|_| "-".to_owned())),
                    }
                    points.push(cells);
                }
            }
        }
        vec![
            (format!("Highest rate with {}", self.slo.join(" and ")), held),
            ("All points".to_owned(), points),
        ]
    }
}

/// The text tables.
impl fmt::Display for SweepReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (title, table) in self.tables() {
            writeln!(f, "{title}\n\n{table}")?;
        }
        for target in &self.targets {
            for point in &target.points {
                for warning in &point.report.warnings {
                    let rate = number(point.rate_rps);
                    writeln!(f, "warning: {} at {rate}/s: {warning}", target.name)?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture::report;

    const RANGE: Range = Range {
        from_rps: 100.0,
        to_rps: 10_000.0,
        factor: 2.0,
        precision: 0.05,
        tries_max: 1,
    };

    /// The rates tried on a server that holds `limit_rps`.
    fn search(limit_rps: f64) -> (Vec<f64>, Search) {
        let mut search = Search::new(RANGE);
        let mut rates = Vec::new();
        while let Some(rate_rps) = search.next_rps() {
            rates.push(rate_rps);
            search.tried(rate_rps, rate_rps <= limit_rps);
        }
        (rates, search)
    }

    #[test]
    fn rates_rise_in_steps_and_then_close_in() {
        let (rates, search) = search(1_000.0);
        assert_eq!(rates[..5], [100.0, 200.0, 400.0, 800.0, 1_600.0]);
        let held = search.held_rps().unwrap();
        assert!(held <= 1_000.0 && held * 1.05 * 1.05 > 1_000.0, "{held}");
        let between = &rates[5..];
        assert!(between.iter().all(|rate| (800.0..1_600.0).contains(rate)));
        assert!(between.len() <= 4, "{rates:?}");
    }

    #[test]
    fn the_ends_of_the_range_are_ends() {
        let (rates, all) = search(1e9);
        assert_eq!(rates.last(), Some(&10_000.0));
        assert_eq!(all.held_rps(), Some(10_000.0));
        let (rates, none) = search(1.0);
        assert_eq!((rates.len(), none.held_rps()), (1, None));
    }

    #[test]
    fn a_rate_is_too_high_when_all_its_tries_broke_the_objective() {
        let mut search = Search::new(Range { tries_max: 3, ..RANGE });
        for is_kept in [false, false, true] {
            assert_eq!(search.next_rps(), Some(100.0));
            search.tried(100.0, is_kept);
        }
        for _ in 0..3 {
            assert_eq!(search.next_rps(), Some(200.0));
            search.tried(200.0, false);
        }
        assert_eq!(search.held_rps(), Some(100.0));
        assert!((100.0..200.0).contains(&search.next_rps().unwrap()));
    }

    #[test]
    fn failures_break_an_objective_of_latency() {
        let slo = ["GET.p99 < 1ms".parse().unwrap()];
        let point = SweepPoint::judge(10.0, &slo, report());
        assert!(!point.is_kept());
        assert_eq!(point.misses, ["GET: 10 of 100 requests failed"]);
        let mut whole = report();
        whole.types[0].summary.errors.clear();
        whole.types[0].summary.timeouts = 0;
        assert!(SweepPoint::judge(10.0, &slo, whole.clone()).is_kept());
        let slo = ["GET.p99 < 10us".parse().unwrap()];
        let point = SweepPoint::judge(10.0, &slo, whole.clone());
        assert!(point.misses[0].starts_with("GET.p99 < 10us: GET.p99 is 9"));
        whole.types[0].summary.rate_kept = Some(false);
        whole.types[0].summary.sent_rps = 1.0;
        let misses = SweepPoint::judge(10.0, &[], whole).misses;
        assert_eq!(misses, ["GET: only 1 requests per second were sent"]);
    }

    #[test]
    fn tables_show_what_is_held_and_why_not_more() {
        let slo = ["GET.p99 < 10us".parse().unwrap()];
        let mut kept = SweepPoint::judge(5.0, &[], report());
        kept.misses.clear();
        let sweep = SweepReport {
            schema: SWEEP_SCHEMA.to_owned(),
            slo: vec!["GET.p99 < 10us".to_owned()],
            range: RANGE,
            interrupted: false,
            targets: vec![Swept {
                name: "one".to_owned(),
                command: None,
                held_rps: Some(5.0),
                points: vec![kept, SweepPoint::judge(10.0, &slo, report())],
            }],
        };
        let text = sweep.to_string();
        assert!(text.contains("10.0/s: GET.p99 < 10us: GET.p99 is"), "{text}");
        assert_eq!(text.matches("odd.name").count(), 2);
        let json = serde_json::to_string(&sweep).unwrap();
        assert_eq!(serde_json::from_str::<SweepReport>(&json).unwrap(), sweep);
    }
}
