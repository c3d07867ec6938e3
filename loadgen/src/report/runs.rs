//! A repeated run: the mean of each figure over the runs with its confidence interval.

use std::fmt;

use psp_sim::measure::{PERCENTILE_HEADS, Percentiles};
use psp_sim::text::{Csv, Table, number};
use serde::{Deserialize, Serialize};

use super::csv::csv_heads;
use super::run_report::Report;
use super::statistics::Estimate;
use super::summary::Summary;

/// Name and version of [`RunsReport`]'s JSON. The version grows when a field changes its meaning or
/// goes away.
pub const RUNS_SCHEMA: &str = "psp-runs/1";

/// Figures of several runs, for one type or for all types together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Folded<T> {
    /// Name of the type, or `overall`.
    pub name: String,
    /// Planned rate in requests per second.
    pub offered_rps: f64,
    /// Replies per second of the measured part; see [`Summary::achieved_rps`].
    pub achieved_rps: T,
    /// Errors, drops and timeouts.
    pub failed: T,
    /// Latency in microseconds; absent when a run has none.
    pub latency_us: Option<Percentiles<T>>,
    /// The same for calm requests; absent without witnesses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calm_latency_us: Option<Percentiles<T>>,
    /// Latency divided by the service time; absent if that is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slowdown: Option<Percentiles<T>>,
    /// Generator lag in microseconds.
    pub lag_us: Option<Percentiles<T>>,
}

impl<T: Copy> Folded<T> {
    /// The same as [`Summary::telling_us`].
    pub(crate) fn telling_us(&self) -> Option<Percentiles<T>> {
        self.calm_latency_us.or(self.latency_us)
    }
}

/// Folds each figure of each type over all runs. Runs with other types than the first run are left
/// out.
pub(crate) fn fold<T>(runs: &[Report], say: impl Fn(&[f64]) -> Option<T>) -> Vec<Folded<T>> {
    let Some(first) = runs.first() else {
        return Vec::new();
    };
    let names = first.summaries().map(|(name, _)| name);
    let of_type = |name: &str| {
        let summaries: Vec<&Summary> = runs
            .iter()
            .filter_map(|run| run.summaries().find(|(other, _)| *other == name))
            .map(|(_, summary)| summary)
            .collect();
        let over = |figure: &dyn Fn(&Summary) -> f64| {
            let values: Vec<f64> = summaries.iter().map(|summary| figure(summary)).collect();
            say(&values)
        };
        let points = |figure: fn(&Summary) -> Option<Percentiles>| {
            let runs: Vec<_> = summaries.iter().map(|summary| figure(summary)).collect();
            Percentiles::fold(&runs, &say)
        };
        Some(Folded {
            name: name.to_owned(),
            offered_rps: summaries.first()?.offered_rps,
            achieved_rps: over(&|summary| summary.achieved_rps)?,
            failed: over(&|summary| summary.failed() as f64)?,
            latency_us: points(|summary| summary.latency_us),
            calm_latency_us: points(|summary| summary.calm_latency_us),
            slowdown: points(|summary| summary.slowdown),
            lag_us: points(|summary| summary.lag_us),
        })
    };
    names.filter_map(of_type).collect()
}

/// Several runs of one plan, each with a seed of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunsReport {
    /// [`RUNS_SCHEMA`].
    pub schema: String,
    /// Means over the runs and their 95 % confidence intervals: each type, then all together.
    pub estimates: Vec<Folded<Estimate>>,
    /// The runs.
    pub runs: Vec<Report>,
}

impl RunsReport {
    /// Combines runs.
    #[must_use]
    pub fn new(runs: Vec<Report>) -> Self {
        Self {
            schema: RUNS_SCHEMA.to_owned(),
            estimates: fold(&runs, Estimate::of),
            runs,
        }
    }

    /// One line for each run and type, after a line of heads.
    #[must_use]
    pub fn csv(&self) -> String {
        let mut csv = Csv::new(csv_heads().iter().map(String::as_str));
        for run in &self.runs {
            run.push_csv(&mut csv);
        }
        csv.into_text()
    }
}

