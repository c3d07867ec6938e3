//! The common half of all policies with typed queues: the queues, the workers, and a [`Plan`] of
//! who may run where. A policy that serves groups of types adds how the plan is made; one that
//! chooses among types leaves the plan as it is and says whose turn it is.

use super::plan::{Group, Plan};
use super::profile::Profile;
use super::queues::{Queues, Waiting};
use super::running::{Running, Turn};
use super::workers::{WorkerRange, WorkerSet, worker_count};
use super::{Action, Backlog, Event, HandOff, RequestType, SchedulerSetup, TypeStatus, WorkerId};

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Grouped {
    pub(super) queues: Queues,
    pub(super) running: Running,
    pub(super) workers: WorkerSet,
    pub(super) plan: Plan,
    all: WorkerRange,
    /// Per type slot.
    steals: Vec<u64>,
    /// First of the lanes of aged requests, one per type slot, where there are any.
    aged_first: Option<usize>,
}

/// A request on its way to a worker.
#[derive(Debug, Clone, Copy)]
pub(super) struct Dispatch {
    pub(super) action: Action,
    pub(super) slot: usize,
    /// How long it waited.
    pub(super) delay_ns: u64,
}

impl Grouped {
    /// Typed queues that all workers share until the plan is made.
    pub(super) fn new(setup: &SchedulerSetup<'_>) -> Self {
        let slots = setup.types.len() + 1;
        let workers = worker_count(setup.workers);
        Self {
            queues: Queues::typed(setup),
            running: Running::new(setup.workers),
            workers: WorkerSet::new(workers, setup.inline),
            plan: Plan::shared(slots, workers),
            all: WorkerRange::new(0, workers),
            steals: vec![0; slots],
            aged_first: None,
        }
    }

    /// As [`Grouped::new`], with a lane more for each type, where requests wait that ran for long
    /// and were preempted; see [`Aging`](super::plan::Aging).
    pub(super) fn with_aging(setup: &SchedulerSetup<'_>) -> Self {
        let slots = setup.types.len() + 1;
        Self {
            queues: Queues::new(setup, 2 * slots),
            aged_first: Some(slots),
            ..Self::new(setup)
        }
    }

    /// Queues arrivals, releases workers and records what they measured. What ended thereby.
    pub(super) fn take_note(
        &mut self,
        now_ns: u64,
        event: Event<'_>,
        profile: &mut Profile,
    ) -> Option<Turn> {
        match event {
            Event::Arrived {
                request,
                request_type,
            } => {
                let slot = self.queues.slot(request_type);
                self.queues.push(slot, now_ns, request, request_type);
                None
            }
            Event::Completed { worker, samples } => {
                let turn = self.running.finish(worker);
                self.workers.release(worker);
                for sample in samples {
                    profile.record(self.queues.slot(sample.request_type), sample);
                }
                Some(turn)
            }
            Event::Yielded { worker, served_ns } => {
                let turn = self.running.on(worker).copied();
                let waiting = self.running.give_up(worker, served_ns);
                self.put_back(waiting);
                self.workers.release(worker);
                turn
            }
            Event::Tick => None,
        }
    }

    /// Queues a preempted request: first of its type, or last of the aged.
    fn put_back(&mut self, waiting: Waiting) {
        let slot = self.queues.slot(waiting.request_type);
        let aging = self.plan.aging_of(slot);
        let aged = aging.is_some_and(|aging| waiting.served_ns >= aging.after_ns);
        match self.aged_first.filter(|_| aged) {
            Some(first) => self.queues.put_back_last(first + slot, waiting),
            None => self.queues.put_back_first(slot, waiting),
        }
    }

    /// Whether something waits and some worker is idle.
    pub(super) fn can_dispatch(&self) -> bool {
        !self.queues.is_empty() && !self.workers.all_busy()
    }

    /// Whether two types are the same, or in one group and thus of similar length.
    pub(super) fn same_group(&self, first: RequestType, next: RequestType) -> bool {
        let group = |request_type| self.plan.group_of(self.queues.slot(request_type));
        first == next || group(first).is_some_and(|first| group(next) == Some(first))
    }

    /// The first request of the shortest group that has one and may use an idle worker
    /// (Perséphone, algorithm 1). Within a group, the one that arrived first.
    pub(super) fn dispatch(&mut self, now_ns: u64) -> Option<Dispatch> {
        let urgent = self.can_dispatch().then(|| self.urgent(now_ns)).flatten();
        self.dispatch_first(now_ns, |plan| {
            let first = urgent.and_then(|number| plan.groups().nth(number));
            first.into_iter().chain(plan.groups())
        })
    }

