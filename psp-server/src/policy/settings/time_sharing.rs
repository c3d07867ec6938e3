//! Settings of Shinjuku's policies.

use serde::{Deserialize, Serialize};

use super::super::config::PolicyError;
use super::{Setting, check, quantum_us};

/// Where a preempted request goes on waiting (Shinjuku 3.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Requeue {
    /// At the head of its queue, which is then served in order of arrival.
    Head,
    /// At the tail of its queue, whose requests then take turns, as in processor sharing.
    Tail,
    /// By the measured dispersion of the service times: at the tail where they are heavy-tailed or
    /// multi-modal, at the head where they are not.
    Automatic,
}

impl Requeue {
    /// Whether that is the tail, where `wide` says if service times are heavy-tailed or
    /// multi-modal. `None` when it depends on that and nobody knows.
    pub(in super::super) fn is_tail(self, wide: impl FnOnce() -> Option<bool>) -> Option<bool> {
        match self {
            Self::Head => Some(false),
            Self::Tail => Some(true),
            Self::Automatic => wide(),
        }
    }
}

/// Settings of Shinjuku's single queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Sq {
    /// How long a request keeps its worker while others wait, in microseconds. The paper has 5 to
    /// 15. At least 0.001; 5 unless set.
    pub quantum_us: f64,
    /// Where a preempted request goes; the tail unless set.
    pub requeue: Requeue,
    /// Whether a request keeps its worker that should finish, by what was measured of its type,
    /// before a preemption would be over. Unless set, where requests do not migrate
    /// ([`Preemption::migrates`](crate::policy::Preemption::migrates)), as in live servers.
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

    pub(in super::super) fn validate(&self) -> Result<(), PolicyError> {
        check("sq", [quantum_us(self.quantum_us)])
    }
}

/// Settings of Shinjuku's multi queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Mq {
    /// As in [`Sq::quantum_us`].
    pub quantum_us: f64,
    /// Where a preempted request goes in its typed queue, by the service times of its type;
    /// automatic unless set.
    pub requeue: Requeue,
    /// SLO of a type that was registered without one, in mean service times. Above 0; 10 unless
    /// set.
    pub slo_factor: f64,
    /// Whether a request that would be chosen again at once keeps its worker for another quantum.
    /// In the paper it is preempted and resumed. Off unless set.
    pub spare_chosen: bool,
    /// As in [`Sq::spare_finishing`].
    pub spare_finishing: Option<bool>,
}

impl Default for Mq {
    fn default() -> Self {
        Self {
            quantum_us: Sq::default().quantum_us,
            requeue: Requeue::Automatic,
            slo_factor: 10.0,
            spare_chosen: false,
            spare_finishing: None,
        }
    }
}

impl Mq {
    quantum_setter! {}
    spare_finishing_setter! {}
    setters! {
        requeue: Requeue,
        slo_factor: f64,
        spare_chosen: bool,
    }

    pub(in super::super) fn validate(&self) -> Result<(), PolicyError> {
        check(
            "mq",
            [
                quantum_us(self.quantum_us),
                Setting::new(
                    "slo-factor",
                    self.slo_factor,
                    self.slo_factor.is_finite() && self.slo_factor > 0.0,
                    "a finite number above 0",
                ),
            ],
        )
    }
}
