//! Suspended requests: they were preempted, and only their *home worker*, where they began, can resume
//! them.
//!
//! A lane of [`Queues`](super::queues) that all workers share has a list for each worker here; a
//! worker's own lane needs one list. Requests are in their lists in the order of their ranks, so a
//! worker's next request of a lane is the first here, or the first that any worker may run.

use crate::event::WorkerId;
use crate::parts::lists::{List, Lists};
use crate::parts::waiting::Waiting;
use crate::setup::SchedulerSetup;

/// The lanes of queues: first one for each worker, or none, and then some that all share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lanes {
    own: usize,
    shared: usize,
}

impl Lanes {
    /// So many lanes that all workers share.
    pub(crate) const fn shared(lanes: usize) -> Self {
        Self {
            own: 0,
            shared: lanes,
        }
    }

    /// A lane for each of `workers` workers, and behind those `shared` that they share.
    pub(crate) const fn own_and(workers: usize, shared: usize) -> Self {
        Self {
            own: workers,
            shared,
        }
    }

    /// How many there are.
    pub(crate) const fn len(self) -> usize {
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
pub(crate) struct Suspended {
    lanes: Lanes,
    /// Requests that a worker can hold between their beginning and their end.
    contexts: usize,
    workers: usize,
    /// How many workers are present.
    present: usize,
    /// The lists of each worker, one worker after the other. Empty if requests migrate.
    lists: Vec<List>,
    /// Per worker: how many are suspended there. Empty if requests migrate.
    suspended: Vec<usize>,
    total: usize,
}

impl Suspended {
    pub(crate) fn new(setup: &SchedulerSetup<'_>, lanes: Lanes) -> Self {
        let preemption = setup.preemption.filter(|preemption| !preemption.migrates);
        let workers = preemption.map_or(0, |_| setup.workers);
        Self {
            lanes,
            contexts: preemption.map_or(usize::MAX, |preemption| preemption.contexts.max(1)),
            workers: setup.workers,
            present: setup.workers,
            lists: vec![List::EMPTY; workers * lanes.lists()],
            suspended: vec![0; workers],
            total: 0,
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
        !self.suspended.is_empty()
    }

    /// How many requests are suspended.
    #[inline]
    pub(crate) const fn total(&self) -> usize {
        self.total
    }

    /// How many requests are suspended on `worker`.
    #[inline]
    pub(crate) fn suspended(&self, worker: WorkerId) -> usize {
        self.suspended.get(worker.index()).copied().unwrap_or(0)
    }

    /// Whether `worker`, when it is idle, can begin a request.
    #[inline]
    pub(crate) fn has_context(&self, worker: WorkerId) -> bool {
        self.is_present(worker) && self.suspended(worker) < self.contexts
    }

    /// Whether `worker` can begin a request if it suspends what it runs.
    pub(crate) fn has_another_context(&self, worker: WorkerId) -> bool {
        self.is_present(worker) && self.suspended(worker) < self.contexts - 1
    }

    /// Puts a request into its place in `lane`.
    pub(crate) fn insert(
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
    pub(crate) fn pop(
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
    pub(crate) fn list(&self, lane: usize, worker: WorkerId) -> Option<&List> {
        if self.total == 0 {
            return None;
        }
        self.lists.get(self.place(lane, worker))
    }

    /// The lists of all lanes and workers.
    pub(crate) fn lists(&self) -> &[List] {
        &self.lists
    }

    fn place(&self, lane: usize, worker: WorkerId) -> usize {
        debug_assert!(lane >= self.lanes.own || lane == worker.index());
        worker.index() * self.lanes.lists() + self.lanes.list(lane)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::RequestId;
    use crate::rehearsal::setup;
    use crate::request_type::TypeTable;
    use crate::setup::Preemption;

    /// Suspended on two workers, each of which can hold `contexts`, and entries for them.
    fn parts(preemption: Preemption, lanes: Lanes) -> (Suspended, Lists<Waiting>) {
        let types = TypeTable::new();
        let setup = SchedulerSetup {
            preemption: Some(preemption),
            ..setup(2, &types)
        };
        (Suspended::new(&setup, lanes), Lists::with_capacity(8))
    }

    /// The ids are the ranks.
    fn insert(parts: &mut (Suspended, Lists<Waiting>), lane: usize, home: u32, rank: u32) {
        let waiting = Waiting {
            request: RequestId(rank),
            rank: rank.into(),
            ..Waiting::example()
        };
        parts.0.insert(&mut parts.1, lane, WorkerId(home), waiting);
    }

    fn pop(parts: &mut (Suspended, Lists<Waiting>), lane: usize, home: u32) -> Option<u32> {
        let waiting = parts.0.pop(&mut parts.1, lane, WorkerId(home))?;
        Some(waiting.request.0)
    }

    #[test]
    fn each_lane_of_each_worker_is_in_order_of_rank() {
        let mut parts = parts(Preemption::at_home(0, 8), Lanes::shared(2));
        for (lane, home, rank) in [(0, 1, 5), (0, 0, 4), (1, 1, 3), (0, 1, 2)] {
            insert(&mut parts, lane, home, rank);
        }
        assert_eq!(parts.0.total(), 4);
        assert_eq!([0, 1].map(|home| parts.0.suspended(WorkerId(home))), [1, 3]);
        let order = [(0, 1), (0, 1), (0, 1), (1, 1), (1, 0), (0, 0)]
            .map(|(lane, home)| pop(&mut parts, lane, home));
        assert_eq!(order, [Some(2), Some(5), None, Some(3), None, Some(4)]);
        assert_eq!(parts.0.total(), 0);
    }

    #[test]
    fn a_workers_own_lane_has_one_list_and_shared_ones_one_each() {
        let lanes = Lanes::own_and(2, 1);
        assert_eq!(lanes.len(), 3);
        let mut parts = parts(Preemption::at_home(0, 8), lanes);
        assert_eq!(parts.0.lists().len(), 4);
        for (lane, home, rank) in [(0, 0, 1), (2, 0, 2), (1, 1, 3), (2, 1, 4)] {
            insert(&mut parts, lane, home, rank);
        }
        let order =
            [(2, 1), (1, 1), (2, 0), (0, 0)].map(|(lane, home)| pop(&mut parts, lane, home));
        assert_eq!(order, [Some(4), Some(3), Some(2), Some(1)]);
    }

    #[test]
    fn contexts_are_for_what_is_suspended_and_the_one_that_runs() {
        let mut parts = parts(Preemption::at_home(0, 2), Lanes::shared(1));
        let left = |parts: &(Suspended, _), home| {
            let suspended = &parts.0;
            (
                suspended.has_context(WorkerId(home)),
                suspended.has_another_context(WorkerId(home)),
            )
        };
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
    fn where_requests_migrate_there_are_none() {
        let (suspended, _) = parts(Preemption::migrating(0), Lanes::shared(2));
        assert!(!suspended.exist() && suspended.lists().is_empty());
        assert!(suspended.has_context(WorkerId(1)) && suspended.has_another_context(WorkerId(1)));
        assert!(suspended.list(0, WorkerId(1)).is_none());
    }
}
