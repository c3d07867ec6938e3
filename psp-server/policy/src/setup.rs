//! What a scheduler is built for.

use crate::request_type::TypeTable;

/// What a scheduler is built for.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SchedulerSetup<'a> {
    /// Number of workers, at least 1. They are numbered from 0.
    pub workers: usize,
    /// How many of them are present at the start, at least 1; see
    /// [`Event::Workers`](crate::Event::Workers).
    pub present: usize,
    /// The registered types and their hints.
    pub types: &'a TypeTable,
    /// Requests that may wait per type where the type does not say.
    pub queue_capacity: usize,
    /// Whether worker 0 is the driver's own thread. It costs no hop, so a type that may use it does
    /// so whenever it is idle. While it runs a request the driver does nothing else, so policies that go
    /// by length begin no request of unknown length there if they have another worker.
    pub inline: bool,
    /// How requests can be preempted; `None` where they cannot. Then every policy runs requests to
    /// their end.
    pub preemption: Option<Preemption>,
    /// Seed of the policies that choose at random.
    pub seed: u64,
}

impl<'a> SchedulerSetup<'a> {
    /// A setup of so many workers for these types, without preemption: all workers are present, typed queues hold
    /// 1024 requests, the driver has a thread of its own, and the seed is 1.
    #[must_use]
    pub const fn new(workers: usize, types: &'a TypeTable) -> Self {
        Self {
            workers,
            present: workers,
            types,
            queue_capacity: 1024,
            inline: false,
            preemption: None,
            seed: 1,
        }
    }

    crate::setters! {
        present: usize,
        queue_capacity: usize,
        inline: bool,
        preemption: Option<Preemption>,
        seed: u64,
    }
}

/// What a preemption costs and allows.
///
/// A live server suspends a preempted request on a stack of its worker, and resumes it there and
/// nowhere else: that worker is the request's *home worker*. In the simulators of the papers any
/// worker may resume it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Preemption {
    /// Time from the decision to the freed worker, in nanoseconds.
    pub cost_ns: u64,
    /// Whether any worker may resume a preempted request. Otherwise only its home worker may. A
    /// request that never ran may begin on any worker in either case.
    pub migrates: bool,
    /// Number of requests that a worker can hold between their beginning and their end: the request
    /// that it runs and its suspended ones. At least 1. A worker without a free context begins no
    /// request, and its request is preempted only for one that is suspended there. Ignored where
    /// requests migrate.
    pub contexts: usize,
}

impl Preemption {
    /// Any worker may resume a preempted request.
    #[must_use]
    pub const fn migrating(cost_ns: u64) -> Self {
        Self {
            cost_ns,
            migrates: true,
            contexts: usize::MAX,
        }
    }

    /// Whether a worker can run another request beside a suspended one.
    pub(crate) const fn frees_workers(self) -> bool {
        self.migrates || self.contexts > 1
    }

    /// A preempted request resumes on the worker where it began. Each worker can hold
    /// `contexts` requests, the running one included.
    #[must_use]
    pub const fn at_home(cost_ns: u64, contexts: usize) -> Self {
        Self {
            cost_ns,
            migrates: false,
            contexts,
        }
    }
}
