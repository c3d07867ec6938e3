//! Settings of earliest deadline first.

use serde::{Deserialize, Serialize};

use crate::error::PolicyError;
use crate::settings::check::{above_0, check};

/// Settings of earliest deadline first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[non_exhaustive]
pub struct Edf {
    /// SLO of a type that was registered without one, in mean service times. Above 0; 10 unless set.
    pub slo_factor: f64,
}

impl Default for Edf {
    fn default() -> Self {
        Self { slo_factor: 10.0 }
    }
}

impl Edf {
    setters! {
        slo_factor: f64,
    }

    pub(crate) fn validate(&self, _workers: usize) -> Result<(), PolicyError> {
        check("edf", [above_0("slo-factor", self.slo_factor)])
    }
}
