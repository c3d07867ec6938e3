//! Where a preempted request waits.

use serde::{Deserialize, Serialize};

/// Where a preempted request waits (Shinjuku 3.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Requeue {
    /// At the head of its queue, which is then served in order of arrival.
    Head,
    /// At the tail of its queue, whose requests then take turns, as in processor sharing.
    Tail,
    /// By the measured dispersion of the service times: at the tail where they are heavy-tailed or
    /// multi-modal, at the head where they are not. A request that has run for ten mean service times of its type goes
    /// to the tail, too.
    Automatic,
}

impl Requeue {
    /// Whether requests go to the tail. `wide` says whether service times are heavy-tailed or
    /// multi-modal, if that is known; `None` if the answer depends on it and it is not.
    pub(crate) fn is_tail(self, wide: impl FnOnce() -> Option<bool>) -> Option<bool> {
        match self {
            Self::Head => Some(false),
            Self::Tail => Some(true),
            Self::Automatic => wide(),
        }
    }
}
