//! Settings of DARC without a dispatcher.

use serde::{Deserialize, Serialize};

use crate::error::PolicyError;
use crate::settings::check::{at_least, check, slo_slowdown};
use crate::settings::darc::Darc;

/// Settings of DARC without a dispatcher: whether and when workers are lent, and DARC's own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[non_exhaustive]
pub struct DarcDistributed {
    /// Whether workers that find nothing of their own groups run requests of longer ones, and are taken back by
    /// preemption. On unless set; without effect where requests cannot be preempted.
    pub lends: bool,
    /// As in [`DarcLending`](field@crate::DarcLending::slo_slowdown). Above 1; 10 unless set.
    pub slo_slowdown: f64,
    /// A group lends its workers when a preemption costs no more than this part of the time that its requests may
    /// wait. At least 0; 0.65 unless set.
    pub cost_max: f64,
    /// DARC's own settings.
    pub darc: Darc,
}

impl Default for DarcDistributed {
    fn default() -> Self {
        Self {
            lends: true,
            slo_slowdown: 10.0,
            cost_max: 0.65,
            darc: Darc::default(),
        }
    }
}

impl DarcDistributed {
    setters! {
        lends: bool,
        slo_slowdown: f64,
        cost_max: f64,
        darc: Darc,
    }

    pub(crate) fn validate(&self, workers: usize) -> Result<(), PolicyError> {
        self.darc.validate(workers)?;
        check(
            "darc-distributed",
            [slo_slowdown(self.slo_slowdown), at_least("cost-max", self.cost_max, 0.0)],
        )
    }
}
