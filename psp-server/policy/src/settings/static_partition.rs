//! Settings of the static partition.

use serde::{Deserialize, Serialize};

use crate::error::PolicyError;
use crate::settings::check::{check, delta};
use crate::settings::darc::Darc;

/// Settings of the static partition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[non_exhaustive]
pub struct StaticPartition {
    /// As in [`Darc::delta`].
    pub delta: f64,
}

impl Default for StaticPartition {
    fn default() -> Self {
        Self { delta: Darc::default().delta }
    }
}

impl StaticPartition {
    setters! {
        delta: f64,
    }

    pub(crate) fn validate(&self, _workers: usize) -> Result<(), PolicyError> {
        check("static-partition", [delta(self.delta)])
    }
}
