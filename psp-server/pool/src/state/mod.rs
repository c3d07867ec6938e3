//! The scheduler, its tasks and workers: everything behind the lock.
//!
//! ```text
//!   submit, wake ──► Arrived, Unblocked ─┐                 ┌──► Run ──► the worker's next task ── wakes it
//!   a poll ends  ──► Completed, Blocked, ┼──► Scheduler ───┤
//!                    Yielded             │                 └──► Reject ──► refused
//!   time passes  ──► Tick ───────────────┘
//! ```
//!
//! A task that is [handed off](State::hand_off) is `Blocked` to the scheduler while it goes on. When it has ended it is
//! `Unblocked`, and its next turn is over as it begins.
//!
//! A task that [gives way](State::give_way) at a checkpoint has `Yielded`. Its next turn begins as the thread that serves the
//! worker then [hands it over](Next::HandedOver) to the task's own.
//!
//! What is refused or dropped leaves through [`Left`]: futures are dropped without the lock, as their destructors are the
//! user's.
//!
//! | file | job |
//! | --- | --- |
//! | `tasks.rs` | how tasks come, and how those go that will not run |
//! | `turns.rs` | what the threads do that serve workers |
//! | `time.rs` | what happens by time alone |
//! | `ending.rs` | the end of a pool |

mod ending;
mod tasks;
mod time;
mod turns;

use std::sync::Arc;

use psp_policy::{
    Action, Contexts, Event, Policy, PolicyError, Preemption, RequestId, RequestType, Scheduler,
    SchedulerSetup, TypeTable, WorkerId, switch,
};
use smallvec::SmallVec;

use crate::carrier::Carrier;
use crate::crew::Crew;
use crate::hand_off::HandOffs;
use crate::job::Fate;
use crate::snapshot::{Snapshot, TypeSnapshot};
use crate::table::{Place, Table, Task};
use crate::vacant::Vacant;
use time::Timer;

pub(crate) use time::Due;

/// What it costs that a task gives way, in nanoseconds: two changes of threads.
const PREEMPTION_NS: u64 = 20_000;
/// The shortest quantum that a pool chooses itself, in nanoseconds. As in servers whose threads sleep, it leaves tasks alone
/// that take some tens of microseconds.
const QUANTUM_NS_MIN: u64 = 200_000;

/// What has to be done without the lock.
#[derive(Debug, Default)]
pub(crate) struct Left {
    /// Tasks that will not run.
    pub(crate) dropped: SmallVec<[Task; 1]>,
    /// Workers that have something to run, or to end for.
    pub(crate) woken: SmallVec<[WorkerId; 4]>,
    /// Threads that have a worker to serve, or to end.
    pub(crate) rung: SmallVec<[Arc<Carrier>; 1]>,
}

/// What a worker runs next.
#[derive(Debug)]
pub(crate) struct Turn<T> {
    pub(crate) name: RequestId,
    pub(crate) what: T,
}

#[derive(Debug)]
enum What {
    Begins(Task),
    /// The task of this thread goes on.
    GoesOn(Arc<Carrier>),
}

/// A poll of a task.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Polled {
    pub(crate) name: RequestId,
    pub(crate) request_type: RequestType,
    /// Since when it has had its worker this time.
    pub(crate) since_ns: u64,
}

impl Polled {
    /// For how long it has had its worker this time.
    const fn served_ns(self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.since_ns)
    }
}

/// What a thread that serves a worker does next.
#[derive(Debug)]
pub(crate) enum Next {
    /// It polls this task.
    Begins { turn: Turn<Task>, now_ns: u64 },
    /// The thread of a suspended task serves the worker in its place, and is to be rung. Whether it is kept as a spare one.
    HandedOver { to: Arc<Carrier>, is_kept: bool },
    /// The pool has ended.
    Over,
}

/// What comes of a task that was asked to give way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// It waits for its next turn.
    Given,
    /// It runs on.
    Kept,
    /// A spare thread has to be started before.
    NeedsSpare,
}

/// How many there are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) workers: usize,
    pub(crate) queue_capacity: usize,
    /// Tasks that may be suspended.
    pub(crate) contexts: usize,
}

