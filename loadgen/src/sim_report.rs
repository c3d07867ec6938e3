//! What simulations found: JSON for programs, CSV for spreadsheets, tables for people.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::capacity::{Capacity, Miss, Slo};
use crate::csv::Csv;
use crate::report::Percentiles;
use crate::sim::{Outcome, SimPlan, SimPolicy, TypeOutcome};
use crate::sim_settings::SimSettings;
use crate::table::{Table, number};

/// Name and version of [`SimReport`]'s JSON. The version grows when a field changes its meaning or
/// goes away.
pub const SIM_SCHEMA: &str = "psp-sim/1";

/// The same for [`CapacityReport`].
pub const CAPACITY_SCHEMA: &str = "psp-capacity/1";

/// What all simulations of a report have in common.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Conditions {
    /// Arrivals that were measured.
    pub requests: u64,
    /// Arrivals before these.
    pub warmup: u64,
    /// Seed of arrivals, service times and the policy's lots.
    pub seed: u64,
    /// The simulated server.
    pub settings: SimSettings,
    /// The policies with their settings.
    pub policies: Vec<SimPolicy>,
    /// Whether the work was stopped before its end. What was not finished is left out.
    pub interrupted: bool,
}

/// What a command found, in all the forms in which it can be printed. [`fmt::Display`] is the form
/// for a terminal, [`Serialize`] that for programs.
pub trait Found: fmt::Display + Serialize {
    /// Comma-separated values under a line of heads.
    fn csv(&self) -> String;

    /// Tables in Markdown.
    fn markdown(&self) -> String;
}

/// The points of one call of `psp-loadgen sim`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SimReport {
    /// [`SIM_SCHEMA`].
    pub schema: String,
    /// How they were made.
    #[serde(flatten)]
    pub conditions: Conditions,
    /// One for each workload, policy and load, in this order.
    pub points: Vec<Point>,
}

/// One simulation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Name of the policy.
    pub policy: String,
    /// Name of the workload.
    pub workload: String,
    /// Number of workers.
    pub workers: usize,
    /// Offered load: the part of the workers' time that the requests' service takes.
    pub load: f64,
    /// The same in requests per second.
    pub offered_rps: f64,
    /// Requests that were completed.
    pub completed: u64,
    /// Requests that found their queue full.
    pub rejected: u64,
    /// The part of the workers' time that they spent on requests.
    pub utilization: f64,
    /// All requests.
    pub overall: Overall,
    /// Each type.
    pub types: Vec<TypePoint>,
}

/// The requests of all types together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Overall {
    /// Time from arrival to completion, divided by the request's own service time.
    pub slowdown: Quantiles,
}

/// One type's part of a [`Point`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TypePoint {
    /// Name of the type.
    pub name: String,
    /// Requests that were completed.
    pub completed: u64,
    /// Requests that found their queue full.
    pub rejected: u64,
    /// Time from arrival to completion, in microseconds.
    pub latency_us: Quantiles,
    /// The same divided by the request's own service time.
    pub slowdown: Quantiles,
}

/// Points of a distribution; absent when nothing was completed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    /// Median.
    pub p50: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
    /// 99.9th percentile.
    pub p999: Option<f64>,
    /// Maximum.
    pub max: Option<f64>,
}

/// The heads of columns of [`Quantiles`].
const QUANTILE_HEADS: [&str; 4] = ["p50", "p99", "p99.9", "max"];

impl Quantiles {
    fn of(percentiles: Option<Percentiles>) -> Self {
        Self {
            p50: percentiles.map(|points| points.p50),
            p99: percentiles.map(|points| points.p99),
            p999: percentiles.map(|points| points.p999),
            max: percentiles.map(|points| points.max),
        }
    }

    fn columns(&self) -> [Option<f64>; QUANTILE_HEADS.len()] {
        [self.p50, self.p99, self.p999, self.max]
    }

    fn cells(&self) -> impl Iterator<Item = String> {
        self.columns()
            .into_iter()
            .map(|value| value.map_or_else(absent, number))
    }

    fn csv(&self) -> impl Iterator<Item = String> {
        let exact = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
        self.columns().into_iter().map(exact)
    }
}

/// The cell of a figure that does not exist.
fn absent() -> String {
    "-".to_owned()
}

impl Point {
    /// Puts a plan and its outcome together.
    #[must_use]
    pub fn new(plan: &SimPlan, outcome: &Outcome) -> Self {
        Self {
            policy: plan.policy.to_string(),
            workload: plan.workload.name.clone(),
            workers: plan.workers,
            load: plan.load,
            offered_rps: outcome.offered_rps,
            completed: outcome.completed,
            rejected: outcome.rejected,
            utilization: outcome.utilization,
            overall: Overall {
                slowdown: Quantiles::of(outcome.overall.percentiles()),
            },
            types: outcome.types.iter().map(TypePoint::new).collect(),
        }
    }
}

