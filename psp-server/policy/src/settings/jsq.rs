//! Settings of JSQ.

use serde::{Deserialize, Serialize};

use crate::error::PolicyError;
use crate::settings::check::{check, quantum_us};

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
    /// As in [`Jbsq::quantum_us`](crate::Jbsq::quantum_us); 2 unless set.
    pub quantum_us: f64,
    /// Which of several equally short queues a request joins; that of the lowest number unless set.
    pub ties: JsqTies,
}

impl Default for Jsq {
    fn default() -> Self {
        Self {
            quantum_us: 2.0,
            ties: JsqTies::LowestNumber,
        }
    }
}

impl Jsq {
    quantum_setter! {}
    setters! {
        ties: JsqTies,
    }

    pub(crate) fn validate(&self, _workers: usize) -> Result<(), PolicyError> {
        check("jsq", [quantum_us(self.quantum_us)])
    }
}
