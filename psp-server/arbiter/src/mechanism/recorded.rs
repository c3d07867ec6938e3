//! A mechanism that moves nothing and records what it was asked for: for tests.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use super::contract::Mechanism;
use super::error::MechanismError;
use super::kind::Kind;
use crate::cores::{CoreId, CoreSet};
use crate::thread::ThreadId;

/// What the mechanism was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// [`Mechanism::grant`].
    Grant(CoreId, ThreadId),
    /// [`Mechanism::vacate`].
    Vacate(CoreId),
    /// [`Mechanism::set_unmanaged`].
    Unmanaged(CoreSet),
    /// [`Mechanism::stop`].
    Stop,
}

/// A mechanism that moves nothing. Clones share the record.
#[derive(Debug, Clone)]
pub struct Recorded {
    cores: CoreSet,
    on_core: BTreeMap<CoreId, ThreadId>,
    steps: Arc<Mutex<Vec<Step>>>,
}

impl Recorded {
    /// A machine with these cores, on which an earlier arbiter left these threads.
    pub fn new(cores: CoreSet, left: impl IntoIterator<Item = (CoreId, ThreadId)>) -> Self {
        Self {
            cores,
            on_core: left.into_iter().collect(),
            steps: Arc::default(),
        }
    }

    /// What it was asked for so far.
    #[must_use]
    pub fn steps(&self) -> Vec<Step> {
        let steps = self.steps.lock();
        steps.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn record(&self, step: Step) {
        let steps = self.steps.lock();
        steps.unwrap_or_else(PoisonError::into_inner).push(step);
    }
}

impl Mechanism for Recorded {
    fn kind(&self) -> Kind {
        Kind::Recorded
    }

    fn cores(&self) -> CoreSet {
        self.cores
    }

    fn start(&mut self) -> Result<Vec<(CoreId, ThreadId)>, MechanismError> {
        let on_core = self.on_core.iter();
        Ok(on_core.map(|(&core, &thread)| (core, thread)).collect())
    }

    fn grant(&mut self, core: CoreId, thread: ThreadId) -> io::Result<()> {
        self.record(Step::Grant(core, thread));
        Ok(())
    }

    fn vacate(&mut self, core: CoreId, _: Option<ThreadId>, _: Option<ThreadId>) -> io::Result<()> {
        self.record(Step::Vacate(core));
        Ok(())
    }

    fn set_unmanaged(&mut self, cores: CoreSet) -> io::Result<()> {
        self.record(Step::Unmanaged(cores));
        Ok(())
    }

    fn stop(&mut self) -> io::Result<()> {
        self.record(Step::Stop);
        Ok(())
    }
}
