use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{PolicyError, Setting, check, micros, setters};

/// Settings of deficit round robin.
///
/// In a configuration file `quantum` is `quantum-us`, a whole number of microseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Drr {
    /// Service time that each type is given in a round. At least 1 us; 100 us unless set. Less is
    /// fairer over short times, more serves longer runs of one type.
    #[serde(rename = "quantum-us", with = "micros")]
    pub quantum: Duration,
}

impl Default for Drr {
    fn default() -> Self {
        Self {
            quantum: Duration::from_micros(100),
        }
    }
}

impl Drr {
    setters! {
        quantum: Duration,
    }

    pub(in super::super) fn validate(&self) -> Result<(), PolicyError> {
        let quantum_us = self.quantum.as_micros();
        let quantum = Setting::new("quantum-us", quantum_us, quantum_us > 0, "at least 1");
        check("drr", [quantum])
    }
}
