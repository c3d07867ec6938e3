//! Settings of the policies whose dispatcher fills a queue per worker.

use serde::{Deserialize, Serialize};

use super::super::config::PolicyError;
use super::{Setting, check, quantum_us};

/// Settings of JBSQ(k). The defaults are Concord's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Jbsq {
    /// Most requests that a worker may have, the one that it runs included. At least 1; 2 unless
    /// set.
    pub k: usize,
    /// How long a request keeps its worker while others wait for it, in microseconds. At least
    /// 0.001; 5 unless set.
    pub quantum_us: f64,
}

impl Default for Jbsq {
    fn default() -> Self {
        Self {
            k: 2,
            quantum_us: 5.0,
        }
    }
}

impl Jbsq {
    quantum_setter! {}
    setters! {
        k: usize,
    }

    pub(in super::super) fn validate(&self) -> Result<(), PolicyError> {
        let bound = Setting::new("k", self.k, self.k > 0, "at least 1");
        check("jbsq", [bound, quantum_us(self.quantum_us)])
    }
}

/// Which worker gets a request when several have the fewest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JsqTies {
    /// The one with the lowest number.
    LowestNumber,
    /// The one whose unfinished requests have been served the most, which is Tiny Quanta's MSQ;
    /// of equals, the one with the lowest number.
    MostServed,
}

/// Settings of JSQ with processor sharing. The default quantum is Tiny Quanta's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Jsq {
    /// As in [`Jbsq::quantum_us`]; 2 unless set.
    pub quantum_us: f64,
    /// Which of several equally short queues is joined; that of the lowest number unless set.
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

    pub(in super::super) fn validate(&self) -> Result<(), PolicyError> {
        check("jsq", [quantum_us(self.quantum_us)])
    }
}
