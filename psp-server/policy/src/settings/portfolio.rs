//! Settings of the portfolio.

use serde::{Deserialize, Serialize};

use crate::error::PolicyError;
use crate::settings::check::{Setting, check, samples, slo_slowdown};
use crate::settings::darc_lending::DarcLending;

/// Settings of the portfolio.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[non_exhaustive]
pub struct Portfolio {
    /// The slowdown at p99.9 that a type without an SLO shall not exceed. Above 1; 10 unless set.
    pub slo_slowdown: f64,
    /// Arrivals before the first study. At least 1; 1024 unless set.
    pub first_study: u64,
    /// Requests in the longest trial of a candidate. From 64 to 4 194 304; 131 072 unless set, which is twice
    /// what is recorded.
    pub trial_requests: usize,
}

impl Default for Portfolio {
    fn default() -> Self {
        Self {
            slo_slowdown: DarcLending::default().slo_slowdown,
            first_study: 1_024,
            trial_requests: 131_072,
        }
    }
}

impl Portfolio {
    setters! {
        slo_slowdown: f64,
        first_study: u64,
        trial_requests: usize,
    }

    pub(crate) fn validate(&self, _workers: usize) -> Result<(), PolicyError> {
        check(
            "portfolio",
            [
                slo_slowdown(self.slo_slowdown),
                samples("first-study", self.first_study),
                Setting::new(
                    "trial-requests",
                    self.trial_requests,
                    (64..=4_194_304).contains(&self.trial_requests),
                    "from 64 to 4194304",
                ),
            ],
        )
    }
}
