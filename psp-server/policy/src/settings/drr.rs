//! Settings of deficit round robin.

use serde::{Deserialize, Serialize};

use crate::error::PolicyError;
use crate::settings::check::{check, quantum_us};

/// Settings of deficit round robin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[non_exhaustive]
pub struct Drr {
    /// Service time that each type is given in a round, in microseconds. At least 0.001; 100 unless
    /// set. Less is fairer over short times, more serves longer runs of one type.
    pub quantum_us: f64,
}

impl Default for Drr {
    fn default() -> Self {
        Self { quantum_us: 100.0 }
    }
}

impl Drr {
    quantum_setter! {}

    pub(crate) fn validate(&self, _workers: usize) -> Result<(), PolicyError> {
        check("drr", [quantum_us(self.quantum_us)])
    }
}