/// See the [module](self).
pub(crate) struct State {
    scheduler: Box<dyn Scheduler>,
    types: Arc<TypeTable>,
    table: Table,
    vacant: Vacant,
    /// Tasks that wait for a worker.
    waiting: usize,
    crew: Crew,
    hand_offs: HandOffs,
    /// `None` if there is no such thread.
    timer: Option<Timer>,
    /// Per worker: the task that it shall run.
    next: Box<[Option<Turn<What>>]>,
    /// Per type slot: what was counted. How many wait is the scheduler's to know.
    counted: Box<[TypeSnapshot]>,
    limits: Limits,
    /// Takes no new tasks.
    is_closed: bool,
    /// Ends whatever is left.
    is_over: bool,
    seen_ns: u64,
}

impl State {
    /// # Errors
    /// When the policy does not fit.
    pub(crate) fn new(
        types: Arc<TypeTable>,
        policy: &Policy,
        limits: Limits,
        hand_offs: HandOffs,
    ) -> Result<Self, PolicyError> {
        let workers = limits.workers;
        policy.validate(workers)?;
        let setup = setup(&types, limits);
        let scheduler = policy.scheduler(&setup);
        Ok(Self {
            scheduler,
            table: Table::default(),
            vacant: Vacant::new(types.len() + 1),
            waiting: 0,
            crew: Crew::new(workers, limits.contexts),
            hand_offs,
            timer: None,
            next: (0..workers).map(|_| None).collect(),
            counted: (0..=types.len())
                .map(|slot| TypeSnapshot::new(types.name_of_slot(slot)))
                .collect(),
            types,
            limits,
            is_closed: false,
            is_over: false,
            seen_ns: 0,
        })
    }

    /// Time does not go backwards, whoever looked at the clock before the lock.
    fn event(&mut self, now_ns: u64, event: Event<'_>) {
        self.seen_ns = self.seen_ns.max(now_ns);
        if self.is_over {
            // What the scheduler has is given up.
            return;
        }
        self.scheduler.on_event(self.seen_ns, event);
    }

    fn counted(&mut self, request_type: RequestType) -> &mut TypeSnapshot {
        &mut self.counted[self.types.slot(request_type)]
    }

    fn run_what_can(&mut self, left: &mut Left) {
        if self.is_over {
            // What the scheduler has is given up.
            return;
        }
        while let Some(action) = self.scheduler.poll(self.seen_ns) {
            match action {
                Action::Run {
                    worker, request, ..
                } => self.run(worker, request, left),
                Action::Preempt { worker, quantum_ns } => {
                    self.crew.stop(self.seen_ns, worker, quantum_ns);
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
            Place::Suspended(carrier) => {
                self.waiting -= 1;
                let what = What::GoesOn(carrier);
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
        self.waiting -= 1;
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
    pub(crate) fn set_policy(
        &mut self,
        now_ns: u64,
        policy: &Policy,
        left: &mut Left,
    ) -> Result<bool, PolicyError> {
        policy.validate(self.limits.workers)?;
        let setup = setup(&self.types, self.limits);
        let mut next = policy.scheduler(&setup);
        self.seen_ns = self.seen_ns.max(now_ns);
        let switched = switch(&mut *self.scheduler, &mut *next, self.seen_ns);
        if switched {
            self.scheduler = next;
            self.run_what_can(left);
        }
        Ok(switched)
    }

    /// What was done until now.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let counted = self.counted.iter().enumerate();
        let types = counted.map(|(slot, counted)| TypeSnapshot {
            queued: { self.scheduler.type_status(slot).queued }
                .saturating_sub(self.vacant.len(slot)),
            ..counted.clone()
        });
        Snapshot {
            types: types.collect(),
            unfinished: self.table.len() - self.vacant.total(),
        }
    }
}

fn setup(types: &TypeTable, limits: Limits) -> SchedulerSetup<'_> {
    let preemption = Preemption::new(PREEMPTION_NS).quantum_ns_min(QUANTUM_NS_MIN);
    SchedulerSetup::new(limits.workers, types)
        .queue_capacity(limits.queue_capacity)
        .contexts(Contexts::migrating())
        .preemption((limits.contexts > 0).then_some(preemption))
}
