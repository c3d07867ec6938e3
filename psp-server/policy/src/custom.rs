//! Policies from outside this crate.

use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use crate::error::PolicyError;
use crate::scheduler::Scheduler;
use crate::setup::SchedulerSetup;
use crate::traits::{Assigns, PreemptionUse};

type MakeScheduler = dyn Fn(&SchedulerSetup<'_>) -> Box<dyn Scheduler> + Send + Sync;

/// A policy from outside this crate: a name, and a function that makes its scheduler.
///
/// It equals its clones, and serialises as its name. Unless told otherwise it runs requests to
/// completion and has a dispatcher; [`Policy::custom`](crate::Policy::custom) is short for that.
#[derive(Clone)]
pub struct Custom {
    name: Arc<str>,
    make: Arc<MakeScheduler>,
    assigns: Assigns,
    preemption: PreemptionUse,
}

impl Custom {
    /// A policy called `name`, whose schedulers `scheduler` makes.
    pub fn new(
        name: &str,
        scheduler: impl Fn(&SchedulerSetup<'_>) -> Box<dyn Scheduler> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            make: Arc::new(scheduler),
            assigns: Assigns::Dispatcher,
            preemption: PreemptionUse::Never,
        }
    }

    /// Sets whether it preempts requests. A server refuses a policy that needs preemption where it
    /// has none.
    #[must_use]
    pub fn preemption(mut self, preemption: PreemptionUse) -> Self {
        self.preemption = preemption;
        self
    }

    /// Says that workers take requests from queues. The simulator then charges no dispatcher.
    #[must_use]
    pub fn without_dispatcher(mut self) -> Self {
        self.assigns = Assigns::Workers;
        self
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) const fn assigns(&self) -> Assigns {
        self.assigns
    }

    pub(crate) const fn preemption_use(&self) -> PreemptionUse {
        self.preemption
    }

    pub(crate) fn scheduler(&self, setup: &SchedulerSetup<'_>) -> Box<dyn Scheduler> {
        (self.make)(setup)
    }

    /// Refuses a name that is empty, or one of the names `taken`.
    pub(crate) fn validate(&self, taken: &[&'static str]) -> Result<(), PolicyError> {
        if self.name.is_empty() || taken.contains(&&*self.name) {
            return Err(PolicyError::CustomName(self.name.to_string()));
        }
        Ok(())
    }
}

impl PartialEq for Custom {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
            && Arc::ptr_eq(&self.make, &other.make)
            && self.assigns == other.assigns
            && self.preemption == other.preemption
    }
}

impl fmt::Debug for Custom {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Custom").field(&self.name).finish()
    }
}

impl Serialize for Custom {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.name)
    }
}
