//! Settings of JSQ.

use serde::{Deserialize, Serialize};

use crate::error::PolicyError;
use crate::settings::check::{check, quantum};
use crate::settings::quantum::Quantum;

/// Which worker gets a request when several have the fewest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum JsqTies {
    /// The worker with the lowest number.
    LowestNumber,
    /// The worker whose unfinished requests have been served the most, which is Tiny Quanta's MSQ;
    /// of equals, the worker with the lowest number.
    MostServed,
}

/// Settings of JSQ with processor sharing. The default quantum is Tiny Quanta's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[non_exhaustive]
pub struct Jsq {
    /// As in [`Jbsq::quantum_us`](crate::Jbsq::quantum_us); the policy's own is 2.
    pub quantum_us: Quantum,
    /// Which of several equally short queues a request joins; that of the lowest number unless set.
    pub ties: JsqTies,
}

impl Default for Jsq {
    fn default() -> Self {
        Self { quantum_us: Quantum::Auto, ties: JsqTies::LowestNumber }
    }
}

impl Jsq {
    /// The quantum unless it is set or the machine needs a longer one, in microseconds.
    pub const OWN_QUANTUM_US: f64 = 2.0;

    quantum_setter! { Quantum::Us }
    setters! {
        ties: JsqTies,
    }

    pub(crate) fn validate(&self, _workers: usize) -> Result<(), PolicyError> {
        check("jsq", [quantum(self.quantum_us)])
    }
}
