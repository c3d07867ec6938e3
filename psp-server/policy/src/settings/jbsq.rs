//! Settings of JBSQ(k).

use serde::{Deserialize, Serialize};

use crate::error::PolicyError;
use crate::settings::check::{Setting, check, quantum};
use crate::settings::quantum::Quantum;

/// Settings of JBSQ(k). The defaults are Concord's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[non_exhaustive]
pub struct Jbsq {
    /// Most requests that a worker may have, the running one included. At least 1; 2 unless
    /// set.
    pub k: usize,
    /// How long a request keeps its worker while others wait for it, in microseconds. Unless
    /// set 5, or longer if the driver's preemption takes longer.
    pub quantum_us: Quantum,
}

impl Default for Jbsq {
    fn default() -> Self {
        Self { k: 2, quantum_us: Quantum::Auto }
    }
}

impl Jbsq {
    /// The quantum unless it is set or the machine needs a longer one, in microseconds.
    pub const OWN_QUANTUM_US: f64 = 5.0;

    quantum_setter! { Quantum::Us }
    setters! {
        k: usize,
    }

    pub(crate) fn validate(&self, _workers: usize) -> Result<(), PolicyError> {
        let bound = Setting::new("k", self.k, self.k > 0, "at least 1");
        check("jbsq", [bound, quantum(self.quantum_us)])
    }
}
