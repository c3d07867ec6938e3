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
//! What is refused or dropped leaves through [`Left`]: futures are dropped without the lock, as their destructors are the
//! user's.

use std::sync::Arc;

use psp_policy::{
    Action, Contexts, Event, Policy, PolicyError, RequestId, RequestType, Sample, Scheduler,
    SchedulerSetup, TypeTable, WorkerId, switch,
};
use smallvec::SmallVec;

use crate::hand_off::{HandOffs, Overdue, Watch};
use crate::job::{Fate, Job};
use crate::snapshot::{Snapshot, TypeSnapshot};
use crate::system::Thread;
use crate::table::{Entry, Place, Table, Task};
use crate::vacant::Vacant;

/// What has to be done without the lock.
#[derive(Debug, Default)]
pub(crate) struct Left {
    /// Tasks that will not run.
    pub(crate) dropped: SmallVec<[Task; 1]>,
    /// Workers that have something to run, or to end for.
    pub(crate) woken: SmallVec<[WorkerId; 4]>,
}

/// A task for a worker.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) name: RequestId,
    pub(crate) task: Task,
}

/// See the [module](self).
pub(crate) struct State {
    scheduler: Box<dyn Scheduler>,
    types: Arc<TypeTable>,
    table: Table,
    vacant: Vacant,
    /// Tasks that wait for a worker.
    waiting: usize,
    hand_offs: HandOffs,
    /// Per worker: the task that it shall run.
    next: Box<[Option<Turn>]>,
    /// Per type slot: what was counted. How many wait is the scheduler's to know.
    counted: Box<[TypeSnapshot]>,
    queue_capacity: usize,
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
        workers: usize,
        queue_capacity: usize,
        hand_offs: HandOffs,
    ) -> Result<Self, PolicyError> {
        policy.validate(workers)?;
        let setup = setup(&types, workers, queue_capacity);
        let scheduler = policy.scheduler(&setup);
        Ok(Self {
            scheduler,
            table: Table::default(),
            vacant: Vacant::new(types.len() + 1),
            waiting: 0,
            hand_offs,
            next: (0..workers).map(|_| None).collect(),
            counted: (0..=types.len())
                .map(|slot| TypeSnapshot::new(types.name_of_slot(slot)))
                .collect(),
            types,
            queue_capacity,
            is_closed: false,
            is_over: false,
            seen_ns: 0,
        })
    }

    /// Time does not go backwards, whoever looked at the clock before the lock.
    fn event(&mut self, now_ns: u64, event: Event<'_>) {
        self.seen_ns = self.seen_ns.max(now_ns);
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

    /// The task that a worker runs next, if there is one.
    pub(crate) fn take(&mut self, worker: WorkerId) -> Option<Turn> {
        let turn = self.next[worker.index()].take()?;
        let request_type = turn.task.metadata().request_type;
        self.hand_offs.begins(worker, request_type, self.seen_ns);
        Some(turn)
    }

    /// A thread has polled a task, for so long. Returns whether it is a worker yet.
    pub(crate) fn polled(
        &mut self,
        now_ns: u64,
        watch: Watch,
        name: RequestId,
        job: &Arc<Job>,
        served_ns: u64,
        left: &mut Left,
    ) -> bool {
        let worker = watch.worker;
        let serves = self.hand_offs.ends(watch);
        let entry = self.table.at(name);
        entry.served_ns += served_ns;
        match (job.is_over(), serves) {
            (true, true) => self.ended(now_ns, worker, name, job),
            (true, false) => self.unblocked(now_ns, name, Place::Ended(job.clone())),
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

    /// Whether tasks are ever handed off.
    pub(crate) const fn hands_off(&self) -> bool {
        self.hand_offs.are_wanted()
    }

    /// What the timer has to see to.
    pub(crate) fn overdue(&mut self, now_ns: u64) -> Overdue {
        self.hand_offs.overdue(now_ns, self.waiting > 0)
    }

    /// Whether the timer has to look again.
    pub(crate) fn wakes_timer(&mut self) -> bool {
        self.hand_offs.wakes_timer(self.waiting > 0) || (self.hands_off() && self.is_over())
    }

    /// The calling thread becomes the worker in place of one that runs a task for too long, and that has the rest of the
    /// task. `None` if there is no need any more.
    pub(crate) fn hand_off(&mut self, now_ns: u64, watch: Watch, left: &mut Left) -> Option<Watch> {
        let taken = self.hand_offs.take(now_ns, watch, self.waiting > 0)?;
        self.counted(taken.request_type).handed_off += 1;
        let (worker, served_ns) = (watch.worker, taken.served_ns);
        self.event(now_ns, Event::Blocked { worker, served_ns });
        self.run_what_can(left);
        Some(taken.watch)
    }

    /// There was no thread to hand a task off to.
    pub(crate) const fn no_thread(&mut self) {
        self.hand_offs.no_thread();
    }

    /// `worker` is the calling thread from now on.
    pub(crate) fn serves(&mut self, worker: WorkerId, thread: Thread) {
        self.hand_offs.serves(worker, thread);
    }

    /// When something has to be done though nothing happens.
    pub(crate) fn deadline_ns(&self) -> Option<u64> {
        self.scheduler.deadline_ns()
    }

    /// Time has passed.
    pub(crate) fn tick(&mut self, now_ns: u64, left: &mut Left) {
        self.event(now_ns, Event::Tick);
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
                // It is not among what the scheduler was built for.
                Action::Preempt { .. } => {}
                Action::Reject { request, .. } => self.refused(request, left),
            }
        }
    }

    fn run(&mut self, worker: WorkerId, name: RequestId, left: &mut Left) {
        let now_ns = self.seen_ns;
        let entry = self.table.at(name);
        let task = match std::mem::replace(&mut entry.place, Place::Runs) {
            Place::Waits(task) => task,
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
        self.next[worker.index()] = Some(Turn { name, task });
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
        policy.validate(self.next.len())?;
        let setup = setup(&self.types, self.next.len(), self.queue_capacity);
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

    /// Gives up all tasks that no worker polls. Returns how many tasks there were.
    pub(crate) fn give_up(&mut self, left: &mut Left) -> usize {
        self.is_closed = true;
        self.is_over = true;
        let names: Vec<RequestId> = self.table.names().collect();
        let vacant = self.vacant.total();
        for &name in &names {
            let place = &mut self.table.at(name).place;
            match std::mem::replace(place, Place::Pending) {
                Place::Waits(task) | Place::Woken(task) => {
                    task.metadata().decide(Fate::Closed);
                    left.dropped.push(task);
                }
                other => *place = other,
            }
        }
        for turn in self.next.iter_mut().filter_map(Option::take) {
            turn.task.metadata().decide(Fate::Closed);
            left.dropped.push(turn.task);
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

fn setup(types: &TypeTable, workers: usize, queue_capacity: usize) -> SchedulerSetup<'_> {
    SchedulerSetup::new(workers, types)
        .queue_capacity(queue_capacity)
        .contexts(Contexts::migrating())
}
