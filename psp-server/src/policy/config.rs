//! Which policy, with which settings: the user's side.

use super::c_fcfs::CFcfs;
use super::{Scheduler, SchedulerSetup};

/// A policy and its settings. Building one costs nothing; [`Policy::scheduler`] makes the state
/// machine.
#[derive(Debug, Clone, PartialEq)]
pub enum Policy {
    /// One queue, any idle worker.
    CFcfs,
}

impl Policy {
    /// Centralised first come, first served.
    #[must_use]
    pub fn c_fcfs() -> Self {
        Self::CFcfs
    }

    /// Makes the scheduler for a given number of workers and table of types.
    #[must_use]
    pub fn scheduler(&self, setup: &SchedulerSetup<'_>) -> Box<dyn Scheduler> {
        match self {
            Self::CFcfs => Box::new(CFcfs::new(setup)),
        }
    }
}
