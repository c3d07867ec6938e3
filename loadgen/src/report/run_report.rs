//! The report of a run, in the form of its JSON.

use psp_sim::workload::ArrivalProcess;
use serde::{Deserialize, Serialize};

use super::client::Client;
use super::simulation::SimulationReport;
use super::summary::Summary;
use crate::record::TimelinePoint;

/// Name and version of [`Report`]'s JSON. The version is [`SCHEMA_VERSION`].
pub const SCHEMA: &str = "psp-run/1";

/// Version of [`Report`]'s JSON. It grows when a field changes its meaning or goes away.
pub const SCHEMA_VERSION: u32 = 1;

/// The results of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The target.
    pub target: String,
    /// What triggered requests.
    #[serde(default)]
    pub mode: Mode,
    /// How arrivals were distributed if they were drawn.
    pub arrivals: ArrivalProcess,
    /// The closed loop; absent for an open loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_loop: Option<ClosedLoopReport>,
    /// The recorded requests; absent without a trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceReport>,
    /// The simulated server; absent for a live server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulation: Option<SimulationReport>,
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
    /// Fraction of the measured time in which a core of the generator's machine was stalled; absent
    /// without witnesses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalled_share: Option<f64>,
    /// Whether the run was interrupted.
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

/// What triggered requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// The schedule. Latency counts from the intended send time.
    #[default]
    Open,
    /// Replies to earlier requests. Latency counts from the actual send.
    Closed,
}

/// A closed loop in a [`Report`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClosedLoopReport {
    /// Limit of requests in flight.
    pub outstanding: usize,
    /// Whether the limit applies to each type, not to all types together.
    pub per_type: bool,
    /// Time between a reply and the next request in microseconds.
    pub think_us: f64,
}

/// Recorded requests in a [`Report`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TraceReport {
    /// The file.
    pub file: String,
    /// Replay speed as a multiple of the recorded speed; absent if requests were sent at a rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed: Option<f64>,
}

/// One type's part of a [`Report`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TypeReport {
    /// Name of the type.
    pub name: String,
    /// Whether it was on the thread of slow types.
    pub slow_thread: bool,
    /// Connections of its own; 0 for datagrams.
    pub connections: usize,
    /// Service time of the requests before dilation, in microseconds.
    pub service_us: Option<f64>,
    /// Counts and percentiles.
    #[serde(flatten)]
    pub summary: Summary,
    /// One point for each second of the measurement.
    pub timeline: Vec<TimelinePoint>,
}

/// The name of all types together.
pub const OVERALL: &str = "overall";

impl Report {
    /// Names and figures of all types, and of all of them together.
    pub fn summaries(&self) -> impl Iterator<Item = (&str, &Summary)> {
        let types = self.types.iter().map(|ty| (ty.name.as_str(), &ty.summary));
        types.chain(std::iter::once((OVERALL, &self.overall)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture::report;

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
}
