//! Settings of Shinjuku's single queue.

use serde::{Deserialize, Serialize};

use crate::error::PolicyError;
use crate::settings::check::{check, quantum};
use crate::settings::quantum::Quantum;
use crate::settings::requeue::Requeue;

/// Settings of Shinjuku's single queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[non_exhaustive]
pub struct Sq {
    /// How long a request keeps its worker while others wait, in microseconds. The paper has 5 to
    /// 15. Unless set 5, or longer if the driver's preemption takes longer.
    pub quantum_us: Quantum,
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
            quantum_us: Quantum::Auto,
            requeue: Requeue::Tail,
            spare_finishing: None,
        }
    }
}

impl Sq {
    /// The quantum unless it is set or the machine needs a longer one, in microseconds.
    pub const OWN_QUANTUM_US: f64 = 5.0;

    quantum_setter! { Quantum::Us }
    spare_finishing_setter! {}
    setters! {
        requeue: Requeue,
    }

    pub(crate) fn validate(&self, _workers: usize) -> Result<(), PolicyError> {
        check("sq", [quantum(self.quantum_us)])
    }
}
