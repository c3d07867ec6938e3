//! Which cores the process may use, and pinning threads to them.

use std::num::NonZero;

use psp_arbiter::{CoreId, CoreSet, Topology};
use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};

/// The cores of this process.
#[derive(Debug, Clone)]
pub(crate) struct Cores {
    /// Cores whose time the process may use at once, by affinity and by cgroup quota.
    pub(crate) count: usize,
    /// Their numbers, from the affinity mask, in the [order](Topology::order) in which threads take them; empty if the
    /// system does not tell.
    ids: Vec<usize>,
}

impl Cores {
    /// Asks the system.
    pub(crate) fn discover() -> Self {
        let count = std::thread::available_parallelism().map_or(1, NonZero::get);
        let allowed = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
        let ids = { 0..CpuSet::MAX_CPU }.filter(|&id| allowed.is_set(id));
        let cores: CoreSet = ids.filter_map(CoreId::new).collect();
        let order = Topology::discover(&cores).order(&cores);
        Self { count, ids: order.into_iter().map(CoreId::number).collect() }
    }

    /// The same cores where something else decides which thread runs on which: nothing is pinned.
    pub(crate) fn unpinned(self) -> Self {
        Self { ids: Vec::new(), ..self }
    }

    /// Whether `threads` threads can have a core each, with one left for the rest of the machine.
    pub(crate) fn spare_for(&self, threads: usize) -> bool {
        threads < self.count
    }

    /// Pins the calling thread to the core at `index`, if there are enough for all `threads`. A quota below the
    /// number of allowed cores means that the cores are shared: then the thread is not pinned.
    pub(crate) fn pin(&self, index: usize, threads: usize) {
        if let Some(id) = self.pinned(threads).and_then(|it| it.number(index)) {
            pin_to(None, id);
        }
    }

    /// The number of the core at `index`, if [`pin`](Self::pin) would pin one of as many threads to it.
    pub(crate) fn number(&self, index: usize) -> Option<usize> {
        self.ids.get(index).copied()
    }

    /// These, if `threads` threads would be pinned to one each.
    pub(crate) fn pinned(&self, threads: usize) -> Option<Self> {
        let are_shared = threads > self.count || self.count < self.ids.len();
        (!are_shared).then(|| self.clone())
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
            pin_to(None, id);
        }
    }
}

/// A thread that others move from core to core.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Movable(Option<Pid>);

impl Movable {
    /// The calling thread. It stays where it is on systems that do not number threads.
    pub(crate) fn this_thread() -> Self {
        #[cfg(target_os = "linux")]
        let thread = Some(rustix::thread::gettid());
        #[cfg(not(target_os = "linux"))]
        let thread = None;
        Self(thread)
    }

    /// Has the thread run on this core from now on. Any thread may call this.
    pub(crate) fn move_to(self, core: usize) {
        if self.0.is_some() {
            pin_to(self.0, core);
        }
    }
}

/// Pins a thread, the calling one if `thread` is `None`.
fn pin_to(thread: Option<Pid>, core: usize) {
    let mut set = CpuSet::new();
    set.set(core);
    if let Err(error) = sched_setaffinity(thread, &set) {
        tracing::warn!(core, %error, "cannot pin thread");
    }
}
