//! Requests that are suspended on workers that alone can go on with them: their *homes*.
//!
//! A lane of [`Queues`](super::queues) that all workers share has a list for each worker here; a
//! worker's own lane needs but one. Requests are in their lists in the order of their ranks, so the
//! next one of a lane for a worker is the first here or the first of those that never ran.

use super::SchedulerSetup;
use super::WorkerId;
use super::lists::{List, Lists};
use super::queues::Waiting;

/// The lanes of queues: first one for each worker, or none, and then some that all share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lanes {
    own: usize,
    shared: usize,
}

impl Lanes {
    /// So many lanes that all workers share.
    pub(super) const fn shared(lanes: usize) -> Self {
        Self {
            own: 0,
            shared: lanes,
        }
    }

    /// A lane for each of `workers` workers, and behind those `shared` that they share.
    pub(super) const fn own_and(workers: usize, shared: usize) -> Self {
        Self {
            own: workers,
            shared,
        }
    }

    /// How many there are.
    pub(super) const fn len(self) -> usize {
        self.own + self.shared
    }

    /// Lists that each worker needs for what is suspended there.
    const fn lists(self) -> usize {
        self.shared + (self.own > 0) as usize
    }

    /// Which of them is for `lane`.
    const fn list(self, lane: usize) -> usize {
        match lane.checked_sub(self.own) {
            Some(shared) => shared,
            None => self.shared,
        }
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Homes {
    lanes: Lanes,
    /// Requests that a worker can hold which began and did not end.
    contexts: usize,
    /// Those of each worker, one worker after the other. None where requests have no homes.
    lists: Vec<List>,
    /// Per worker: how many are suspended there. None where requests have no homes.
    suspended: Vec<usize>,
    total: usize,
}

impl Homes {
    pub(super) fn new(setup: &SchedulerSetup<'_>, lanes: Lanes) -> Self {
        let preemption = setup.preemption.filter(|preemption| !preemption.migrates);
        let workers = preemption.map_or(0, |_| setup.workers);
        Self {
            lanes,
            contexts: preemption.map_or(usize::MAX, |preemption| preemption.contexts.max(1)),
            lists: vec![List::EMPTY; workers * lanes.lists()],
            suspended: vec![0; workers],
            total: 0,
        }
    }

    /// The same homes with nothing in them, for other lanes.
    pub(super) fn emptied(&self, lanes: Lanes) -> Self {
        Self {
            lanes,
            contexts: self.contexts,
            lists: vec![List::EMPTY; self.suspended.len() * lanes.lists()],
            suspended: vec![0; self.suspended.len()],
            total: 0,
        }
    }

    /// Whether requests have homes at all.
    pub(super) const fn exist(&self) -> bool {
        !self.suspended.is_empty()
    }

    /// How many requests are suspended.
    pub(super) const fn total(&self) -> usize {
        self.total
    }

    /// How many requests are suspended on `worker`.
    pub(super) fn suspended(&self, worker: WorkerId) -> usize {
        self.suspended.get(worker.index()).copied().unwrap_or(0)
    }

    /// Whether `worker`, when it is idle, can begin a request.
    pub(super) fn has_context(&self, worker: WorkerId) -> bool {
        self.suspended(worker) < self.contexts
    }

    /// Whether `worker` can begin a request if it suspends what it runs.
    pub(super) fn has_another_context(&self, worker: WorkerId) -> bool {
        self.suspended(worker) < self.contexts - 1
    }

    /// Puts a request into its place in `lane`.
    pub(super) fn insert(
        &mut self,
        lists: &mut Lists<Waiting>,
        lane: usize,
        home: WorkerId,
        waiting: Waiting,
    ) {
        debug_assert!(lane >= self.lanes.own || lane == home.index());
        let place = self.place(lane, home);
        let later = |other: &Waiting| other.rank > waiting.rank;
        lists.insert(&mut self.lists[place], waiting, later);
        self.suspended[home.index()] += 1;
        self.total += 1;
    }

    /// Takes the first request of `lane` that is suspended on `worker`.
    pub(super) fn pop(
        &mut self,
        lists: &mut Lists<Waiting>,
        lane: usize,
        worker: WorkerId,
    ) -> Option<Waiting> {
        let place = self.place(lane, worker);
        let waiting = lists.pop(self.lists.get_mut(place)?)?;
        self.suspended[worker.index()] -= 1;
        self.total -= 1;
        Some(waiting)
    }

    /// Those of `lane` that are suspended on `worker`.
    pub(super) fn list(&self, lane: usize, worker: WorkerId) -> Option<&List> {
        if self.total == 0 {
            return None;
        }
        self.lists.get(self.place(lane, worker))
    }

    /// The lists of all lanes and workers.
    pub(super) fn lists(&self) -> &[List] {
        &self.lists
    }

    fn place(&self, lane: usize, worker: WorkerId) -> usize {
        debug_assert!(lane >= self.lanes.own || lane == worker.index());
        worker.index() * self.lanes.lists() + self.lanes.list(lane)
    }
}
