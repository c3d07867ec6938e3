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

use std::sync::Arc;
use std::time::Duration;

use psp_policy::{
    Action, Contexts, Event, Policy, PolicyError, Preemption, RequestId, RequestType, Sample,
    Scheduler, SchedulerSetup, TypeTable, WorkerId, switch,
};
use smallvec::SmallVec;

use crate::carrier::Carrier;
use crate::crew::{Answer, Crew};
use crate::hand_off::{HandOffs, Overdue};
use crate::job::{Fate, Job};
use crate::snapshot::{Snapshot, TypeSnapshot};
use crate::table::{Entry, Place, Table, Task};
use crate::tick::Ticker;
use crate::vacant::Vacant;

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

/// What the timer does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    /// It hands a task off.
    HandOff,
    /// It starts a spare thread for that.
    Thread,
    /// It reports that time has passed.
    Tick,
    /// It waits.
    In(Duration),
}

/// How many there are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) workers: usize,
    pub(crate) queue_capacity: usize,
    /// Tasks that may be suspended.
    pub(crate) contexts: usize,
}

/// The thread that sees to what happens by time alone.
#[derive(Debug, Default)]
struct Timer {
    ticker: Ticker,
    /// When it looks again; 0 while it does not wait.
    looks_ns: u64,
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

    /// A task was submitted, or woken.
    pub(crate) fn ready(&mut self, now_ns: u64, task: Task, left: &mut Left) {
        let job = task.metadata().clone();
        match job.name() {
            None => self.submitted(now_ns, task, &job, left),
            Some(name) => self.woken(now_ns, name, task, left),
        }
        self.run_what_can(left);
    }

    fn submitted(&mut self, now_ns: u64, task: Task, job: &Job, left: &mut Left) {
        if self.is_closed {
            job.decide(Fate::Closed);
            left.dropped.push(task);
            return;
        }
        let request_type = job.request_type;
        let slot = self.types.slot(request_type);
        let max_wait = self.types.specs().get(slot).and_then(|spec| spec.max_wait);
        if let Some(max_wait) = max_wait {
            let max_wait_ns = u64::try_from(max_wait.as_nanos()).unwrap_or(u64::MAX);
            job.begin_by(now_ns.saturating_add(max_wait_ns));
        }
        let deadline_ns = Some(job.deadline_ns()).filter(|&at_ns| at_ns != u64::MAX);
        let request = self.table.insert(task, now_ns);
        self.waiting += 1;
        job.set_name(request);
        self.counted(request_type).submitted += 1;
        let arrived = Event::Arrived {
            request,
            request_type,
            deadline_ns,
        };
        self.event(now_ns, arrived);
    }

    fn woken(&mut self, now_ns: u64, name: RequestId, task: Task, left: &mut Left) {
        let place = &mut self.table.at(name).place;
        match place {
            Place::Runs => *place = Place::Woken(task),
            Place::Pending => self.unblocked(now_ns, name, Place::Waits(task)),
            // A task has one such handle at a time.
            _ => left.dropped.push(task),
        }
    }

    /// A task that has no worker waits for one.
    fn unblocked(&mut self, now_ns: u64, name: RequestId, place: Place) {
        self.waiting += usize::from(matches!(place, Place::Waits(_)));
        self.table.at(name).place = place;
        self.event(now_ns, Event::Unblocked { request: name });
    }

    /// The threads that serve workers.
    pub(crate) fn carriers(&self) -> impl Iterator<Item = &Arc<Carrier>> {
        self.crew.carriers()
    }

    /// What a thread that serves a worker does next. `None` if it waits.
    pub(crate) fn next(
        &mut self,
        now_ns: u64,
        worker: WorkerId,
        carrier: &Arc<Carrier>,
    ) -> Option<Next> {
        let Some(Turn { name, what }) = self.next[worker.index()].take() else {
            return self.is_over().then_some(Next::Over);
        };
        match what {
            What::Begins(task) => {
                self.begins(worker, task.metadata().request_type, now_ns);
                let turn = Turn { name, what: task };
                Some(Next::Begins { turn, now_ns })
            }
            What::GoesOn(to) => {
                self.crew.resumes(worker, &to);
                let is_kept = self.crew.keeps(carrier);
                Some(Next::HandedOver { to, is_kept })
            }
        }
    }

