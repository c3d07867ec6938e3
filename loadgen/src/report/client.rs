//! The generator's part of the conditions.

use std::ffi::CStr;

use psp_sim::parallel;
use serde::{Deserialize, Serialize};

use crate::schedule::{RunPlan, Waiting};

/// The generator's part of the conditions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Client {
    /// Its version.
    pub version: String,
    /// Operating system and its release.
    pub system: String,
    /// Cores that it could use.
    pub cores: usize,
    /// How its threads waited: `busy-poll` or `spin-N-us`; `virtual-time` for a simulation.
    pub waiting: String,
    /// Limit of requests in flight on one connection; 0 without connections.
    pub pipeline: usize,
    /// Timeout of a request in seconds; 0 without a timeout.
    pub timeout_s: f64,
}

impl Client {
    pub(super) fn new(plan: &RunPlan) -> Self {
        Self {
            waiting: match plan.waiting {
                Waiting::BusyPoll => "busy-poll".to_owned(),
                Waiting::SleepThenSpin(spin) => format!("spin-{}-us", spin.as_micros()),
            },
            pipeline: plan.pipeline,
            timeout_s: plan.timeout.as_secs_f64(),
            ..Self::simulated()
        }
    }

    /// A client without connections and timeouts.
    pub(crate) fn simulated() -> Self {
        let uname = rustix::system::uname();
        let part = |text: &CStr| text.to_string_lossy().into_owned();
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            system: format!("{} {}", part(uname.sysname()), part(uname.release())),
            cores: parallel::cores(),
            waiting: "virtual-time".to_owned(),
            pipeline: 0,
            timeout_s: 0.0,
        }
    }
}
