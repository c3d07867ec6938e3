//! Which cores the process may use, and pinning threads to them.

use std::num::NonZero;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The cores of this process.
#[derive(Debug, Clone)]
pub(crate) struct Cores {
    /// Cores whose time the process may use at once, by affinity and by cgroup quota.
    pub(crate) count: usize,
    /// Their numbers, from the affinity mask; empty if the system does not tell.
    ids: Vec<usize>,
}

impl Cores {
    /// Asks the system.
    pub(crate) fn discover() -> Self {
        let count = std::thread::available_parallelism().map_or(1, NonZero::get);
        let ids = sched_getaffinity(None)
            .map(|set| (0..CpuSet::MAX_CPU).filter(|&id| set.is_set(id)).collect())
            .unwrap_or_default();
        Self { count, ids }
    }

    /// The same cores where something else decides which thread runs on which: nothing is pinned.
    pub(crate) fn unpinned(self) -> Self {
        Self {
            ids: Vec::new(),
            ..self
        }
    }

    /// Whether `threads` threads can have a core each, with one left for the rest of the machine.
    pub(crate) fn spare_for(&self, threads: usize) -> bool {
        threads < self.count
    }

    /// Pins the calling thread to the core at `index`, if there are enough for all `threads`. A quota below the
    /// number of allowed cores means that the cores are shared: then the thread is not pinned.
    pub(crate) fn pin(&self, index: usize, threads: usize) {
        if threads > self.count || self.count < self.ids.len() {
            return;
        }
        if let Some(&id) = self.ids.get(index) {
            pin_to(id);
        }
    }

    /// Lets the calling thread run on all cores of the process again, if the thread that started it was pinned.
    pub(crate) fn unpin(&self) {
        let mut set = CpuSet::new();
        self.ids.iter().for_each(|&id| set.set(id));
        if !self.ids.is_empty()
            && let Err(error) = sched_setaffinity(None, &set)
        {
            tracing::warn!(%error, "cannot unpin thread");
        }
    }

    /// Pins the calling thread to the core at `index`, which it may share with other threads. An index beyond
    /// the last core starts over at the first.
    pub(crate) fn pin_shared(&self, index: usize) {
        if let Some(&id) = self.ids.get(index % self.ids.len().max(1)) {
            pin_to(id);
        }
    }
}

fn pin_to(core: usize) {
    let mut set = CpuSet::new();
    set.set(core);
    if let Err(error) = sched_setaffinity(None, &set) {
        tracing::warn!(core, %error, "cannot pin thread");
    }
}
