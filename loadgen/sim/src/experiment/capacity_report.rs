//! Results of `psp-loadgen capacity`.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::capacity::{Capacity, Miss, Slo};
use super::conditions::{Conditions, Found};
use super::quantiles::absent;
use crate::simulator::SimPlan;
use crate::text::{Csv, Table, distinct, number};

/// Name and version of [`CapacityReport`]'s JSON. The version grows when a field changes its meaning
/// or goes away.
pub const CAPACITY_SCHEMA: &str = "psp-capacity/1";

/// The results of one call of `psp-loadgen capacity`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CapacityReport {
    /// [`CAPACITY_SCHEMA`].
    pub schema: String,
    /// The conditions of all searches.
    #[serde(flatten)]
    pub conditions: Conditions,
    /// The objective.
    pub slo: Slo,
    /// The tolerance of the search.
    pub tolerance: f64,
    /// Capacity of the only result; absent when there are more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_load: Option<f64>,
    /// The same in requests per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_rps: Option<f64>,
    /// One for each workload and policy, in this order.
    pub results: Vec<CapacityResult>,
}

/// The capacity of one policy for one workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CapacityResult {
    /// Name of the policy.
    pub policy: String,
    /// Name of the workload.
    pub workload: String,
    /// Number of workers.
    pub workers: usize,
    /// The highest load that kept the objective; 0 when no load did.
    pub capacity_load: f64,
    /// The same in requests per second.
    pub capacity_rps: f64,
    /// How the lowest load that missed the objective missed it; absent when none did.
    pub miss: Option<Miss>,
}

impl CapacityResult {
    /// Combines a plan and its capacity.
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

/// A load as text.
fn load(value: f64) -> String {
    format!("{value:.3}")
}

impl CapacityReport {
    /// Combines results.
    #[must_use]
    pub fn new(conditions: Conditions, slo: Slo, tolerance: f64, results: Vec<CapacityResult>) -> Self {
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
        let heads = ["policy", "workload", "workers", "capacity_load", "capacity_rps"];
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

impl CapacityReport {
    /// A title and a table with a row for each result.
    #[must_use]
    pub fn tables(&self) -> Vec<(String, Table)> {
        vec![(self.objective(), self.results_table())]
    }

    fn objective(&self) -> String {
        let Slo { slowdown, percentile, scope } = self.slo;
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
