//! What the workers share: queues, board, knowledge, and the ways to wake each other.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use psp_policy::distributed::{
    AnyLocal, Board, Feedback, Knowledge, LANES_MAX, LaneSet, Line, Live, Runs, Ways, WorkerPolicy, lane_of,
};
use psp_policy::{Policy, RequestId, RequestType, SchedulerSetup, WorkerId};

use super::guard::Guard;
use super::measured::Measured;
use super::moving::{Moving, WaitQueue};
use super::own_queue::OwnQueue;
use super::prompter::Prompter;
use super::roster::Roster;
use crate::transport::request_key::Names;

/// See the [module](self).
pub(crate) struct WorkerGroup {
    pub(super) board: Board<Live>,
    pub(super) knowledge: Knowledge<Live>,
    pub(super) queues: Box<[OwnQueue]>,
    /// Lanes of each queue.
    pub(super) lanes: usize,
    pub(super) measured: Box<[Measured]>,
    pub(super) feedback: Mutex<Box<dyn Feedback<Live>>>,
    /// How the wait queue and the timer core behave.
    pub(super) ways: Ways,
    /// Per type slot: its requests have a quantum, if the policy gives them one.
    pub(super) has_quantum: Box<[bool]>,
    /// Of requests that were preempted.
    pub(super) wait_queue: Guard,
    /// Those of them that any worker may resume.
    pub(super) suspended: WaitQueue,
    /// The way to the timer core, where there is one.
    prompter: Option<Prompter>,
    /// The threads of requests, where preempted ones move.
    moving: Option<Arc<Moving>>,
    /// Tell by a request to which worker it came, where ports move.
    names: Option<Names>,
    /// How often requests had to be placed again.
    pub(super) placings: AtomicU64,
    /// How often workers were reserved.
    pub(super) reservation_updates: AtomicU64,
    pub(super) roster: Arc<Roster>,
}

/// Decides for one worker.
pub(crate) type Object = Box<dyn WorkerPolicy<Live>>;

/// Whether a policy preempts the requests of workers with this setup.
pub(super) fn can_preempt(policy: &Policy, setup: &SchedulerSetup<'_>) -> bool {
    policy.can_preempt() && setup.useful_preemption().is_some()
}

impl WorkerGroup {
    /// Workers that schedule themselves under a policy, and the objects that decide for them. `None` if the policy
    /// needs a dispatcher.
    pub(super) fn new(policy: &Policy, setup: &SchedulerSetup<'_>, roster: Arc<Roster>) -> Option<(Self, Vec<Object>)> {
        let AnyLocal::<Live> { workers: objects, feedback, knowledge, board, typed, ways } = policy.local(setup)?;
        let workers = setup.workers;
        let slots = setup.types.len() + 1;
        let lanes = if typed { slots.min(LANES_MAX) } else { 1 };
        let own = setup.types.specs().iter().map(|spec| spec.queue_capacity);
        let capacities = own.chain([None]);
        let capacities: Vec<usize> = capacities.map(|own| own.unwrap_or(setup.queue_capacity)).collect();
        let group = Self {
            board,
            knowledge,
            queues: (0..workers).map(|_| OwnQueue::new(lanes, &capacities)).collect(),
            lanes,
            measured: (0..workers).map(|_| Measured::new(slots)).collect(),
            ways,
            has_quantum: (0..slots).map(|slot| can_preempt(policy, setup) && setup.types.yields(slot)).collect(),
            wait_queue: Guard::new(ways.congestion_ns),
            suspended: WaitQueue::new(),
            prompter: None,
            moving: None,
            names: None,
            feedback: Mutex::new(feedback),
            placings: AtomicU64::new(0),
            reservation_updates: AtomicU64::new(0),
            roster,
        };
        Some((group, objects))
    }

    /// All workers are elsewhere, and come when they have ended their turns. Until then they count as if they ran long
    /// requests of an unknown type here.
    pub(super) fn expect_all(&self, now_ns: u64) {
        let (slot, long) = (self.knowledge.slot(RequestType::UNKNOWN), true);
        for worker in self.workers() {
            self.line(worker).begin(now_ns, 0, Runs { slot, long });
        }
    }

    /// As this, with a timer core, which the workers prompt.
    pub(super) fn with_timer(self, prompter: Prompter) -> Self {
        let prompter = Some(prompter);
        Self { prompter, ..self }
    }

    /// As this, where preempted requests move from worker to worker.
    pub(crate) fn with_moving(self, moving: Option<Arc<Moving>>) -> Self {
        Self { moving, ..self }
    }

    /// As this, where workers read for each other. Requests have these names.
    pub(crate) fn with_names(self, names: Names) -> Self {
        let names = Some(names);
        Self { names, ..self }
    }

    /// The worker to which a request came, if workers read for each other.
    #[inline]
    pub(super) fn owner_of(&self, request: RequestId) -> Option<WorkerId> {
        let port = self.names?.port_of(request);
        u32::try_from(port.index()).ok().map(WorkerId)
    }

    /// The threads of requests, where preempted ones move.
    #[inline]
    pub(super) fn moving(&self) -> Option<&Moving> {
        self.moving.as_deref()
    }

    /// The way to the timer core, where there is one.
    pub(super) fn prompter(&self) -> Option<&Prompter> {
        self.prompter.as_ref()
    }

    /// There may be something to read that no worker reads: those who can have to yield.
    pub(crate) fn no_worker_reads(&self) {
        if let Some(prompter) = &self.prompter
            && self.workers().any(|worker| self.line(worker).quantum().is_some())
        {
            prompter.prompt(0);
        }
    }

    /// All workers.
    pub(super) fn workers(&self) -> impl Iterator<Item = WorkerId> + use<> {
        (0..self.board.workers()).map(WorkerId)
    }

    pub(super) fn line(&self, worker: WorkerId) -> &Line<Live> {
        self.board.line(worker)
    }

    /// Which lane of a queue is for the type at `slot`.
    pub(super) const fn lane(&self, slot: usize) -> usize {
        if self.lanes == 1 { 0 } else { lane_of(slot) }
    }

    pub(super) fn feedback(&self) -> MutexGuard<'_, Box<dyn Feedback<Live>>> {
        let lock = self.feedback.lock();
        lock.unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the policy lets `worker` run some of what waits in these lanes.
    fn may_take(&self, worker: WorkerId, waiting: LaneSet) -> bool {
        let knowledge = &self.knowledge;
        let may_run = |lane| self.lanes == 1 || knowledge.may_run(lane, worker);
        waiting.iter().any(may_run) || !knowledge.relieves(worker).and(waiting).is_empty()
    }

    /// Wakes `worker`, if it sleeps: its queue has something.
    pub(super) fn wake(&self, worker: WorkerId) {
        self.roster.wake(|other| other == worker);
    }

    /// Wakes a worker that sleeps and may take one of the requests in these lanes.
    pub(super) fn wake_for(&self, waiting: LaneSet) {
        if !waiting.is_empty() {
            self.roster.wake(|worker| self.may_take(worker, waiting));
        }
    }

    /// Wakes a worker that sleeps, if a preempted request waits for any.
    pub(super) fn wake_for_suspended(&self) {
        if self.suspended.has_any() {
            self.roster.wake(|_| true);
        }
    }

    /// Lanes in which something waits, at any worker.
    pub(super) fn waiting(&self) -> LaneSet {
        let waiting = self.workers().map(|worker| self.line(worker).waiting());
        waiting.fold(LaneSet::NONE, LaneSet::or)
    }
}
