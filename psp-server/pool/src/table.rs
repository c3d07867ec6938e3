//! The tasks of a pool, by the scheduler's names for them.

use std::sync::Arc;
use std::task::Waker;

use async_task::Runnable;
use psp_policy::RequestId;

use crate::job::Job;
use crate::pool_thread::PoolThread;

/// A task that is to be polled.
pub(crate) type Task = Runnable<Arc<Job>>;

/// Where a task is.
#[derive(Debug)]
pub(crate) enum Place {
    /// In the scheduler, or with a worker that is about to run it.
    Waits(Task),
    /// With a worker, which polls it.
    Runs,
    /// The same, and it was woken meanwhile.
    Woken(Task),
    /// On a thread that waits, as the task yielded at a checkpoint.
    Suspended(Arc<PoolThread>),
    /// Nowhere: its wakers have it.
    Pending,
    /// It has ended on a thread that is no worker any more. The scheduler does not know yet.
    Ended(Arc<Job>),
    /// It was withdrawn, and the scheduler does not know.
    Vacant(Vacancy),
}

/// Where the name of a task that was withdrawn is noted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Vacancy {
    pub(crate) slot: usize,
    /// Among those of its type.
    pub(crate) at: usize,
}

/// What the pool knows of a task.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) place: Place,
    /// The slot of its type.
    pub(crate) slot: usize,
    pub(crate) arrived_ns: u64,
    /// For how long it ran, in all polls.
    pub(crate) served_ns: u64,
    pub(crate) has_begun: bool,
    /// Brings a pending task back, so that it can be dropped. `None` once that has happened.
    pub(crate) waker: Option<Waker>,
}

impl Entry {
    /// A task of the type at `slot` that waits since `now_ns`.
    pub(crate) fn new(task: Task, slot: usize, now_ns: u64) -> Self {
        Self {
            waker: Some(task.waker()),
            place: Place::Waits(task),
            slot,
            arrived_ns: now_ns,
            served_ns: 0,
            has_begun: false,
        }
    }
}

/// See the [module](self). Names are used again.
#[derive(Debug, Default)]
pub(crate) struct Table {
    entries: Vec<Option<Entry>>,
    free: Vec<RequestId>,
}

impl Table {
    /// A task that has arrived.
    pub(crate) fn insert(&mut self, task: Task, slot: usize, now_ns: u64) -> RequestId {
        let entry = Some(Entry::new(task, slot, now_ns));
        if let Some(name) = self.free.pop() {
            self.entries[name.0 as usize] = entry;
            return name;
        }
        let name = u32::try_from(self.entries.len()).expect("there is memory for fewer tasks");
        self.entries.push(entry);
        RequestId(name)
    }

    /// A task that is there.
    pub(crate) fn at(&mut self, name: RequestId) -> &mut Entry {
        let entry = self.entries[name.0 as usize].as_mut();
        entry.expect("the scheduler names tasks that are there")
    }

    /// Forgets a task.
    pub(crate) fn remove(&mut self, name: RequestId) -> Entry {
        let entry = self.entries[name.0 as usize].take();
        self.free.push(name);
        entry.expect("the scheduler names tasks that are there")
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// The names of all that are there.
    pub(crate) fn names(&self) -> impl Iterator<Item = RequestId> {
        let entries = (0..).map(RequestId).zip(&self.entries);
        entries.filter_map(|(name, entry)| entry.is_some().then_some(name))
    }
}
