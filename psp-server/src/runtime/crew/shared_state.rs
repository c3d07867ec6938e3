//! What the workers share: queues, board, knowledge, and the ways to wake each other.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use psp_policy::distributed::{
    AnyLocal, Board, Feedback, Knowledge, LANES_MAX, LaneSet, Line, Live, Ways, WorkerPolicy,
    lane_of,
};
use psp_policy::{Policy, SchedulerSetup, WorkerId};

use super::guard::Guard;
use super::measured::Measured;
use super::own_queue::OwnQueue;
use super::prompter::Prompter;
use super::sleepers::Sleepers;
use crate::fiber::Bell;

/// See the [module](self).
pub(crate) struct Crew {
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
    /// The way to the timer core, where there is one.
    prompter: Option<Prompter>,
    /// How often requests had to be placed again.
    pub(super) placings: AtomicU64,
    /// How often workers were reserved.
    pub(super) reservation_updates: AtomicU64,
    sleepers: Sleepers,
    bells: Box<[Arc<dyn Bell>]>,
    /// Workers that serve, or drain and have connections left.
    serving: AtomicUsize,
}

/// Decides for one worker.
pub(crate) type Object = Box<dyn WorkerPolicy<Live>>;

/// Whether a policy preempts the requests of workers with this setup.
pub(crate) fn can_preempt(policy: &Policy, setup: &SchedulerSetup<'_>) -> bool {
    policy.can_preempt() && setup.useful_preemption().is_some()
}

impl Crew {
    /// Workers that schedule themselves under a policy, each woken by its bell, and the objects that decide for
    /// them. `None` if the policy needs a dispatcher.
    pub(crate) fn new(
        policy: &Policy,
        setup: &SchedulerSetup<'_>,
        bells: impl IntoIterator<Item = Arc<dyn Bell>>,
    ) -> Option<(Self, Vec<Object>)> {
        let AnyLocal::<Live> {
            workers: objects,
            feedback,
            knowledge,
            board,
            typed,
            ways,
        } = policy.local(setup)?;
        let workers = setup.workers;
        let slots = setup.types.len() + 1;
        let lanes = if typed { slots.min(LANES_MAX) } else { 1 };
        let own = setup.types.specs().iter().map(|spec| spec.queue_capacity);
        let capacities = own.chain([None]);
        let capacities: Vec<usize> = capacities
            .map(|own| own.unwrap_or(setup.queue_capacity))
            .collect();
        let crew = Self {
            board,
            knowledge,
            queues: (0..workers)
                .map(|_| OwnQueue::new(lanes, &capacities))
                .collect(),
            lanes,
            measured: (0..workers).map(|_| Measured::new(slots)).collect(),
            ways,
            has_quantum: (0..slots)
                .map(|slot| can_preempt(policy, setup) && setup.types.gives_way(slot))
                .collect(),
            wait_queue: Guard::new(ways.congestion_ns),
            prompter: None,
            feedback: Mutex::new(feedback),
            placings: AtomicU64::new(0),
            reservation_updates: AtomicU64::new(0),
            sleepers: Sleepers::new(workers),
            bells: bells.into_iter().collect(),
            serving: AtomicUsize::new(workers),
        };
        Some((crew, objects))
    }

    /// As this, with a timer core, which these prompt.
    pub(crate) fn with_timer(self, prompter: Prompter) -> Self {
        let prompter = Some(prompter);
        Self { prompter, ..self }
    }

    /// The way to the timer core, where there is one.
    pub(super) fn prompter(&self) -> Option<&Prompter> {
        self.prompter.as_ref()
    }

    /// There may be something to read that no worker reads: those who can have to give way.
    pub(crate) fn nobody_reads(&self) {
        if let Some(prompter) = &self.prompter
            && self
                .workers()
                .any(|worker| self.line(worker).quantum().is_some())
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

    /// `worker` sleeps unless it finds something now.
    pub(super) fn announce_sleep(&self, worker: WorkerId) {
        self.sleepers.announce(worker);
    }

    /// `worker` is awake again.
    pub(super) fn awake(&self, worker: WorkerId) {
        self.sleepers.awake(worker);
    }

    /// Wakes `worker`, if it sleeps: its queue has something.
    pub(super) fn wake(&self, worker: WorkerId) {
        if self.sleepers.take(|other| other == worker).is_some() {
            self.bells[worker.index()].ring();
        }
    }

    /// Wakes a worker that sleeps and may take one of the requests in these lanes.
    pub(super) fn wake_for(&self, waiting: LaneSet) {
        if waiting.is_empty() {
            return;
        }
        let sleeper = self.sleepers.take(|worker| self.may_take(worker, waiting));
        if let Some(sleeper) = sleeper {
            self.bells[sleeper.index()].ring();
        }
    }

    /// Whether `worker` was woken and has begun nothing since.
    pub(super) fn was_woken(&self, worker: WorkerId) -> bool {
        self.sleepers.was_woken(worker)
    }

    /// Lanes in which something waits, at any worker.
    pub(super) fn waiting(&self) -> LaneSet {
        let waiting = self.workers().map(|worker| self.line(worker).waiting());
        waiting.fold(LaneSet::NONE, LaneSet::or)
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