    /// The group whose first request has the least of its allowance left, if any and if that is less
    /// than what the shortest group's has that waits. One that has none left has missed its SLO and
    /// waits its turn: if it went first, all others would miss theirs.
    pub(super) fn urgent(&self, now_ns: u64) -> Option<usize> {
        let mut least_ns = None;
        let mut urgent = None;
        for (number, (group, members)) in self.plan.groups().enumerate() {
            group.allowance_ns?;
            let Some(first) = self.queues.first_of(members) else {
                continue;
            };
            let left_ns = group.left_ns(first.waited_ns(now_ns));
            match (least_ns, left_ns) {
                (None, _) => least_ns = Some(left_ns.unwrap_or(0)),
                (Some(least), Some(left)) if left < least => {
                    least_ns = Some(left);
                    urgent = Some(number);
                }
                _ => {}
            }
        }
        urgent
    }

    /// The request that arrived first among those of a partition that has an idle worker.
    pub(super) fn dispatch_within_partition(&mut self, now_ns: u64) -> Option<Dispatch> {
        self.dispatch_first(now_ns, Plan::partitions)
    }

    /// The oldest request of the first of some groups that has one and may use an idle worker.
    fn dispatch_first<'a, I>(
        &'a mut self,
        now_ns: u64,
        groups: impl FnOnce(&'a Plan) -> I,
    ) -> Option<Dispatch>
    where
        I: Iterator<Item = (&'a Group, &'a [usize])>,
    {
        if !self.can_dispatch() {
            return None;
        }
        let Self {
            queues,
            running,
            workers,
            plan,
            steals,
            aged_first,
            ..
        } = self;
        let unused = workers.idle() + running.stopping();
        groups(plan).find_map(|(group, members)| {
            let lane = queues.oldest(members).or_else(|| {
                let first = (*aged_first)?;
                let spare = group.aging.map_or(0, |aging| aging.spare);
                let aged = members.iter().map(|slot| first + slot);
                (unused > spare).then(|| queues.oldest_of(aged))?
            })?;
            let delay_ns = queues.front(lane)?.waited_ns(now_ns);
            let worker = workers
                .take(group.own)
                .or_else(|| workers.take(group.further))
                .or_else(|| {
                    (delay_ns >= group.borrow_after_ns).then(|| workers.take(group.borrowed))?
                })?;
            let waiting = queues.pop(lane)?;
            let slot = queues.slot(waiting.request_type);
            steals[slot] += u64::from(group.steals(worker));
            Some(Dispatch {
                action: running.start(now_ns, worker, waiting, HandOff::Dispatched),
                slot,
                delay_ns,
            })
        })
    }

    /// The first request of the type at `slot`, on any idle worker; the worker, too.
    pub(super) fn dispatch_type(&mut self, now_ns: u64, slot: usize) -> Option<(WorkerId, Action)> {
        self.queues.front(slot)?;
        let worker = self.workers.take(self.all)?;
        let waiting = self.queues.pop(slot)?;
        let action = self
            .running
            .start(now_ns, worker, waiting, HandOff::Dispatched);
        Some((worker, action))
    }

    /// For [`Scheduler::hand_over`](super::Scheduler::hand_over).
    pub(super) fn hand_over(&mut self) -> Backlog {
        Backlog {
            queues: self.queues.take(),
            running: self.running.take(),
        }
    }

    /// For [`Scheduler::take_over`](super::Scheduler::take_over).
    pub(super) fn take_over(&mut self, backlog: Backlog) {
        self.queues = backlog.queues.into_typed(self.aged_first.unwrap_or(0));
        self.workers = WorkerSet::beside(&backlog.running, self.workers.is_inline());
        self.running = backlog.running;
    }

    /// What is known of the type at `slot`.
    pub(super) fn type_status(&self, slot: usize, profile: &Profile) -> TypeStatus {
        let (workers_reserved, worker_first) = self.plan.reservation(slot);
        TypeStatus {
            workers_reserved,
            worker_first,
            group: self.plan.group_of(slot),
            service_ns_mean: profile.mean_ns(slot).unwrap_or(0.0),
            share: profile.share(slot),
            steals: self.steals[slot],
            ..self.queues.type_status(slot)
        }
    }
}