impl TypePoint {
    fn new(ty: &TypeOutcome) -> Self {
        Self {
            name: ty.name.clone(),
            completed: ty.completed,
            rejected: ty.rejected,
            latency_us: Quantiles::of(ty.latency_us()),
            slowdown: Quantiles::of(ty.slowdown.percentiles()),
        }
    }
}

impl Conditions {
    /// How much was simulated.
    pub(crate) fn title(&self) -> String {
        let Self {
            requests,
            warmup,
            seed,
            ..
        } = self;
        let ending = if self.interrupted {
            "; interrupted"
        } else {
            ""
        };
        format!("{requests} requests after {warmup} of warm-up, seed {seed}{ending}")
    }
}

impl Found for SimReport {
    /// One line for each point and type.
    fn csv(&self) -> String {
        let mut csv = Csv::new([
            "policy",
            "workload",
            "workers",
            "load",
            "offered_rps",
            "utilization",
            "overall_slowdown_p50",
            "overall_slowdown_p99",
            "overall_slowdown_p999",
            "overall_slowdown_max",
            "type",
            "completed",
            "rejected",
            "latency_us_p50",
            "latency_us_p99",
            "latency_us_p999",
            "latency_us_max",
            "slowdown_p50",
            "slowdown_p99",
            "slowdown_p999",
            "slowdown_max",
        ]);
        for point in &self.points {
            for ty in &point.types {
                let start = [
                    point.policy.clone(),
                    point.workload.clone(),
                    point.workers.to_string(),
                    point.load.to_string(),
                    point.offered_rps.to_string(),
                    point.utilization.to_string(),
                ];
                let counts = [
                    ty.name.clone(),
                    ty.completed.to_string(),
                    ty.rejected.to_string(),
                ];
                csv.push(
                    start
                        .into_iter()
                        .chain(point.overall.slowdown.csv())
                        .chain(counts)
                        .chain(ty.latency_us.csv())
                        .chain(ty.slowdown.csv()),
                );
            }
        }
        csv.into_text()
    }

    /// The points, and the types of each.
    fn markdown(&self) -> String {
        let tables = [self.points_table(), self.types_table()];
        tables.map(|table| table.markdown()).join("\n")
    }
}

impl SimReport {
    /// Titles and tables: the points, and the types of each.
    pub(crate) fn tables(&self) -> Vec<(String, Table)> {
        vec![
            ("Simulations".to_owned(), self.points_table()),
            ("Types".to_owned(), self.types_table()),
        ]
    }

    fn points_table(&self) -> Table {
        let heads = [
            "workload",
            "policy",
            "load",
            "workers",
            "offered/s",
            "utilization",
            "completed",
            "rejected",
        ];
        let group = heads.len();
        let heads = heads.into_iter().chain(QUANTILE_HEADS);
        let mut table = Table::new(2, heads).group(group, "slowdown");
        for point in &self.points {
            let cells = [
                point.workload.clone(),
                point.policy.clone(),
                point.load.to_string(),
                point.workers.to_string(),
                number(point.offered_rps),
                format!("{:.3}", point.utilization),
                point.completed.to_string(),
                point.rejected.to_string(),
            ];
            let cells = cells.into_iter().chain(point.overall.slowdown.cells());
            table.push(cells.collect());
        }
        table
    }

    fn types_table(&self) -> Table {
        let heads = [
            "workload",
            "policy",
            "type",
            "load",
            "completed",
            "rejected",
        ];
        let groups = [heads.len(), heads.len() + QUANTILE_HEADS.len()];
        let heads = heads
            .into_iter()
            .chain(QUANTILE_HEADS)
            .chain(QUANTILE_HEADS);
        let mut table = Table::new(3, heads)
            .group(groups[0], "latency, us")
            .group(groups[1], "slowdown");
        for point in &self.points {
            for ty in &point.types {
                let cells = [
                    point.workload.clone(),
                    point.policy.clone(),
                    ty.name.clone(),
                    point.load.to_string(),
                    ty.completed.to_string(),
                    ty.rejected.to_string(),
                ];
                let cells = cells.into_iter().chain(ty.latency_us.cells());
                table.push(cells.chain(ty.slowdown.cells()).collect());
            }
        }
        table
    }
}

/// Two tables: the points, and the types of each.
impl fmt::Display for SimReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (points, types) = (self.points_table(), self.types_table());
        write!(f, "{}\n\n{points}\n{types}", self.conditions.title())
    }
}

/// The results of one call of `psp-loadgen capacity`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CapacityReport {
    /// [`CAPACITY_SCHEMA`].
    pub schema: String,
    /// How they were made.
    #[serde(flatten)]
    pub conditions: Conditions,
    /// What had to be kept.
    pub slo: Slo,
    /// How exactly loads were searched for.
    pub tolerance: f64,
    /// That of the only result; absent when there are more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_load: Option<f64>,
    /// That of the only result; absent when there are more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_rps: Option<f64>,
    /// One for each workload and policy, in this order.
    pub results: Vec<CapacityResult>,
}

