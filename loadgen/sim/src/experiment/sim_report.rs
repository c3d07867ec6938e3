//! Results of `psp-loadgen sim`.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::conditions::{Conditions, Found};
use super::quantiles::{QUANTILE_HEADS, Quantiles};
use crate::simulator::{Outcome, SimPlan, TypeOutcome};
use crate::text::{Csv, Table, number};

/// Name and version of [`SimReport`]'s JSON. The version grows when a field changes its meaning or
/// goes away.
pub const SIM_SCHEMA: &str = "psp-sim/1";

/// The points of one call of `psp-loadgen sim`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SimReport {
    /// [`SIM_SCHEMA`].
    pub schema: String,
    /// The conditions of all simulations.
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
    /// Number of workers; the most if they come and go.
    pub workers: usize,
    /// Workers that came and went, if they did so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elastic: Option<ElasticPoint>,
    /// Offered load: the part of the workers' time that the requests' service takes.
    pub load: f64,
    /// The same in requests per second.
    pub offered_rps: f64,
    /// Requests that were completed.
    pub completed: u64,
    /// Requests that were rejected because their queue was full.
    pub rejected: u64,
    /// Requests that admission refused.
    #[serde(default)]
    pub refused: u64,
    /// Requests that were let in, and dropped when their turn came too late.
    #[serde(default)]
    pub dropped: u64,
    /// Further attempts of clients.
    #[serde(default)]
    pub retried: u64,
    /// The part of the workers' time that went to requests which ended in time.
    #[serde(default)]
    pub goodput: f64,
    /// The part of the workers' time that they spent on requests.
    pub utilization: f64,
    /// Workers that idled though requests waited which might not run there, on average.
    #[serde(default)]
    pub reserved_idle_cores: f64,
    /// All requests.
    pub overall: Overall,
    /// Each type.
    pub types: Vec<TypePoint>,
}

/// Workers that came and went.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ElasticPoint {
    /// The fewest that could be present.
    pub workers_min: usize,
    /// How many were present, on average over time.
    pub workers_mean: f64,
    /// Time for which workers were present, of all together, in seconds.
    pub core_seconds: f64,
    /// How often one came or went.
    pub changes: u64,
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
    /// Requests that were rejected because their queue was full.
    pub rejected: u64,
    /// Requests that admission refused.
    #[serde(default)]
    pub refused: u64,
    /// Requests that were let in, and dropped when their turn came too late.
    #[serde(default)]
    pub dropped: u64,
    /// The part of all workers' time that went to requests of the type which ended in time.
    #[serde(default)]
    pub goodput: f64,
    /// Time from arrival to completion, in microseconds.
    pub latency_us: Quantiles,
    /// The same divided by the request's own service time.
    pub slowdown: Quantiles,
}

impl Point {
    /// Combines a plan and its outcome.
    #[must_use]
    pub fn new(plan: &SimPlan, outcome: &Outcome) -> Self {
        Self {
            policy: plan.policy.to_string(),
            workload: plan.workload.name.clone(),
            workers: plan.workers,
            elastic: plan.elastic.map(|elastic| ElasticPoint {
                workers_min: elastic.workers_min,
                workers_mean: outcome.workers_mean,
                core_seconds: outcome.workers_mean * outcome.duration_ns as f64 / 1e9,
                changes: outcome.worker_changes,
            }),
            load: plan.load,
            offered_rps: outcome.offered_rps,
            completed: outcome.completed,
            rejected: outcome.rejected,
            refused: outcome.refused,
            dropped: outcome.dropped,
            retried: outcome.retried,
            goodput: outcome.goodput,
            utilization: outcome.utilization,
            reserved_idle_cores: outcome.reserved_idle_cores,
            overall: Overall { slowdown: Quantiles::of(outcome.overall.percentiles()) },
            types: outcome.types.iter().map(TypePoint::new).collect(),
        }
    }
}

impl Point {
    /// Number of workers; if they come and go, how many are present on average, too.
    fn workers_cell(&self) -> String {
        match &self.elastic {
            None => self.workers.to_string(),
            Some(elastic) => format!("{:.2} of {}", elastic.workers_mean, self.workers),
        }
    }
}

impl TypePoint {
    fn new(ty: &TypeOutcome) -> Self {
        Self {
            name: ty.name.clone(),
            completed: ty.completed,
            rejected: ty.rejected,
            refused: ty.refused.iter().sum(),
            dropped: ty.dropped,
            goodput: ty.goodput,
            latency_us: Quantiles::of(ty.latency_us()),
            slowdown: Quantiles::of(ty.slowdown.percentiles()),
        }
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
            "goodput",
            "overall_slowdown_p50",
            "overall_slowdown_p99",
            "overall_slowdown_p999",
            "overall_slowdown_max",
            "type",
            "completed",
            "rejected",
            "refused",
            "dropped",
            "type_goodput",
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
                    point.goodput.to_string(),
                ];
                let counts = [ty.completed, ty.rejected, ty.refused, ty.dropped].map(|count| count.to_string());
                csv.push(
                    start
                        .into_iter()
                        .chain(point.overall.slowdown.csv())
                        .chain([ty.name.clone()])
                        .chain(counts)
                        .chain([ty.goodput.to_string()])
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
    #[must_use]
    pub fn tables(&self) -> Vec<(String, Table)> {
        vec![("Simulations".to_owned(), self.points_table()), ("Types".to_owned(), self.types_table())]
    }

    fn points_table(&self) -> Table {
        let heads = [
            "workload",
            "policy",
            "load",
            "workers",
            "offered/s",
            "utilization",
            "goodput",
            "completed",
            "rejected",
            "refused",
            "dropped",
        ];
        let group = heads.len();
        let heads = heads.into_iter().chain(QUANTILE_HEADS);
        let mut table = Table::new(2, heads).group(group, "slowdown");
        for point in &self.points {
            let cells = [
                point.workload.clone(),
                point.policy.clone(),
                point.load.to_string(),
                point.workers_cell(),
                number(point.offered_rps),
                format!("{:.3}", point.utilization),
                format!("{:.3}", point.goodput),
                point.completed.to_string(),
                point.rejected.to_string(),
                point.refused.to_string(),
                point.dropped.to_string(),
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
            "goodput",
            "completed",
            "rejected",
            "refused",
            "dropped",
        ];
        let groups = [heads.len(), heads.len() + QUANTILE_HEADS.len()];
        let heads = heads.into_iter().chain(QUANTILE_HEADS).chain(QUANTILE_HEADS);
        let mut table = Table::new(3, heads).group(groups[0], "latency, us").group(groups[1], "slowdown");
        for point in &self.points {
            for ty in &point.types {
                let cells = [
                    point.workload.clone(),
                    point.policy.clone(),
                    ty.name.clone(),
                    point.load.to_string(),
                    format!("{:.3}", ty.goodput),
                    ty.completed.to_string(),
                    ty.rejected.to_string(),
                    ty.refused.to_string(),
                    ty.dropped.to_string(),
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
