//! Settings of DARC with lending.

use serde::{Deserialize, Serialize};

use crate::error::PolicyError;
use crate::settings::check::{Setting, at_least, check, slo_slowdown};
use crate::settings::darc::Darc;

/// Settings of DARC with lending: when it lends workers, when it takes them back, and DARC's own.
/// `docs/lending.md` has the rules.
///
/// A request's *allowance* is the time that it may wait: its type's SLO without the mean service
/// time and the cost of a preemption.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[non_exhaustive]
pub struct DarcLending {
    /// Time from arrival to completion, in mean service times, that a type without an SLO shall
    /// not exceed. Above 1; 10 unless set.
    pub slo_slowdown: f64,
    /// Largest part of its allowance that a request waits before a longer one is preempted for it. 0 to 1; 0.6 unless
    /// set.
    pub patience: f64,
    /// Smallest part of its allowance that a request waits before a longer one is preempted for it. 0 to 1; 0.1 unless
    /// set.
    pub patience_min: f64,
    /// How fast patience grows with the pressure on longer groups. The pressure is the largest part
    /// of its allowance that a longer request has waited. At least 0; 2 unless set.
    pub patience_per_pressure: f64,
    /// Part of its allowance that a request waits before it may borrow a worker that is reserved
    /// for a shorter group. 0 to 1; 0.05 unless set.
    pub borrow_after: f64,
    /// A group lends, and takes back, when a preemption costs no more than this part of the time
    /// that its requests may wait. At least 0; 0.65 unless set.
    pub cost_max: f64,
    /// In a group with widely spread service times, a request is aged when it has run for long: it may then be
    /// preempted for others of its group. A quarter of the group's work is beyond that age, but it is at most this many
    /// times the cost of a preemption. At least 3, which is also the least age that pays; 50 unless set.
    pub aged_after_costs: f64,
    /// As in [`Sq::spare_finishing`](crate::Sq::spare_finishing).
    pub spare_finishing: Option<bool>,
    /// DARC's own settings.
    pub darc: Darc,
}

impl Default for DarcLending {
    fn default() -> Self {
        Self {
            slo_slowdown: 10.0,
            patience: 0.6,
            patience_min: 0.1,
            patience_per_pressure: 2.0,
            borrow_after: 0.05,
            cost_max: 0.65,
            aged_after_costs: 50.0,
            spare_finishing: None,
            darc: Darc::default(),
        }
    }
}

impl DarcLending {
    spare_finishing_setter! {}
    setters! {
        slo_slowdown: f64,
        patience: f64,
        patience_min: f64,
        patience_per_pressure: f64,
        borrow_after: f64,
        cost_max: f64,
        aged_after_costs: f64,
        darc: Darc,
    }

    pub(crate) fn validate(&self, workers: usize) -> Result<(), PolicyError> {
        self.darc.validate(workers)?;
        let part = |name, value: f64| {
            let valid = (0.0..=1.0).contains(&value);
            Setting::new(name, value, valid, "a number from 0 to 1")
        };
        check(
            "darc-lending",
            [
                slo_slowdown(self.slo_slowdown),
                part("patience", self.patience),
                part("patience-min", self.patience_min),
                at_least("patience-per-pressure", self.patience_per_pressure, 0.0),
                part("borrow-after", self.borrow_after),
                at_least("cost-max", self.cost_max, 0.0),
                at_least("aged-after-costs", self.aged_after_costs, 3.0),
            ],
        )
    }
}
