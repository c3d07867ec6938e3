//! Settings of Shinjuku's multi queue.

use serde::{Deserialize, Serialize};

use crate::error::PolicyError;
use crate::settings::check::{above_0, check, quantum};
use crate::settings::quantum::Quantum;
use crate::settings::requeue::Requeue;

/// Settings of Shinjuku's multi queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[non_exhaustive]
pub struct Mq {
    /// As in [`Sq::quantum_us`](crate::Sq::quantum_us).
    pub quantum_us: Quantum,
    /// Where a preempted request goes in its typed queue, by the service times of its type;
    /// automatic unless set.
    pub requeue: Requeue,
    /// SLO of a type that was registered without one, in mean service times. Above 0; 10 unless
    /// set. The paper has SLOs from runs of each type alone, which `psp-loadgen calibrate` simulates.
    pub slo_factor: f64,
    /// Whether a request that would be chosen again at once keeps its worker for another quantum.
    /// In the paper it is preempted and resumed. Off unless set.
    pub spare_chosen: bool,
    /// As in [`Sq::spare_finishing`](crate::Sq::spare_finishing).
    pub spare_finishing: Option<bool>,
}

impl Default for Mq {
    fn default() -> Self {
        Self {
            quantum_us: Quantum::Auto,
            requeue: Requeue::Automatic,
            slo_factor: 10.0,
            spare_chosen: false,
            spare_finishing: None,
        }
    }
}

impl Mq {
    /// The quantum unless it is set or the machine needs a longer one, in microseconds.
    pub const OWN_QUANTUM_US: f64 = 5.0;

    quantum_setter! { Quantum::Us }
    spare_finishing_setter! {}
    setters! {
        requeue: Requeue,
        slo_factor: f64,
        spare_chosen: bool,
    }

    pub(crate) fn validate(&self, _workers: usize) -> Result<(), PolicyError> {
        check("mq", [quantum(self.quantum_us), above_0("slo-factor", self.slo_factor)])
    }
}