/// What one policy bears of one workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CapacityResult {
    /// Name of the policy.
    pub policy: String,
    /// Name of the workload.
    pub workload: String,
    /// Number of workers.
    pub workers: usize,
    /// The highest load that kept the objective; 0 when none of those tried did.
    pub capacity_load: f64,
    /// The same in requests per second.
    pub capacity_rps: f64,
    /// How the lowest load that missed the objective missed it; absent when none did.
    pub miss: Option<Miss>,
}

impl CapacityResult {
    /// Puts a plan and what was found together.
    #[must_use]
    pub fn new(plan: &SimPlan, capacity: Capacity) -> Self {
        Self {
            policy: plan.policy.to_string(),
            workload: plan.workload.name.clone(),
            workers: plan.workers,
            capacity_load: capacity.load,
            capacity_rps: capacity.rps,
            miss: capacity.miss,
        }
    }
}

/// Decimals of a load in tables.
fn load(value: f64) -> String {
    format!("{value:.3}")
}

impl CapacityReport {
    /// Puts results together.
    #[must_use]
    pub fn new(
        conditions: Conditions,
        slo: Slo,
        tolerance: f64,
        results: Vec<CapacityResult>,
    ) -> Self {
        let only = match &results[..] {
            [only] if !conditions.interrupted => Some(only),
            _ => None,
        };
        Self {
            schema: CAPACITY_SCHEMA.to_owned(),
            conditions,
            slo,
            tolerance,
            capacity_load: only.map(|result| result.capacity_load),
            capacity_rps: only.map(|result| result.capacity_rps),
            results,
        }
    }
}

impl Found for CapacityReport {
    /// One line for each result.
    fn csv(&self) -> String {
        let heads = [
            "policy",
            "workload",
            "workers",
            "capacity_load",
            "capacity_rps",
        ];
        let mut csv = Csv::new(heads);
        for result in &self.results {
            csv.push([
                result.policy.clone(),
                result.workload.clone(),
                result.workers.to_string(),
                result.capacity_load.to_string(),
                result.capacity_rps.to_string(),
            ]);
        }
        csv.into_text()
    }

    /// Loads: a row for each policy, a column for each workload.
    fn markdown(&self) -> String {
        let workloads = distinct(self.results.iter().map(|result| result.workload.as_str()));
        let policies = distinct(self.results.iter().map(|result| result.policy.as_str()));
        let heads = std::iter::once("policy").chain(workloads.iter().copied());
        let mut table = Table::new(1, heads);
        for policy in policies {
            let cell = |workload: &&str| {
                let mut results = self.results.iter();
                results
                    .find(|result| result.policy == policy && result.workload == *workload)
                    .map_or_else(absent, |result| load(result.capacity_load))
            };
            let cells = workloads.iter().map(cell);
            table.push(std::iter::once(policy.to_owned()).chain(cells).collect());
        }
        table.markdown()
    }
}

/// The values in the order in which they come first.
pub(crate) fn distinct<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut distinct = Vec::new();
    for value in values {
        if !distinct.contains(&value) {
            distinct.push(value);
        }
    }
    distinct
}

impl CapacityReport {
    /// A title and a table with a row for each result.
    pub(crate) fn tables(&self) -> Vec<(String, Table)> {
        vec![(self.objective(), self.results_table())]
    }

    fn objective(&self) -> String {
        let Slo {
            slowdown,
            percentile,
            scope,
        } = self.slo;
        format!("slowdown of at most {slowdown} at percentile {percentile}, {scope}")
    }

    fn results_table(&self) -> Table {
        let heads = [
            "workload",
            "policy",
            "workers",
            "capacity",
            "requests/s",
            "missed at",
            "worst type",
            "slowdown",
            "rejected",
        ];
        let mut table = Table::new(2, heads);
        for result in &self.results {
            let miss = result.miss.as_ref();
            table.push(vec![
                result.workload.clone(),
                result.policy.clone(),
                result.workers.to_string(),
                load(result.capacity_load),
                number(result.capacity_rps),
                miss.map_or_else(absent, |miss| load(miss.load)),
                miss.map_or_else(absent, |miss| miss.name.clone()),
                miss.map_or_else(absent, |miss| number(miss.slowdown)),
                miss.map_or_else(absent, |miss| miss.rejected.to_string()),
            ]);
        }
        table
    }
}

/// A table with a row for each result.
impl fmt::Display for CapacityReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (objective, table) = (self.objective(), self.results_table());
        write!(f, "{objective}; {}\n\n{table}", self.conditions.title())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_the_order_of_their_first_place() {
        assert_eq!(
            distinct(["b", "a", "b", "c", "a"].into_iter()),
            ["b", "a", "c"]
        );
    }
}
