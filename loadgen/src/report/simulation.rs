//! A simulated server in a report.

use psp_sim::experiment::SimSettings;
use psp_sim::simulator::SimPolicy;
use serde::{Deserialize, Serialize};

/// A simulated server in a [`Report`](super::Report).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SimulationReport {
    /// Name and settings of the policy.
    pub policy: SimPolicy,
    /// Number of workers.
    pub workers: usize,
    /// Costs and other properties of the server.
    pub settings: SimSettings,
    /// Share of the workers' time that was service.
    pub utilization: f64,
    /// Share of the workers' time that was overhead.
    pub overhead: f64,
    /// Number of preemptions, warm-up included.
    pub preemptions: u64,
}
