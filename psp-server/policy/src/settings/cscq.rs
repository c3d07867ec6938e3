//! Settings of cycle stealing with central queue.

use serde::{Deserialize, Serialize};

use crate::error::PolicyError;
use crate::settings::check::{Setting, check, delta};
use crate::settings::darc::Darc;

/// Settings of cycle stealing with central queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[non_exhaustive]
pub struct Cscq {
    /// Number of workers that never run long types at the same time. At least 1, and fewer than
    /// there are workers; unless set, as many as the short types need by their demand.
    pub reserved: Option<usize>,
    /// Types whose mean service time is at most this many times that of the shortest are short.
    /// At least 1; 2 unless set.
    pub delta: f64,
}

impl Default for Cscq {
    fn default() -> Self {
        Self { reserved: None, delta: Darc::default().delta }
    }
}

impl Cscq {
    setters! {
        delta: f64,
    }

    /// Sets [`reserved`](field@Self::reserved).
    #[must_use]
    pub fn reserved(mut self, reserved: usize) -> Self {
        self.reserved = Some(reserved);
        self
    }

    pub(crate) fn validate(&self, workers: usize) -> Result<(), PolicyError> {
        let fits = |reserved| (1..workers).contains(&reserved);
        let reserved = Setting::new(
            "reserved",
            self.reserved.unwrap_or_default(),
            self.reserved.is_none_or(fits),
            format!("at least 1 and less than the number of workers, {workers}"),
        );
        check("cscq", [reserved, delta(self.delta)])
    }
}