    /// A worker begins a task of this type, or goes on with one.
    pub(crate) fn begins(&mut self, worker: WorkerId, request_type: RequestType, now_ns: u64) {
        self.crew.begins(worker, request_type, now_ns);
    }

    /// The task on a thread was asked to give way, and is at a checkpoint.
    pub(crate) fn give_way(
        &mut self,
        now_ns: u64,
        worker: WorkerId,
        carrier: &Arc<Carrier>,
        polled: Polled,
        left: &mut Left,
    ) -> Way {
        if self.is_over {
            // What is left goes on to its end.
            carrier.set_asked(false);
            return Way::Kept;
        }
        match self.crew.answer(worker, carrier) {
            Answer::GivesWay => {}
            Answer::WantsSpare => return Way::NeedsSpare,
            Answer::RunsOn => return Way::Kept,
            Answer::Misses => {
                self.misses(polled.request_type);
                return Way::Kept;
            }
        }
        let served_ns = polled.served_ns(now_ns);
        let entry = self.table.at(polled.name);
        entry.served_ns += served_ns;
        entry.place = Place::Suspended(carrier.clone());
        self.waiting += 1;
        self.crew.suspends(worker);
        self.counted(polled.request_type).yielded += 1;
        self.event(now_ns, Event::Yielded { worker, served_ns });
        self.run_what_can(left);
        self.fill(worker, left);
        Way::Given
    }

    /// A task that was asked to give way runs on.
    pub(crate) fn misses(&mut self, request_type: RequestType) {
        self.counted(request_type).yields_missed += 1;
    }

    /// Another thread serves a worker: that of the task which goes on there, or a spare one.
    fn fill(&mut self, worker: WorkerId, left: &mut Left) {
        let next = &mut self.next[worker.index()];
        let goes_on = next.take_if(|turn| matches!(turn.what, What::GoesOn(_)));
        match goes_on.map(|turn| turn.what) {
            Some(What::GoesOn(to)) => {
                self.crew.resumes(worker, &to);
                left.rung.push(to);
            }
            _ => left.rung.extend(self.crew.fill(worker)),
        }
    }

    /// A thread has polled a task. Returns whether it serves a worker yet.
    pub(crate) fn polled(
        &mut self,
        now_ns: u64,
        worker: WorkerId,
        carrier: &Arc<Carrier>,
        polled: Polled,
        job: &Arc<Job>,
        left: &mut Left,
    ) -> bool {
        let Polled { name, .. } = polled;
        let served_ns = polled.served_ns(now_ns);
        let serves = self.crew.ends(worker, carrier);
        let entry = self.table.at(name);
        entry.served_ns += served_ns;
        match (job.is_over(), serves) {
            // A pool that is given up needs no turn to say so.
            (true, _) if serves || self.is_over => self.ended(now_ns, worker, name, job),
            (true, _) => self.unblocked(now_ns, name, Place::Ended(job.clone())),
            (false, _) => match (std::mem::replace(&mut entry.place, Place::Pending), serves) {
                (Place::Woken(task), true) => {
                    entry.place = Place::Waits(task);
                    self.waiting += 1;
                    self.event(now_ns, Event::Yielded { worker, served_ns });
                }
                (Place::Woken(task), false) => self.unblocked(now_ns, name, Place::Waits(task)),
                (_, true) => self.event(now_ns, Event::Blocked { worker, served_ns }),
                // To the scheduler it is blocked already.
                (_, false) => {}
            },
        }
        self.run_what_can(left);
        serves
    }

