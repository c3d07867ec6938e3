//! Settings of Shinjuku's single queue.

use serde::{Deserialize, Serialize};

use crate::error::PolicyError;
use crate::settings::check::{check, quantum_us};
use crate::settings::requeue::Requeue;

/// Settings of Shinjuku's single queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[non_exhaustive]
pub struct Sq {
    /// How long a request keeps its worker while others wait, in microseconds. The paper has 5 to
    /// 15. At least 0.001; 5 unless set.
    pub quantum_us: f64,
    /// Where a preempted request goes; the tail unless set.
    pub requeue: Requeue,
    /// Whether a request keeps its worker if it should finish, by its type's measured service times,
    /// before a preemption would be over. Unless set, only if requests do not migrate
    /// ([`Contexts::migrates`](crate::Contexts::migrates)), as in live servers.
    pub spare_finishing: Option<bool>,
}

impl Default for Sq {
    fn default() -> Self {
        Self {
            quantum_us: 5.0,
            requeue: Requeue::Tail,
            spare_finishing: None,
        }
    }
}

impl Sq {
    quantum_setter! {}
    spare_finishing_setter! {}
    setters! {
        requeue: Requeue,
    }

    pub(crate) fn validate(&self, _workers: usize) -> Result<(), PolicyError> {
        check("sq", [quantum_us(self.quantum_us)])
    }
}
