//! Several targets measured in turn, round by round, under the same conditions.
//!
//! A machine's speed drifts. Runs of one round are close in time and share a seed. Each run is
//! compared with the first target's run of its own round, and the spread of the ratios over the
//! rounds tells how reliable they are.

use std::fmt;

use psp_sim::measure::{PERCENTILE_HEADS, Percentiles};
use psp_sim::text::{Table, number};
use serde::{Deserialize, Serialize};

use super::run_report::Report;
use super::runs::{Folded, fold};
use super::statistics::Spread;
use super::summary::Summary;

/// Name and version of [`CompareReport`]'s JSON. The version grows when a field changes its meaning
/// or goes away.
pub const COMPARE_SCHEMA: &str = "psp-compare/1";

/// The results of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CompareReport {
    /// [`COMPARE_SCHEMA`].
    pub schema: String,
    /// Rounds in which all targets were measured.
    pub rounds: usize,
    /// Whether it was stopped before its end.
    pub interrupted: bool,
    /// The targets, in the order in which they were given.
    pub targets: Vec<Compared>,
}

/// One target of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    /// Its name.
    pub name: String,
    /// The command that started it, if one did.
    pub command: Option<String>,
    /// Medians over the rounds and their spread: each type, then all together.
    pub medians: Vec<Folded<Spread>>,
    /// Its figures divided by those of the first target in the same round; empty for the first.
    pub ratios: Vec<Ratios>,
    /// Its runs, one for each round.
    pub runs: Vec<Report>,
}

/// The figures of one type as ratios to the first target's. Below 1 is lower.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ratios {
    /// Name of the type, or `overall`.
    pub name: String,
    /// Replies per second of the measured part; see [`Summary::achieved_rps`].
    pub achieved_rps: Option<Spread>,
    /// Latency; absent if a run has none.
    pub latency: Option<Percentiles<Spread>>,
}

impl CompareReport {
    /// Combines runs. Each target has a name, the command that started it, and its runs. Incomplete
    /// rounds are left out.
    #[must_use]
    pub fn new(targets: Vec<(String, Option<String>, Vec<Report>)>, interrupted: bool) -> Self {
        let rounds = targets.iter().map(|(_, _, runs)| runs.len()).min();
        let rounds = rounds.unwrap_or(0);
        let mut compared: Vec<Compared> = Vec::with_capacity(targets.len());
        for (name, command, mut runs) in targets {
            runs.truncate(rounds);
            let first = compared.first();
            let ratios = first.map_or_else(Vec::new, |first| ratios(&first.runs, &runs));
            compared.push(Compared {
                name,
                command,
                medians: fold(&runs, Spread::of),
                ratios,
                runs,
            });
        }
        Self {
            schema: COMPARE_SCHEMA.to_owned(),
            rounds,
            interrupted,
            targets: compared,
        }
    }

    /// Titles and tables: the medians of each target, and the ratios.
    pub(crate) fn tables(&self) -> Vec<(String, Table)> {
        let heads = ["type", "target", "achieved/s", "failed"].into_iter();
        let mut folded = self.targets.iter().flat_map(|target| &target.medians);
        let is_calm = folded.any(|folded| folded.calm_latency_us.is_some());
        let title = if is_calm { "calm latency, us" } else { "latency, us" };
        let mut medians = Table::new(2, heads.chain(PERCENTILE_HEADS)).group(4, title);
        let heads = ["type", "target", "achieved/s"].into_iter();
        let mut ratios = Table::new(2, heads.chain(PERCENTILE_HEADS)).group(3, "latency");
        let first = self.targets.first().map_or("", |first| first.name.as_str());
        let types = self.targets.first().map_or(&[][..], |first| &first.medians);
        for ty in types.iter().map(|folded| &folded.name) {
            for target in &self.targets {
                let names = [ty.clone(), target.name.clone()];
                if let Some(folded) = target.medians.iter().find(|folded| folded.name == *ty) {
                    let counts = [folded.achieved_rps, folded.failed];
                    let counts = counts.map(|spread| number(spread.median));
                    let points = latency_cells(folded.telling_us(), |spread| number(spread.median));
                    medians.push(names.iter().cloned().chain(counts).chain(points).collect());
                }
                if let Some(ratio) = target.ratios.iter().find(|ratio| ratio.name == *ty) {
                    let achieved = ratio.achieved_rps.map_or_else(absent, ratio_cell);
                    let points = latency_cells(ratio.latency, ratio_cell);
                    ratios.push(names.into_iter().chain([achieved]).chain(points).collect());
                }
            }
        }
        let mut tables = vec![(format!("Medians of {} rounds", self.rounds), medians)];
        if !ratios.is_empty() {
            let title = format!("Times {first}: median (least to greatest) over the rounds");
            tables.push((title, ratios));
        }
        tables
    }
}