    /// A task has ended, and leaves its worker.
    fn ended(&mut self, now_ns: u64, worker: WorkerId, name: RequestId, job: &Job) {
        let service_ns = self.table.remove(name).served_ns;
        let request_type = job.request_type;
        let sample = Sample {
            request_type,
            count: 1,
            service_ns,
        };
        self.counted(request_type).ended(job, service_ns);
        let completed = Event::Completed {
            worker,
            samples: &[sample],
            dropped: false,
        };
        self.event(now_ns, completed);
    }

    /// Whether a timer has to be started for this policy. There is one then.
    pub(crate) fn claims_timer(&mut self, policy: &Policy) -> bool {
        let preempts = self.limits.contexts > 0 && policy.can_preempt();
        let claims = self.timer.is_none() && (preempts || self.hand_offs.are_wanted());
        if claims {
            self.timer = Some(Timer::default());
        }
        claims
    }

    /// The timer could not be started.
    pub(crate) fn has_no_timer(&mut self) {
        self.timer = None;
    }

    /// What the timer does next.
    pub(crate) fn due(&mut self, now_ns: u64) -> Due {
        let overdue = { &mut self.hand_offs }.overdue(now_ns, &self.crew, self.waiting > 0);
        let deadline_ns = self.deadline_ns();
        let Some(timer) = &mut self.timer else {
            return Due::In(Duration::MAX);
        };
        timer.looks_ns = 0;
        let until_hand_off = match overdue {
            Overdue::Now(_) if self.crew.has_spare() => return Due::HandOff,
            Overdue::Now(_) => return Due::Thread,
            Overdue::At(at_ns) => Duration::from_nanos(at_ns.saturating_sub(now_ns)),
            Overdue::Never => Duration::MAX,
        };
        let until_tick = timer.ticker.wait(now_ns, deadline_ns);
        if until_tick.is_zero() {
            return Due::Tick;
        }
        let wait = until_tick.min(until_hand_off);
        let wait_ns = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
        timer.looks_ns = now_ns.saturating_add(wait_ns);
        Due::In(wait)
    }

    /// Whether the timer has to look earlier than it would. It does then.
    pub(crate) fn wakes_timer(&mut self) -> bool {
        if self.timer.is_none() {
            return false;
        }
        let hands_off = self.hand_offs.wakes_timer(&self.crew, self.waiting > 0);
        let deadline_ns = self.deadline_ns().unwrap_or(u64::MAX);
        let is_over = self.is_over();
        let Some(timer) = &mut self.timer else {
            return false;
        };
        let is_early = deadline_ns < timer.looks_ns;
        if is_early {
            timer.looks_ns = 0;
        }
        hands_off || is_early || is_over
    }

    /// A spare thread serves a worker in place of one that runs a task for too long, and that has the rest of the task.
    /// Nothing happens if there is no need any more.
    pub(crate) fn hand_off(&mut self, now_ns: u64, left: &mut Left) {
        let overdue = { &mut self.hand_offs }.overdue(now_ns, &self.crew, self.waiting > 0);
        let Overdue::Now(worker) = overdue else {
            return;
        };
        if !self.crew.has_spare() {
            return;
        }
        let Some((request_type, since_ns)) = self.crew.relieves(worker) else {
            return;
        };
        self.counted(request_type).handed_off += 1;
        let served_ns = now_ns.saturating_sub(since_ns);
        self.event(now_ns, Event::Blocked { worker, served_ns });
        self.run_what_can(left);
        self.fill(worker, left);
    }

    /// A thread was started to be spare.
    pub(crate) fn add_spare(&mut self, carrier: Arc<Carrier>) {
        self.crew.add_spare(carrier);
    }

    /// Spare threads end with the pool.
    pub(crate) fn ends_spares(&mut self, left: &mut Left) {
        left.rung.extend(self.crew.take_spares());
    }

    /// When something has to be done though nothing happens.
    fn deadline_ns(&self) -> Option<u64> {
        let deadlines = [self.scheduler.deadline_ns(), self.crew.due_ns()];
        deadlines.into_iter().flatten().min()
    }

