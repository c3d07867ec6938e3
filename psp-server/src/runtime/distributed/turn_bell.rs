//! Calls a worker for what other threads do: they wake a request of its own, set its timer, or leave something for its
//! port.
//!
//! ```text
//!   the worker   listens ── fence ── looks at wakes, timers and mail ── begins a turn with a quantum
//!   another      wakes a request of it, or brings a connection back ── fence ── rings: does it listen?
//!                                                                        └─► the timer core: it has to yield
//! ```
//!
//! A worker that sleeps wakes by its doorbell. One that runs a request sees neither its doorbell nor its timers, and
//! who drives its port meanwhile cannot resume its requests. So the bell tells the timer core.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use psp_policy::WorkerId;

use super::worker_group::WorkerGroup;
use crate::fiber::Bell;
use crate::runtime::channel::doorbell::Doorbell;
use crate::runtime::channel::sleep_flag::SleepFlag;

/// See the [module](self).
pub(crate) struct TurnBell {
    worker: WorkerId,
    doorbell: Arc<Doorbell>,
    /// The worker runs a turn that may yield.
    listens: SleepFlag,
    /// Has the timer core of that turn.
    group: Mutex<Option<Arc<WorkerGroup>>>,
}

impl TurnBell {
    /// The bell of a worker with this doorbell.
    pub(crate) fn new(worker: WorkerId, doorbell: Arc<Doorbell>) -> Self {
        Self {
            worker,
            doorbell,
            listens: SleepFlag::default(),
            group: Mutex::default(),
        }
    }

    fn group(&self) -> MutexGuard<'_, Option<Arc<WorkerGroup>>> {
        self.group.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The worker is a member of this group from now on.
    pub(super) fn join(&self, group: Option<Arc<WorkerGroup>>) {
        *self.group() = group;
    }

    /// The worker is about to run a turn that may yield. It must look for all of that after this call.
    pub(super) fn listen(&self) {
        self.listens.announce();
    }

    /// The turn is over.
    pub(super) fn stop_listening(&self) {
        self.listens.clear();
    }
}

impl Bell for TurnBell {
    #[inline]
    fn ring(&self) {
        // Its fence counts for the flag, too.
        self.doorbell.ring();
        if self.listens.take_seen()
            && let Some(prompter) = self.group().as_ref().and_then(|group| group.prompter())
        {
            prompter.call(self.worker);
        }
    }
}
