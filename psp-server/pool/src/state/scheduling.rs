//! The scheduler, and what follows from its decisions.

use std::sync::Arc;

use psp_policy::{
    Action, Contexts, Event, Policy, PolicyError, Preemption, RequestId, RequestType, Scheduler, SchedulerSetup,
    TypeTable, WorkerId, switch,
};

use super::parts::{Left, Limits, Studies, Timer, Turn, What};
use crate::hand_off::HandOffs;
use crate::job::Fate;
use crate::snapshot::{Snapshot, TypeSnapshot};
use crate::table::{Place, Table};
use crate::vacant::Vacant;
use crate::waiting::Waiting;
use crate::worker_threads::WorkerThreads;

/// What it costs that a task yields, in nanoseconds: two changes of threads.
const PREEMPTION_NS: u64 = 20_000;
/// The shortest quantum that a pool chooses itself, in nanoseconds. As in servers whose threads sleep, it leaves tasks
/// alone that take some tens of microseconds.
const QUANTUM_NS_MIN: u64 = 200_000;

/// See the [module](super).
pub(crate) struct State {
    pub(super) scheduler: Box<dyn Scheduler>,
    pub(super) types: Arc<TypeTable>,
    pub(super) table: Table,
    pub(super) vacant: Vacant,
    /// Tasks that wait for a worker.
    pub(super) waiting: Waiting,
    pub(super) threads: WorkerThreads,
    pub(super) hand_offs: HandOffs,
    /// `None` if there is no such thread.
    pub(super) timer: Option<Timer>,
    /// Per worker: the task that it shall run.
    pub(super) next: Box<[Option<Turn<What>>]>,
    /// Per type slot: what was counted. How many wait is the scheduler's to know.
    pub(super) counted: Box<[TypeSnapshot]>,
    pub(super) studies: Studies,
    pub(super) limits: Limits,
    /// Takes no new tasks.
    pub(super) is_closed: bool,
    /// Ends whatever is left.
    pub(super) is_over: bool,
    pub(super) seen_ns: u64,
}

impl State {
    /// # Errors
    /// When the policy does not fit.
    pub(crate) fn new(
        types: Arc<TypeTable>,
        policy: &Policy,
        limits: Limits,
        mut hand_offs: HandOffs,
    ) -> Result<Self, PolicyError> {
        let workers = limits.workers;
        policy.validate(workers)?;
        hand_offs.set_policy_preempts(preempts(policy, limits));
        let setup = setup(&types, limits);
        let scheduler = policy.scheduler(&setup);
        Ok(Self {
            scheduler,
            table: Table::default(),
            vacant: Vacant::new(types.len() + 1),
            waiting: Waiting::new(types.len() + 1),
            threads: WorkerThreads::new(workers, limits.contexts),
            hand_offs,
            timer: None,
            next: (0..workers).map(|_| None).collect(),
            counted: (0..=types.len()).map(|slot| TypeSnapshot::new(types.name_of_slot(slot))).collect(),
            types,
            studies: Studies::default(),
            limits,
            is_closed: false,
            is_over: false,
            seen_ns: 0,
        })
    }

    /// Time does not go backwards, whoever looked at the clock before the lock.
    pub(super) fn event(&mut self, now_ns: u64, event: Event<'_>) {
        self.seen_ns = self.seen_ns.max(now_ns);
        if self.is_over {
            // What the scheduler has is given up.
            return;
        }
        self.scheduler.on_event(self.seen_ns, event);
    }

    pub(super) fn counted(&mut self, request_type: RequestType) -> &mut TypeSnapshot {
        &mut self.counted[self.types.slot(request_type)]
    }

    pub(super) fn run_what_can(&mut self, left: &mut Left) {
        if self.is_over {
            // What the scheduler has is given up.
            return;
        }
        while let Some(action) = self.scheduler.poll(self.seen_ns) {
            match action {
                Action::Run { worker, request, .. } => self.run(worker, request, left),
                Action::Preempt { worker, quantum_ns } => {
                    self.threads.stop(self.seen_ns, worker, quantum_ns);
                }
                Action::Reject { request, .. } => self.refused(request, left),
            }
        }
    }

    fn run(&mut self, worker: WorkerId, name: RequestId, left: &mut Left) {
        let now_ns = self.seen_ns;
        let entry = self.table.at(name);
        let task = match std::mem::replace(&mut entry.place, Place::Runs) {
            Place::Waits(task) => task,
            Place::Suspended(thread) => {
                self.waiting.goes(entry.slot);
                let what = What::GoesOn(thread);
                return self.runs_next(worker, Turn { name, what }, left);
            }
            Place::Ended(job) => return self.ended(now_ns, worker, name, &job),
            Place::Vacant(vacancy) => {
                self.table.remove(name);
                self.vacant.remove(&mut self.table, vacancy);
                return self.dropped(worker);
            }
            _ => unreachable!("a task is in one place at a time"),
        };
        self.waiting.goes(entry.slot);
        let job = task.metadata().clone();
        let entry = self.table.at(name);
        if !std::mem::replace(&mut entry.has_begun, true) {
            let waited_ns = now_ns.saturating_sub(entry.arrived_ns);
            if job.deadline_ns() < now_ns {
                self.forget(name, task, Fate::Expired, left);
                return self.dropped(worker);
            }
            self.counted(job.request_type).began(waited_ns);
        }
        let what = What::Begins(task);
        self.runs_next(worker, Turn { name, what }, left);
    }

    fn runs_next(&mut self, worker: WorkerId, turn: Turn<What>, left: &mut Left) {
        self.next[worker.index()] = Some(turn);
        left.woken.push(worker);
    }

    /// Puts another policy in force. Returns whether it has taken over.
    ///
    /// # Errors
    /// When the policy does not fit.
    pub(crate) fn set_policy(&mut self, now_ns: u64, policy: &Policy, left: &mut Left) -> Result<bool, PolicyError> {
        policy.validate(self.limits.workers)?;
        let setup = setup(&self.types, self.limits);
        let mut next = policy.scheduler(&setup);
        self.seen_ns = self.seen_ns.max(now_ns);
        let switched = switch(&mut *self.scheduler, &mut *next, self.seen_ns);
        if switched {
            self.scheduler = next;
            self.hand_offs.set_policy_preempts(preempts(policy, self.limits));
            self.studies.pace.is_replaced();
            self.run_what_can(left);
        }
        Ok(switched)
    }

    /// What was done until now.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let counted = self.counted.iter().enumerate();
        let types = counted.map(|(slot, counted)| TypeSnapshot {
            queued: { self.scheduler.type_status(slot).queued }.saturating_sub(self.vacant.len(slot)),
            ..counted.clone()
        });
        Snapshot {
            types: types.collect(),
            studies: self.studies.ended,
            findings: self.studies.findings.clone(),
            unfinished: self.table.len() - self.vacant.total(),
        }
    }
}

/// Whether tasks yield under this policy.
pub(super) fn preempts(policy: &Policy, limits: Limits) -> bool {
    limits.contexts > 0 && policy.can_preempt()
}

fn setup(types: &TypeTable, limits: Limits) -> SchedulerSetup<'_> {
    let preemption = Preemption::new(PREEMPTION_NS).quantum_ns_min(QUANTUM_NS_MIN);
    SchedulerSetup::new(limits.workers, types)
        .queue_capacity(limits.queue_capacity)
        .contexts(Contexts::migrating())
        .preemption((limits.contexts > 0).then_some(preemption))
}