/// `12.3 ± 0.4`.
fn cell(estimate: Estimate) -> String {
    let mean = number(estimate.mean);
    match estimate.ci95 {
        Some(ci95) => format!("{mean} ± {}", number(ci95)),
        None => mean,
    }
}

/// A title and the percentiles under it.
type Points = (&'static str, fn(&Folded<Estimate>) -> Option<Percentiles<Estimate>>);

const POINTS: [Points; 4] = [
    ("latency, us", |folded| folded.latency_us),
    ("calm latency, us", |folded| folded.calm_latency_us),
    ("slowdown", |folded| folded.slowdown),
    ("generator lag, us", |folded| folded.lag_us),
];

impl RunsReport {
    /// Titles and tables: rates, then each kind of percentiles that the runs have.
    pub(crate) fn tables(&self) -> Vec<(String, Table)> {
        let mut rates = Table::new(1, ["", "offered/s", "achieved/s", "failed"]);
        for folded in &self.estimates {
            rates.push(vec![
                folded.name.clone(),
                number(folded.offered_rps),
                cell(folded.achieved_rps),
                cell(folded.failed),
            ]);
        }
        let mut tables = vec![("Rates: mean \u{b1} 95 % confidence".to_owned(), rates)];
        for (title, points) in POINTS {
            let mut table = Table::new(1, std::iter::once(title).chain(PERCENTILE_HEADS));
            for folded in &self.estimates {
                if let Some(points) = points(folded) {
                    let cells = points.columns().map(cell);
                    let name = std::iter::once(folded.name.clone());
                    table.push(name.chain(cells).collect());
                }
            }
            if !table.is_empty() {
                tables.push((format!("{title}: mean \u{b1} 95 % confidence"), table));
            }
        }
        tables
    }
}

/// The text tables.
impl fmt::Display for RunsReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(first) = self.runs.first() {
            writeln!(
                f,
                "{}: {} runs of {:.1} s, seeds from {}; mean and 95 % confidence interval",
                first.target,
                self.runs.len(),
                first.duration_s,
                first.seed,
            )?;
        }
        for (_, table) in self.tables() {
            write!(f, "\n{table}")?;
        }
        for (number, run) in (1..).zip(&self.runs) {
            for warning in &run.warnings {
                write!(f, "\nwarning: run {number}: {warning}")?;
            }
        }
        writeln!(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture::report;

    #[test]
    fn figures_have_means_and_intervals_over_the_runs() {
        let mut second = report();
        let latency = second.types[0].summary.latency_us.as_mut().unwrap();
        latency.p99 += 10.0;
        let p99 = report().types[0].summary.latency_us.unwrap().p99;
        let runs = RunsReport::new(vec![report(), second]);
        let [get, odd, overall] = &runs.estimates[..] else {
            panic!("two types and all");
        };
        assert_eq!([&get.name, &odd.name, &overall.name], ["GET", "odd.name", "overall"]);
        let estimate = get.latency_us.unwrap().p99;
        assert!((estimate.mean - p99 - 5.0).abs() < 1e-9);
        // Half the difference times t for one degree of freedom.
        assert!((estimate.ci95.unwrap() - 5.0 * 12.706).abs() < 1e-9);
        assert_eq!(get.failed.ci95, Some(0.0));
        assert_eq!(odd.latency_us, None);
        let text = runs.to_string();
        assert!(text.contains("± 63.5"), "{text}");
        let json = serde_json::to_string(&runs).unwrap();
        assert_eq!(serde_json::from_str::<RunsReport>(&json).unwrap(), runs);
        assert_eq!(runs.csv().lines().count(), 7);
    }

    #[test]
    fn one_run_has_no_interval() {
        let runs = RunsReport::new(vec![report()]);
        assert_eq!(runs.estimates[0].achieved_rps.ci95, None);
        assert!(!runs.to_string().contains('±'));
    }
}
