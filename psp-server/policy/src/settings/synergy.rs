//! Settings of Synergy.

use serde::{Deserialize, Serialize};

use crate::error::PolicyError;
use crate::settings::check::{Setting, above_0, at_least, check, quantum_us};

/// Settings of Synergy. The defaults are those of the paper's comparison (V-A) and, where the paper
/// gives no number, of the published implementation. The last four switch parts of it off, as in its
/// breakdown by components (V-B.1).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[non_exhaustive]
pub struct Synergy {
    /// Service time that a worker assumes of short requests before it ran any, and the quantum itself
    /// if that is not adaptive; in microseconds. At least 0.001; 5 unless set.
    pub quantum_us: f64,
    /// Quantum of long requests, in service times of short ones (`QUANTUM_FACTOR`, II-A.2). Above
    /// 0; 2 unless set.
    pub quantum_factor: f64,
    /// The same while the wait queue is congested (`CONGESTED_QUANTUM_FACTOR`, II-B.1). Above 0;
    /// 10 unless set.
    pub congested_quantum_factor: f64,
    /// How long preempted requests wait until the wait queue is congested, in microseconds
    /// (`THRESH_WQD`, II-B.1). 0, the default, is for ever.
    pub congestion_threshold_us: f64,
    /// Weight of a short request in its worker's moving average (II-A.2). Above 0, at most 1; 0.5
    /// unless set.
    pub ema_weight: f64,
    /// Workers steal only from queues with more requests than this (`STEAL_THRESHOLD`, II-A.1). 1
    /// unless set.
    pub steal_threshold: usize,
    /// The same for queues of workers that run a long request, which are tried first. 0 unless
    /// set.
    pub steal_threshold_long: usize,
    /// A type is long when its mean service time is more than this many times that of the shortest
    /// type. At least 1; 10 unless set.
    pub long_factor: f64,
    /// Whether idle workers steal.
    pub stealing: bool,
    /// Whether preempted requests wait in a queue that all workers share; else they go to the tail
    /// of their worker's own.
    pub wait_queue: bool,
    /// Whether a request is preempted only for others in its worker's own queue; else it is
    /// preempted at the end of every quantum.
    pub conditional_preemption: bool,
    /// Whether the quantum follows the service times of short requests.
    pub adaptive_quantum: bool,
}

impl Default for Synergy {
    fn default() -> Self {
        Self {
            quantum_us: 5.0,
            quantum_factor: 2.0,
            congested_quantum_factor: 10.0,
            congestion_threshold_us: 0.0,
            ema_weight: 0.5,
            steal_threshold: 1,
            steal_threshold_long: 0,
            long_factor: 10.0,
            stealing: true,
            wait_queue: true,
            conditional_preemption: true,
            adaptive_quantum: true,
        }
    }
}

impl Synergy {
    quantum_setter! {}
    setters! {
        quantum_factor: f64,
        congested_quantum_factor: f64,
        congestion_threshold_us: f64,
        ema_weight: f64,
        steal_threshold: usize,
        steal_threshold_long: usize,
        long_factor: f64,
        stealing: bool,
        wait_queue: bool,
        conditional_preemption: bool,
        adaptive_quantum: bool,
    }

    pub(crate) fn validate(&self, _workers: usize) -> Result<(), PolicyError> {
        check(
            "synergy",
            [
                quantum_us(self.quantum_us),
                above_0("quantum-factor", self.quantum_factor),
                above_0("congested-quantum-factor", self.congested_quantum_factor),
                at_least("congestion-threshold-us", self.congestion_threshold_us, 0.0),
                Setting::new(
                    "ema-weight",
                    self.ema_weight,
                    self.ema_weight > 0.0 && self.ema_weight <= 1.0,
                    "a number above 0 and at most 1",
                ),
                at_least("long-factor", self.long_factor, 1.0),
            ],
        )
    }
}
