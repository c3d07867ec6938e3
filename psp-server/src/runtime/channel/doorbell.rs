//! Wakes the net worker out of its event queue.

use std::sync::Arc;

use mio::Waker;

use super::sleep_flag::SleepFlag;
use crate::fiber::Bell;

/// Wakes the net worker, at the cost of a system call only while it sleeps.
#[derive(Debug)]
pub(crate) struct Doorbell {
    sleeper: SleepFlag,
    waker: Arc<Waker>,
}

impl Doorbell {
    pub(crate) fn new(waker: Arc<Waker>) -> Self {
        Self { sleeper: SleepFlag::default(), waker }
    }

    /// Announces that the net worker is about to sleep. It must look for work once more after this call.
    pub(crate) fn announce_sleep(&self) {
        self.sleeper.announce();
    }

    /// The net worker is awake again.
    pub(crate) fn awake(&self) {
        self.sleeper.clear();
    }

    /// Wakes the net worker, if it sleeps. Returns whether this call did.
    #[inline]
    pub(crate) fn wake(&self) -> bool {
        let sleeps = self.sleeper.take();
        #[cfg(all(test, not(loom)))]
        if sleeps && crate::simulated::ring() {
            return sleeps;
        }
        if sleeps && let Err(error) = self.waker.wake() {
            tracing::error!(%error, "cannot wake the net worker");
        }
        sleeps
    }
}

impl Bell for Doorbell {
    #[inline]
    fn ring(&self) {
        self.wake();
    }
}
