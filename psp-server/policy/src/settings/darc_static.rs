//! Settings of DARC-static.

use serde::{Deserialize, Serialize};

use crate::error::PolicyError;
use crate::settings::check::{Setting, check, delta};
use crate::settings::darc::Darc;

/// Settings of DARC-static.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[non_exhaustive]
pub struct DarcStatic {
    /// Workers reserved for the shortest group. Fewer than there are workers; 1 unless set.
    pub reserved: usize,
    /// As in [`Darc::delta`].
    pub delta: f64,
}

impl Default for DarcStatic {
    fn default() -> Self {
        Self { reserved: 1, delta: Darc::default().delta }
    }
}

impl DarcStatic {
    setters! {
        reserved: usize,
        delta: f64,
    }

    pub(crate) fn validate(&self, workers: usize) -> Result<(), PolicyError> {
        check(
            "darc-static",
            [
                Setting::new(
                    "reserved",
                    self.reserved,
                    self.reserved < workers,
                    format!("less than the number of workers, {workers}, or longer types never run"),
                ),
                delta(self.delta),
            ],
        )
    }
}
