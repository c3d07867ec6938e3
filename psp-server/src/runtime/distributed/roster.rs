//! All workers, whatever the policy under which they schedule themselves: who sleeps, what wakes them, and who has
//! left.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use psp_policy::WorkerId;

use super::sleepers::Sleepers;
use crate::fiber::Bell;

/// See the [module](self).
pub(crate) struct Roster {
    sleepers: Sleepers,
    bells: Box<[Arc<dyn Bell>]>,
    /// Workers that serve, or drain and have connections left.
    serving: AtomicUsize,
}

impl Roster {
    /// Workers that are awake, each of them woken by its bell.
    pub(crate) fn new(bells: impl IntoIterator<Item = Arc<dyn Bell>>) -> Self {
        let bells: Box<[_]> = bells.into_iter().collect();
        Self {
            sleepers: Sleepers::new(bells.len()),
            serving: AtomicUsize::new(bells.len()),
            bells,
        }
    }

    /// Workers that nothing wakes.
    #[cfg(test)]
    pub(super) fn silent(workers: usize) -> Arc<Self> {
        struct Silent;

        impl Bell for Silent {
            fn ring(&self) {}
        }

        let bells = (0..workers).map(|_| Arc::new(Silent) as Arc<dyn Bell>);
        Arc::new(Self::new(bells))
    }

    /// `worker` sleeps unless it finds something now.
    pub(super) fn announce_sleep(&self, worker: WorkerId) {
        self.sleepers.announce(worker);
    }

    /// `worker` is awake again.
    pub(super) fn awake(&self, worker: WorkerId) {
        self.sleepers.awake(worker);
    }

    /// Wakes one of the workers that sleep and `may` take what was put where they find it.
    pub(super) fn wake(&self, may: impl Fn(WorkerId) -> bool) {
        if let Some(sleeper) = self.sleepers.take(may) {
            self.bells[sleeper.index()].ring();
        }
    }

    /// Whether `worker` was woken and has begun nothing since.
    pub(super) fn was_woken(&self, worker: WorkerId) -> bool {
        self.sleepers.was_woken(worker)
    }

    /// A worker drains and has no connections left.
    pub(super) fn leave(&self) {
        if self.serving.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.bells.iter().for_each(|bell| bell.ring());
        }
    }

    /// Whether no worker has connections left.
    pub(super) fn is_empty(&self) -> bool {
        self.serving.load(Ordering::Acquire) == 0
    }
}
