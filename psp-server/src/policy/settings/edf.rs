use serde::{Deserialize, Serialize};

use super::{PolicyError, Setting, check};

/// Settings of earliest deadline first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Edf {
    /// What a type without an SLO has for one, in mean service times. Above 0; 10 unless set.
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

    pub(in super::super) fn validate(&self) -> Result<(), PolicyError> {
        let slo_factor = Setting::new(
            "slo-factor",
            self.slo_factor,
            self.slo_factor.is_finite() && self.slo_factor > 0.0,
            "a finite number above 0",
        );
        check("edf", [slo_factor])
    }
}
