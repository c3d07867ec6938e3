//! What one of the threads that receive requests knows of the server: what all threads read, and its own counters.

use std::ops::Deref;
use std::sync::Arc;

#[cfg(test)]
use psp_policy::TypeTable;
use psp_policy::WorkerId;

use super::state::Shared;
#[cfg(test)]
use crate::config::Config;
use crate::reply::Deferrals;
use crate::telemetry::{DispatchCounters, NetCounters, TurnCounters, Turning};
use crate::transport::request_key::{Names, PortNumber};

/// A thread that receives requests: the server's only net thread, or in the topology `distributed` each of its
/// workers. Its scheduler counts workers from 0: those that run its requests.
#[derive(Debug, Clone)]
pub(crate) struct Receiver {
    shared: Arc<Shared>,
    index: usize,
}

impl Receiver {
    /// The receiver at `index`.
    pub(crate) fn new(shared: Arc<Shared>, index: usize) -> Self {
        Self { shared, index }
    }

    /// Its number among all that receive.
    #[inline]
    pub(crate) fn index(&self) -> usize {
        self.index
    }

    /// The number of its port.
    #[inline]
    pub(crate) fn port(&self) -> PortNumber {
        PortNumber::new(self.index)
    }

    /// The scheduler's names for requests of its port.
    pub(crate) fn names(&self) -> Names {
        Names::new(self.port(), self.shared.telemetry.receivers.len())
    }

    /// What all threads share.
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Number of the first worker that runs its requests.
    fn first(&self) -> usize {
        self.index * self.shared.workers_each()
    }

    /// A worker by its number in the scheduler of this receiver.
    pub(crate) fn local(&self, worker: WorkerId) -> WorkerId {
        WorkerId(worker.0 - self.first() as u32)
    }

    /// A worker of the scheduler of this receiver, by its number in the server.
    pub(crate) fn global(&self, worker: WorkerId) -> WorkerId {
        WorkerId(worker.0 + self.first() as u32)
    }

    /// Deferred replies to its requests.
    #[inline]
    pub(crate) fn deferrals(&self) -> &Arc<Deferrals> {
        &self.shared.deferrals[self.index]
    }

    /// What its net worker counts.
    #[inline]
    pub(crate) fn net(&self) -> &NetCounters {
        &self.shared.telemetry.receivers[self.index].net.0
    }

    /// What the driver of its port tells the watchdog.
    #[inline]
    pub(crate) fn turning(&self) -> &Turning {
        &self.shared.telemetry.receivers[self.index].turning.0
    }

    /// What its dispatcher counts of the type at `slot`.
    #[inline]
    pub(crate) fn counters(&self, slot: usize) -> &DispatchCounters {
        &self.shared.telemetry.receivers[self.index].types[slot].0
    }

    /// The turns on a worker, by its number in the scheduler of this receiver.
    #[inline]
    pub(crate) fn turns(&self, worker: WorkerId) -> &TurnCounters {
        &self.shared.telemetry.turns[self.first() + worker.index()].0
    }
}

#[cfg(test)]
impl Receiver {
    /// The net thread of a server with so many workers that does not run.
    pub(crate) fn example(config: Config, types: TypeTable, workers: usize) -> Self {
        Self::new(Arc::new(Shared::example(config, types, workers)), 0)
    }
}

impl Deref for Receiver {
    type Target = Shared;

    #[inline]
    fn deref(&self) -> &Shared {
        &self.shared
    }
}