    /// The same for workers that wait: a timer sees to it if there is one.
    pub(crate) fn deadline_without_timer_ns(&self) -> Option<u64> {
        match self.timer {
            Some(_) => None,
            None => self.deadline_ns(),
        }
    }

    /// Time has passed.
    pub(crate) fn tick(&mut self, now_ns: u64, left: &mut Left) {
        self.event(now_ns, Event::Tick);
        self.crew.ask_due(now_ns);
        self.run_what_can(left);
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

    /// What was to run on `worker` does not.
    fn dropped(&mut self, worker: WorkerId) {
        let dropped = Event::Completed {
            worker,
            samples: &[],
            dropped: true,
        };
        self.event(self.seen_ns, dropped);
    }

    /// Forgets a task that will not run, for this reason.
    fn forget(&mut self, name: RequestId, task: Task, fate: Fate, left: &mut Left) {
        self.table.remove(name);
        let job = task.metadata();
        job.decide(fate);
        self.counted(job.request_type).dropped(job.fate());
        left.dropped.push(task);
    }

    /// The queue of a task's type is full.
    fn refused(&mut self, name: RequestId, left: &mut Left) {
        let place = std::mem::replace(&mut self.table.at(name).place, Place::Pending);
        let Place::Waits(task) = place else {
            unreachable!("a task that is refused has not run");
        };
        let job = task.metadata().clone();
        let slot = self.types.slot(job.request_type);
        let Some(vacant) = self.vacant.take(slot) else {
            self.waiting -= 1;
            return self.forget(name, task, Fate::Busy, left);
        };
        let arrived_ns = self.table.remove(name).arrived_ns;
        *self.table.at(vacant) = Entry::new(task, arrived_ns);
        job.set_name(vacant);
    }

    /// Nobody waits for the result of a task any more. If it has not begun it goes at once.
    pub(crate) fn withdraw(&mut self, job: &Arc<Job>, left: &mut Left) {
        if job.fate() != Fate::Open || job.is_over() {
            return;
        }
        job.decide(Fate::Cancelled);
        let Some(name) = job.name() else { return };
        let entry = self.table.at(name);
        if entry.has_begun || !matches!(entry.place, Place::Waits(_)) {
            return;
        }
        let slot = self.types.slot(job.request_type);
        if let Place::Waits(task) = self.vacant.add(&mut self.table, slot, name) {
            left.dropped.push(task);
        }
        self.waiting -= 1;
        self.counted[slot].dropped(Fate::Cancelled);
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

    /// Takes no new tasks from now on.
    pub(crate) fn close(&mut self) {
        self.is_closed = true;
    }

    /// Gives up all tasks that no thread polls; those that gave way go on without a worker. Returns how many there were.
    pub(crate) fn give_up(&mut self, left: &mut Left) -> usize {
        self.is_closed = true;
        self.is_over = true;
        let names: Vec<RequestId> = self.table.names().collect();
        let vacant = self.vacant.total();
        let mut given_up = Vec::new();
        for &name in &names {
            let place = &mut self.table.at(name).place;
            match std::mem::replace(place, Place::Pending) {
                Place::Waits(task) | Place::Woken(task) => given_up.push(What::Begins(task)),
                Place::Suspended(carrier) => {
                    *place = Place::Runs;
                    given_up.push(What::GoesOn(carrier));
                }
                other => *place = other,
            }
        }
        let turns = self.next.iter_mut().filter_map(Option::take);
        given_up.extend(turns.map(|turn| turn.what));
        for what in given_up {
            match what {
                What::Begins(task) => {
                    task.metadata().decide(Fate::Closed);
                    left.dropped.push(task);
                }
                What::GoesOn(carrier) => {
                    self.crew.lets_go();
                    left.rung.push(carrier);
                }
            }
        }
        names.len() - vacant
    }

    /// Whether workers shall end.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over || self.is_drained()
    }

    /// Whether there is nothing left to do, and nothing will come.
    pub(crate) fn is_drained(&self) -> bool {
        self.is_closed && self.table.len() == 0
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
