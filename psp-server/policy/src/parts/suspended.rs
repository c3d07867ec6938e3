//! Suspended requests: they were preempted or blocked, and only their *home worker*, where they ran
//! last, can resume them.
//!
//! A lane of [`Queues`](super::queues) that all workers share has a heap for each worker here; a
//! worker's own lane needs one heap. Requests leave their heaps in the order of their ranks, so a
//! worker's next request of a lane is the first here, or the first that any worker may run.
//!
//! A worker holds its suspended requests and those that are still blocked on its
//! [contexts](crate::Contexts).

use crate::event::WorkerId;
use crate::parts::heaps::{Heap, Heaps};
use crate::parts::waiting::Waiting;
use crate::setup::SchedulerSetup;

/// The lanes of queues: first those of each worker's own, or none, and then some that all share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lanes {
    workers: usize,
    /// Lanes of each worker's own.
    per_worker: usize,
    shared: usize,
}

impl Lanes {
    /// So many lanes that all workers share.
    pub(crate) const fn shared(lanes: usize) -> Self {
        Self { workers: 0, per_worker: 0, shared: lanes }
    }

    /// A lane for each of `workers` workers, and behind those `shared` that they share.
    pub(crate) const fn own_and(workers: usize, shared: usize) -> Self {
        Self { workers, per_worker: 1, shared }
    }

    /// As these, with so many lanes for each worker, one worker after the other.
    pub(crate) const fn per_worker(self, per_worker: usize) -> Self {
        Self { per_worker, ..self }
    }

    /// How many there are.
    pub(crate) const fn len(self) -> usize {
        self.own() + self.shared
    }

    /// How many are not shared.
    const fn own(self) -> usize {
        self.workers * self.per_worker
    }

    /// Whether `worker` may use `lane`.
    const fn is_of(self, lane: usize, worker: WorkerId) -> bool {
        lane >= self.own() || lane / self.per_worker == worker.index()
    }

    /// Heaps that each worker needs for what is suspended there.
    const fn heaps(self) -> usize {
        self.shared + self.per_worker
    }

    /// Which of them is for `lane`.
    const fn heap(self, lane: usize) -> usize {
        match lane.checked_sub(self.own()) {
            Some(shared) => shared,
            None => self.shared + lane % self.per_worker,
        }
    }
}

/// Requests for which memory is set aside.
const ENTRIES_PREALLOCATED: usize = 256;

/// How many requests a worker holds that do not run.
#[derive(Debug, Clone, Copy, Default)]
struct NotRunning {
    suspended: usize,
    blocked: usize,
}

