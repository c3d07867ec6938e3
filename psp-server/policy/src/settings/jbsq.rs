//! Settings of JBSQ(k).

use serde::{Deserialize, Serialize};

use crate::error::PolicyError;
use crate::settings::check::{Setting, check, quantum_us};

/// Settings of JBSQ(k). The defaults are Concord's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[non_exhaustive]
pub struct Jbsq {
    /// Most requests that a worker may have, the running one included. At least 1; 2 unless
    /// set.
    pub k: usize,
    /// How long a request keeps its worker while others wait for it, in microseconds. At least
    /// 0.001; 5 unless set.
    pub quantum_us: f64,
}

impl Default for Jbsq {
    fn default() -> Self {
        Self {
            k: 2,
            quantum_us: 5.0,
        }
    }
}

impl Jbsq {
    quantum_setter! {}
    setters! {
        k: usize,
    }

    pub(crate) fn validate(&self, _workers: usize) -> Result<(), PolicyError> {
        let bound = Setting::new("k", self.k, self.k > 0, "at least 1");
        check("jbsq", [bound, quantum_us(self.quantum_us)])
    }
}
