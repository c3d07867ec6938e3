//! The scheduler, its tasks and workers: everything behind the lock.
//!
//! ```text
//!   submit, wake ──► Arrived, Unblocked ─┐                 ┌──► Run ──► the worker's next task ── wakes it
//!   a poll ends  ──► Completed, Blocked, ┼──► Scheduler ───┤
//!                    Yielded             │                 └──► Reject ──► refused
//!   time passes  ──► Tick ───────────────┘
//! ```
//!
//! What is refused or dropped leaves through [`Left`]: futures are dropped without the lock, as their destructors are the
//! user's.

use std::sync::Arc;

use psp_policy::{
    Action, Contexts, Event, Policy, PolicyError, RequestId, RequestType, Sample, Scheduler,
    SchedulerSetup, TypeTable, WorkerId, switch,
};
use smallvec::SmallVec;

use crate::job::{Fate, Job};
use crate::snapshot::{Snapshot, TypeSnapshot};
use crate::table::{Place, Table, Task};

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
    ) -> Result<Self, PolicyError> {
        policy.validate(workers)?;
        let setup = setup(&types, workers, queue_capacity);
        let scheduler = policy.scheduler(&setup);
        Ok(Self {
            scheduler,
            table: Table::default(),
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
            Place::Pending => {
                *place = Place::Waits(task);
                self.event(now_ns, Event::Unblocked { request: name });
            }
            // A task has one such handle at a time.
            Place::Waits(_) | Place::Woken(_) => left.dropped.push(task),
        }
    }

    /// The task that a worker runs next, if there is one.
    pub(crate) fn take(&mut self, worker: WorkerId) -> Option<Turn> {
        self.next[worker.index()].take()
    }

    /// A worker has polled a task, for so long.
    pub(crate) fn polled(
        &mut self,
        now_ns: u64,
        worker: WorkerId,
        name: RequestId,
        job: &Job,
        served_ns: u64,
        left: &mut Left,
    ) {
        let entry = self.table.at(name);
        entry.served_ns += served_ns;
        if job.is_over() {
            let entry = self.table.remove(name);
            let (service_ns, request_type) = (entry.served_ns, job.request_type);
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
        } else {
            match std::mem::replace(&mut entry.place, Place::Pending) {
                Place::Woken(task) => {
                    entry.place = Place::Waits(task);
                    self.event(now_ns, Event::Yielded { worker, served_ns });
                }
                _ => self.event(now_ns, Event::Blocked { worker, served_ns }),
            }
        }
        self.run_what_can(left);
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
        while let Some(action) = self.scheduler.poll(self.seen_ns) {
            match action {
                Action::Run {
                    worker, request, ..
                } => self.run(worker, request, left),
                // It is not among what the scheduler was built for.
                Action::Preempt { .. } => {}
                Action::Reject { request, .. } => self.drop_waiting(request, Fate::Busy, left),
            }
        }
    }

    fn run(&mut self, worker: WorkerId, name: RequestId, left: &mut Left) {
        let now_ns = self.seen_ns;
        let entry = self.table.at(name);
        let Place::Waits(task) = std::mem::replace(&mut entry.place, Place::Runs) else {
            unreachable!("a task is in one place at a time");
        };
        let job = task.metadata().clone();
        if !std::mem::replace(&mut entry.has_begun, true) {
            let waited_ns = now_ns.saturating_sub(entry.arrived_ns);
            if job.deadline_ns() < now_ns {
                job.decide(Fate::Expired);
            }
            if job.fate() != Fate::Open {
                entry.place = Place::Waits(task);
                self.drop_waiting(name, job.fate(), left);
                let dropped = Event::Completed {
                    worker,
                    samples: &[],
                    dropped: true,
                };
                self.event(now_ns, dropped);
                return;
            }
            self.counted(job.request_type).began(waited_ns);
        }
        self.next[worker.index()] = Some(Turn { name, task });
        left.woken.push(worker);
    }

    /// Forgets a task that waits, for this reason.
    fn drop_waiting(&mut self, name: RequestId, fate: Fate, left: &mut Left) {
        if let Place::Waits(task) = self.table.remove(name).place {
            let job = task.metadata();
            job.decide(fate);
            self.counted(job.request_type).dropped(job.fate());
            left.dropped.push(task);
        }
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
        for &name in &names {
            let place = &mut self.table.at(name).place;
            if let Place::Waits(task) | Place::Woken(task) =
                std::mem::replace(place, Place::Pending)
            {
                task.metadata().decide(Fate::Closed);
                left.dropped.push(task);
            }
        }
        for turn in self.next.iter_mut().filter_map(Option::take) {
            turn.task.metadata().decide(Fate::Closed);
            left.dropped.push(turn.task);
        }
        left.woken.extend((0..self.next.len() as u32).map(WorkerId));
        names.len()
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
            queued: self.scheduler.type_status(slot).queued,
            ..counted.clone()
        });
        Snapshot {
            types: types.collect(),
            unfinished: self.table.len(),
        }
    }
}

fn setup(types: &TypeTable, workers: usize, queue_capacity: usize) -> SchedulerSetup<'_> {
    SchedulerSetup::new(workers, types)
        .queue_capacity(queue_capacity)
        .contexts(Contexts::migrating())
}