impl NotRunning {
    const fn all(self) -> usize {
        self.suspended + self.blocked
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Suspended {
    lanes: Lanes,
    /// Requests that a worker can hold between their beginning and their end.
    contexts: usize,
    workers: usize,
    /// How many workers are present.
    present: usize,
    /// The heaps of each worker, one worker after the other. Empty if requests migrate.
    heaps: Vec<Heap>,
    entries: Heaps,
    /// Per worker. Empty if requests migrate.
    held: Vec<NotRunning>,
    /// How many are suspended.
    total: usize,
    /// How many are blocked.
    blocked: usize,
    /// Workers that have no context left for another request than the one that runs, or not even for
    /// that.
    tight: usize,
}

impl Suspended {
    pub(crate) fn new(setup: &SchedulerSetup<'_>, lanes: Lanes) -> Self {
        let contexts = setup.contexts;
        let homes = if contexts.migrates { 0 } else { setup.workers };
        let contexts = if contexts.migrates {
            usize::MAX
        } else {
            contexts.per_worker.max(1)
        };
        let entries = homes.saturating_mul(contexts);
        Self {
            lanes,
            contexts,
            workers: setup.workers,
            present: setup.workers,
            heaps: vec![Heap::EMPTY; homes * lanes.heaps()],
            entries: Heaps::with_capacity(entries.min(ENTRIES_PREALLOCATED)),
            held: vec![NotRunning::default(); homes],
            total: 0,
            blocked: 0,
            tight: 0,
        }
    }

    /// Workers `0..present` are present, and no others.
    pub(crate) const fn set_present(&mut self, present: usize) {
        self.present = present;
    }

    /// Whether all workers are present.
    pub(crate) const fn all_present(&self) -> bool {
        self.present == self.workers
    }

    /// Whether `worker` is present.
    #[inline]
    pub(crate) const fn is_present(&self, worker: WorkerId) -> bool {
        worker.index() < self.present
    }

    /// Whether only its home worker can resume a request.
    pub(crate) const fn exist(&self) -> bool {
        !self.held.is_empty()
    }

    /// How many requests are suspended.
    #[inline]
    pub(crate) const fn total(&self) -> usize {
        self.total
    }

    /// Whether some request is suspended, or some worker may lack a context to begin another.
    #[inline]
    pub(crate) const fn bind_any(&self) -> bool {
        self.total > 0 || self.tight > 0
    }

    /// Whether some worker is the home of a request that does not run, or may lack a context to begin another.
    #[inline]
    pub(crate) const fn needs_any(&self) -> bool {
        self.bind_any() || self.blocked > 0
    }

    #[inline]
    fn held(&self, worker: WorkerId) -> NotRunning {
        self.held.get(worker.index()).copied().unwrap_or_default()
    }

    /// How many requests are suspended on `worker`.
    #[inline]
    pub(crate) fn suspended(&self, worker: WorkerId) -> usize {
        self.held(worker).suspended
    }

    /// Whether `worker` is the home of no request that does not run.
    #[inline]
    pub(crate) fn is_free(&self, worker: WorkerId) -> bool {
        self.held(worker).all() == 0
    }

    /// Whether `worker`, when it is idle, can begin a request.
    #[inline]
    pub(crate) fn has_context(&self, worker: WorkerId) -> bool {
        self.is_present(worker) && self.held(worker).all() < self.contexts
    }

    /// Whether `worker` can begin a request if it suspends what it runs.
    pub(crate) fn has_another_context(&self, worker: WorkerId) -> bool {
        self.is_present(worker) && self.held(worker).all() < self.contexts - 1
    }

    /// Whether blocked requests have all contexts of `worker`.
    pub(crate) fn all_blocked(&self, worker: WorkerId) -> bool {
        self.held(worker).blocked >= self.contexts
    }

    /// Records that one more request of `home` is blocked.
    pub(crate) fn block(&mut self, home: WorkerId) {
        self.blocked += 1;
        self.change(home, |held| held.blocked += 1);
    }

    /// Records that one request of `home` is blocked no longer.
    pub(crate) fn unblock(&mut self, home: WorkerId) {
        self.blocked -= 1;
        self.change(home, |held| held.blocked -= 1);
    }

    /// Puts a request into its place in `lane`.
    pub(crate) fn insert(&mut self, lane: usize, home: WorkerId, waiting: Waiting) {
        let place = self.place(lane, home);
        self.entries.push(&mut self.heaps[place], waiting);
        self.change(home, |held| held.suspended += 1);
        self.total += 1;
    }

    /// Takes the first request of `lane` that is suspended on `worker`.
    pub(crate) fn pop(&mut self, lane: usize, worker: WorkerId) -> Option<Waiting> {
        let place = self.place(lane, worker);
        let waiting = self.entries.pop(self.heaps.get_mut(place)?)?;
        self.change(worker, |held| held.suspended -= 1);
        self.total -= 1;
        Some(waiting)
    }

    /// The first request of `lane` that is suspended on `worker`, left in place.
    pub(crate) fn first(&self, lane: usize, worker: WorkerId) -> Option<&Waiting> {
        if self.total == 0 {
            return None;
        }
        self.entries.first(self.heaps.get(self.place(lane, worker))?)
    }

    /// How many requests of `lane` are suspended on `worker`.
    pub(crate) fn len(&self, lane: usize, worker: WorkerId) -> usize {
        if self.total == 0 {
            return 0;
        }
        let heap = self.heaps.get(self.place(lane, worker));
        heap.map_or(0, Heap::len)
    }

    /// All suspended requests, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Waiting> {
        self.heaps.iter().flat_map(|heap| self.entries.iter(heap))
    }

    /// Changes what a worker holds. Nothing is counted where requests migrate.
    fn change(&mut self, worker: WorkerId, change: impl FnOnce(&mut NotRunning)) {
        if let Some(held) = self.held.get_mut(worker.index()) {
            let is_tight = |held: NotRunning| held.all() > 0 && held.all() >= self.contexts - 1;
            self.tight -= usize::from(is_tight(*held));
            change(held);
            self.tight += usize::from(is_tight(*held));
        }
    }

    fn place(&self, lane: usize, worker: WorkerId) -> usize {
        debug_assert!(self.lanes.is_of(lane, worker));
        worker.index() * self.lanes.heaps() + self.lanes.heap(lane)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::RequestId;
    use crate::rehearsal::setup;
    use crate::request_type::TypeTable;
    use crate::setup::Contexts;

    /// Suspended on two workers.
    fn parts(contexts: Contexts, lanes: Lanes) -> Suspended {
        let types = TypeTable::new();
        let setup = SchedulerSetup { contexts, ..setup(2, &types) };
        Suspended::new(&setup, lanes)
    }

    /// The ids are the ranks.
    fn insert(parts: &mut Suspended, lane: usize, home: u32, rank: u32) {
        let waiting = Waiting {
            request: RequestId(rank),
            rank: rank.into(),
            ..Waiting::example()
        };
        parts.insert(lane, WorkerId(home), waiting);
    }

    fn pop(parts: &mut Suspended, lane: usize, home: u32) -> Option<u32> {
        Some(parts.pop(lane, WorkerId(home))?.request.0)
    }

    #[test]
    fn each_lane_of_each_worker_is_in_order_of_rank() {
        let mut parts = parts(Contexts::at_home(8), Lanes::shared(2));
        for (lane, home, rank) in [(0, 1, 5), (0, 0, 4), (1, 1, 3), (0, 1, 2)] {
            insert(&mut parts, lane, home, rank);
        }
        assert_eq!((parts.total(), parts.iter().count()), (4, 4));
        assert_eq!([0, 1].map(|home| parts.suspended(WorkerId(home))), [1, 3]);
        let order = [(0, 1), (0, 1), (0, 1), (1, 1), (1, 0), (0, 0)].map(|(lane, home)| pop(&mut parts, lane, home));
        assert_eq!(order, [Some(2), Some(5), None, Some(3), None, Some(4)]);
        assert_eq!(parts.total(), 0);
    }

    #[test]
    fn a_workers_own_lane_has_one_heap_and_shared_ones_one_each() {
        let lanes = Lanes::own_and(2, 1);
        assert_eq!(lanes.len(), 3);
        let mut parts = parts(Contexts::at_home(8), lanes);
        assert_eq!(parts.heaps.len(), 4);
        for (lane, home, rank) in [(0, 0, 1), (2, 0, 2), (1, 1, 3), (2, 1, 4)] {
            insert(&mut parts, lane, home, rank);
        }
        let order = [(2, 1), (1, 1), (2, 0), (0, 0)].map(|(lane, home)| pop(&mut parts, lane, home));
        assert_eq!(order, [Some(4), Some(3), Some(2), Some(1)]);
    }

    /// Whether a worker has a context when it is idle, and another one when it is busy.
    fn left(parts: &Suspended, home: u32) -> (bool, bool) {
        let home = WorkerId(home);
        (parts.has_context(home), parts.has_another_context(home))
    }

    #[test]
    fn contexts_are_for_what_is_suspended_and_the_one_that_runs() {
        let mut parts = parts(Contexts::at_home(2), Lanes::shared(1));
        assert_eq!(left(&parts, 0), (true, true));
        insert(&mut parts, 0, 0, 1);
        assert_eq!(left(&parts, 0), (true, false));
        insert(&mut parts, 0, 0, 2);
        assert_eq!(left(&parts, 0), (false, false));
        assert_eq!(left(&parts, 1), (true, true));
        pop(&mut parts, 0, 0);
        assert_eq!(left(&parts, 0), (true, false));
    }

    #[test]
    fn contexts_are_for_what_is_blocked_too_and_bind_requests_only_when_they_run_short() {
        let mut parts = parts(Contexts::at_home(3), Lanes::shared(1));
        let home = WorkerId(0);
        parts.block(home);
        assert_eq!((left(&parts, 0), parts.bind_any()), ((true, true), false));
        parts.block(home);
        assert_eq!((left(&parts, 0), parts.bind_any()), ((true, false), true));
        parts.block(home);
        assert_eq!((left(&parts, 0), parts.all_blocked(home)), ((false, false), true));
        parts.unblock(home);
        insert(&mut parts, 0, 0, 1);
        assert_eq!((left(&parts, 0), parts.all_blocked(home)), ((false, false), false));
        pop(&mut parts, 0, 0);
        for _ in 0..2 {
            parts.unblock(home);
        }
        assert_eq!((left(&parts, 0), parts.bind_any()), ((true, true), false));
    }

    #[test]
    fn where_requests_migrate_there_are_none() {
        let mut suspended = parts(Contexts::migrating(), Lanes::shared(2));
        suspended.block(WorkerId(1));
        assert!(!suspended.exist() && suspended.heaps.is_empty());
        assert_eq!((left(&suspended, 1), suspended.bind_any()), ((true, true), false));
        assert!(suspended.first(0, WorkerId(1)).is_none());
    }
}
