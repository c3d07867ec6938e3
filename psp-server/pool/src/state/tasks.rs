//! How tasks come, and how those go that will not run.

use std::sync::Arc;

use psp_policy::{Event, RequestId, WorkerId};

use super::parts::Left;
use super::scheduling::State;
use crate::job::{Fate, Job};
use crate::table::{Entry, Place, Task};

impl State {
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
        let request = self.table.insert(task, slot, now_ns);
        self.waiting.comes(slot);
        job.set_name(request);
        self.counted(request_type).submitted += 1;
        let arrived = Event::Arrived { request, request_type, deadline_ns };
        self.event(now_ns, arrived);
    }

    fn woken(&mut self, now_ns: u64, name: RequestId, task: Task, left: &mut Left) {
        let place = &mut self.table.at(name).place;
        match place {
            Place::Runs => *place = Place::Woken(task),
            Place::Pending if self.is_over => self.given_up(name, task, left),
            Place::Pending => self.unblocked(now_ns, name, Place::Waits(task)),
            // A task has one such handle at a time.
            _ => left.dropped.push(task),
        }
    }

    /// A task that has no worker waits for one.
    pub(super) fn unblocked(&mut self, now_ns: u64, name: RequestId, place: Place) {
        let waits = matches!(place, Place::Waits(_));
        let entry = self.table.at(name);
        entry.place = place;
        if waits {
            self.waiting.comes(entry.slot);
        }
        self.event(now_ns, Event::Unblocked { request: name });
    }

    /// What was to run on `worker` does not.
    pub(super) fn dropped(&mut self, worker: WorkerId) {
        let dropped = Event::Completed { worker, samples: &[], dropped: true };
        self.event(self.seen_ns, dropped);
    }

    /// Forgets a task that will not run, for this reason.
    pub(super) fn forget(&mut self, name: RequestId, task: Task, fate: Fate, left: &mut Left) {
        self.table.remove(name);
        let job = task.metadata();
        job.decide(fate);
        self.counted(job.request_type).dropped(job.fate());
        left.dropped.push(task);
    }

    /// The queue of a task's type is full.
    pub(super) fn refused(&mut self, name: RequestId, left: &mut Left) {
        let place = std::mem::replace(&mut self.table.at(name).place, Place::Pending);
        let Place::Waits(task) = place else {
            unreachable!("a task that is refused has not run");
        };
        let job = task.metadata().clone();
        let slot = self.types.slot(job.request_type);
        let Some(vacant) = self.vacant.take(slot) else {
            self.waiting.goes(slot);
            return self.forget(name, task, Fate::Busy, left);
        };
        let arrived_ns = self.table.remove(name).arrived_ns;
        *self.table.at(vacant) = Entry::new(task, slot, arrived_ns);
        job.set_name(vacant);
    }

    /// No caller waits for the result of a task any more. If it has not begun it goes at once.
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
        self.waiting.goes(slot);
        self.counted[slot].dropped(Fate::Cancelled);
    }
}
