//! Counters of a pool.

use crate::job::{Fate, Job};

/// What a pool has done until now.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// By the types as they were registered, and `UNKNOWN` last.
    pub types: Vec<TypeSnapshot>,
    /// Studies of the workload that have ended, by which a policy such as `portfolio` chooses what it does.
    pub studies: u64,
    /// What the latest of them found, in a line.
    pub findings: Option<String>,
    /// Tasks that have not ended: they wait, run or are pending.
    pub unfinished: usize,
}

/// What a pool has done with tasks of one type. Times are in nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TypeSnapshot {
    /// The name of the type.
    pub name: String,
    /// Tasks that the pool took, or refused because a queue was full.
    pub submitted: u64,
    /// Tasks that began.
    pub begun: u64,
    /// Tasks that returned.
    pub completed: u64,
    /// Tasks that panicked.
    pub panicked: u64,
    /// Tasks that were refused because the queue of their type was full.
    pub busy: u64,
    /// Tasks whose turn came behind their deadline.
    pub expired: u64,
    /// Tasks whose [`Running`](crate::Running) was dropped before they returned.
    pub cancelled: u64,
    /// Tasks that ran for so long that [another thread](crate::Builder::hand_off_after) took their worker's place.
    pub handed_off: u64,
    /// Times that tasks yielded at a [`checkpoint`](crate::checkpoint()).
    pub yielded: u64,
    /// Times that tasks were asked to yield and ran on, because as many were suspended as
    /// [there may be](crate::Builder::contexts_per_worker), or the system had no thread.
    pub yields_missed: u64,
    /// Tasks that wait for a worker, those that yielded among them.
    pub queued: usize,
    /// From the submission of tasks to their beginning, added up.
    pub wait_ns: u64,
    /// The longest.
    pub wait_ns_max: u64,
    /// The times that tasks which ended had a worker, added up.
    pub service_ns: u64,
    /// The longest.
    pub service_ns_max: u64,
}

impl TypeSnapshot {
    /// Nothing has happened yet.
    pub(crate) fn new(name: &str) -> Self {
        let name = name.to_owned();
        Self { name, ..Self::default() }
    }

    /// A task begins that has waited for so long.
    pub(crate) fn began(&mut self, waited_ns: u64) {
        self.begun += 1;
        self.wait_ns += waited_ns;
        self.wait_ns_max = self.wait_ns_max.max(waited_ns);
    }

    /// A task has ended that ran for so long.
    pub(crate) fn ended(&mut self, job: &Job, service_ns: u64) {
        match job.fate() {
            Fate::Cancelled => self.cancelled += 1,
            _ if job.has_panicked() => self.panicked += 1,
            _ => self.completed += 1,
        }
        self.service_ns += service_ns;
        self.service_ns_max = self.service_ns_max.max(service_ns);
    }

    /// A task will not run.
    pub(crate) fn dropped(&mut self, fate: Fate) {
        match fate {
            Fate::Busy => self.busy += 1,
            Fate::Expired => self.expired += 1,
            Fate::Open | Fate::Closed | Fate::Cancelled => self.cancelled += 1,
        }
    }
}