fn absent() -> String {
    "-".to_owned()
}

fn latency_cells(
    points: Option<Percentiles<Spread>>,
    cell: impl Fn(Spread) -> String,
) -> [String; PERCENTILE_HEADS.len()] {
    let cells = points.map(|points| points.columns().map(cell));
    cells.unwrap_or_else(|| std::array::from_fn(|_| absent()))
}

/// `0.50 (0.48 to 0.61)`.
fn ratio_cell(spread: Spread) -> String {
    let [median, min, max] = [spread.median, spread.min, spread.max].map(number);
    format!("{median} ({min} to {max})")
}

fn ratios(first: &[Report], other: &[Report]) -> Vec<Ratios> {
    let Some(names) = first.first().map(Report::summaries) else {
        return Vec::new();
    };
    let of_type = |name: &str| {
        let find = |report: &'_ Report| -> Option<Summary> {
            let mut summaries = report.summaries();
            let (_, summary) = summaries.find(|(other, _)| *other == name)?;
            Some(summary.clone())
        };
        let rounds = first.iter().zip(other);
        let pairs: Option<Vec<(Summary, Summary)>> =
            rounds.map(|(first, other)| Some((find(first)?, find(other)?))).collect();
        let pairs = pairs?;
        let achieved: Vec<f64> = pairs
            .iter()
            .filter(|(first, _)| first.achieved_rps > 0.0)
            .map(|(first, other)| other.achieved_rps / first.achieved_rps)
            .collect();
        let latency: Vec<_> = pairs
            .iter()
            .map(|(first, other)| Some(other.telling_us()?.divided_by(&first.telling_us()?)))
            .collect();
        Some(Ratios {
            name: name.to_owned(),
            achieved_rps: Spread::of(&achieved),
            latency: Percentiles::fold(&latency, Spread::of),
        })
    };
    names.filter_map(|(name, _)| of_type(name)).collect()
}

/// The text tables.
impl fmt::Display for CompareReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (title, table) in self.tables() {
            writeln!(f, "{title}\n\n{table}")?;
        }
        for target in &self.targets {
            for (round, run) in (1..).zip(&target.runs) {
                for warning in &run.warnings {
                    writeln!(f, "warning: {}, round {round}: {warning}", target.name)?;
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

    /// The report with all latencies of `GET` multiplied.
    fn times(factor: f64) -> Report {
        let mut report = report();
        let latency = report.types[0].summary.latency_us.as_mut().unwrap();
        for point in [
            &mut latency.mean,
            &mut latency.p50,
            &mut latency.p90,
            &mut latency.p99,
            &mut latency.p999,
            &mut latency.p9999,
            &mut latency.max,
        ] {
            *point *= factor;
        }
        report
    }

    #[test]
    fn ratios_are_taken_round_by_round() {
        let first = vec![times(1.0), times(10.0), times(2.0)];
        let other = vec![times(2.0), times(30.0), times(1.0)];
        let targets = vec![("one".to_owned(), None, first), ("two".to_owned(), Some("start".to_owned()), other)];
        let compared = CompareReport::new(targets, false);
        let [one, two] = &compared.targets[..] else {
            panic!("two targets");
        };
        assert!(one.ratios.is_empty());
        let p99 = two.ratios[0].latency.unwrap().p99;
        let near = |value: f64, expected: f64| (value - expected).abs() < 1e-9;
        assert!(near(p99.median, 2.0) && near(p99.min, 0.5) && near(p99.max, 3.0));
        assert_eq!(two.ratios[1].latency, None);
        let base = times(1.0).types[0].summary.latency_us.unwrap().p99;
        let median = one.medians[0].latency_us.unwrap().p99;
        assert!(near(median.median, base * 2.0) && near(median.max, base * 10.0));
        let text = compared.to_string();
        assert!(text.contains("2.00 (0.50 to 3.00)"), "{text}");
        let json = serde_json::to_string(&compared).unwrap();
        assert_eq!(serde_json::from_str::<CompareReport>(&json).unwrap(), compared);
    }

    #[test]
    fn a_round_that_was_not_finished_is_left_out() {
        let targets = vec![
            ("one".to_owned(), None, vec![times(1.0), times(1.0)]),
            ("two".to_owned(), None, vec![times(1.0)]),
        ];
        let compared = CompareReport::new(targets, true);
        assert_eq!(compared.rounds, 1);
        assert!(compared.targets.iter().all(|target| target.runs.len() == 1));
        assert_eq!(CompareReport::new(Vec::new(), false).rounds, 0);
    }
}
