//! What a scheduler is built for.

use crate::event::Sample;
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
    /// Where preempted and blocked requests resume, and how many of them a worker can hold.
    pub contexts: Contexts,
    /// From when a request is stuck; `None` if none ever is.
    pub stuck: Option<StuckAfter>,
    /// How many flows requests belong to, under policies whose workers receive for themselves: all requests of a flow
    /// have one [receiver](crate::distributed::Receivers). `None` where each request is a flow of its own. Only
    /// simulations need it: live requests have their receivers.
    pub flows: Option<usize>,
    /// What is known of the requests before the first one arrives: a scheduler that is made while a server runs need
    /// not begin without it. Empty where nothing is.
    pub history: History<'a>,
    /// Seed of the policies that choose at random.
    pub seed: u64,
}

/// Requests that a scheduler did not see, and how long each took.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct History<'a> {
    /// Of each request, in order of arrival.
    pub samples: &'a [Sample],
    /// From the first arrival to the last, in nanoseconds.
    pub span_ns: u64,
}

impl<'a> History<'a> {
    /// Requests that arrived within so many nanoseconds, in order of arrival.
    #[must_use]
    pub const fn new(samples: &'a [Sample], span_ns: u64) -> Self {
        Self { samples, span_ns }
    }
}

impl<'a> SchedulerSetup<'a> {
    /// A setup of so many workers for these types, without preemption: all workers are present, typed queues hold
    /// 1024 requests, the driver has a thread of its own, any number of requests can be blocked and resume at home,
    /// no request is ever stuck, each is a flow of its own, and the seed is 1.
    #[must_use]
    pub const fn new(workers: usize, types: &'a TypeTable) -> Self {
        Self {
            workers,
            present: workers,
            types,
            queue_capacity: 1024,
            inline: false,
            preemption: None,
            contexts: Contexts::at_home(usize::MAX),
            stuck: None,
            flows: None,
            history: History::new(&[], 0),
            seed: 1,
        }
    }

    /// The preemption, if a worker can run another request in place of one that it suspends.
    #[must_use]
    pub fn useful_preemption(&self) -> Option<Preemption> {
        self.preemption.filter(|_| self.contexts.free_workers())
    }

    crate::setters! {
        present: usize,
        queue_capacity: usize,
        inline: bool,
        preemption: Option<Preemption>,
        contexts: Contexts,
        stuck: Option<StuckAfter>,
        flows: Option<usize>,
        history: History<'a>,
        seed: u64,
    }
}

/// From when a request is *stuck*: it has run for so long that it may never end. Both bounds must be exceeded.
///
/// Policies that reserve workers let a type whose workers are all stuck use another worker; see
/// [`Scheduler::relief`](crate::Scheduler::relief).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct StuckAfter {
    /// Service time over all turns, in nanoseconds.
    pub time_ns: u64,
    /// Service time over all turns, in mean service times of the request's type. Does not count while the mean is
    /// unknown. A run of pipelined requests is one request here, so that this number should be above the length of
    /// the longest run.
    pub means: u32,
}

impl StuckAfter {
    /// Stuck after so many nanoseconds and so many mean service times.
    #[must_use]
    pub const fn new(time_ns: u64, means: u32) -> Self {
        Self { time_ns, means }
    }

    /// The service time from which a request is stuck whose type has this mean, in nanoseconds; a mean of 0 is unknown.
    #[must_use]
    pub fn service_ns(self, mean_ns: f64) -> u64 {
        self.time_ns.max((mean_ns * f64::from(self.means)) as u64)
    }
}

/// What a preemption costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Preemption {
    /// Time from the decision to the freed worker, in nanoseconds.
    pub cost_ns: u64,
    /// The shortest quantum that is worth its cost, in nanoseconds. Policies whose quantum is not
    /// [set](crate::Quantum) choose none that is shorter.
    pub quantum_ns_min: u64,
}

impl Preemption {
    /// A preemption that frees its worker after `cost_ns`, and is worth its cost after any quantum.
    #[must_use]
    pub const fn new(cost_ns: u64) -> Self {
        Self { cost_ns, quantum_ns_min: 0 }
    }

    crate::setters! {
        quantum_ns_min: u64,
    }
}

/// Where requests go on that began and did not end: those that were preempted, yielded, or were
/// blocked.
///
/// A live server keeps such a request on a stack of its worker, and resumes it there and nowhere
/// else: the worker where it ran last is the request's *home worker*. In the simulators of the papers any
/// worker may resume it. Where each request that is preempted has a thread of its own, it moves with that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Contexts {
    /// Whether any worker may resume a request. Otherwise only its home worker may. A request that
    /// never ran may begin on any worker in either case.
    pub migrates: bool,
    /// Number of requests that a worker can hold between their beginning and their end: the request
    /// that it runs, its suspended and its blocked ones. At least 1. A worker without a free context
    /// begins no request but resumes its own, and its request is preempted only for one that is
    /// suspended there. Ignored where requests migrate.
    pub per_worker: usize,
    /// Whether any worker may resume a request that was preempted, while one that was blocked resumes at home. The
    /// preempted ones do not count among those that a worker holds. For workers that neither come nor go. Ignored where
    /// all requests migrate.
    pub preempted_migrate: bool,
}

impl Contexts {
    /// Any worker may resume a request.
    #[must_use]
    pub const fn migrating() -> Self {
        Self {
            migrates: true,
            per_worker: usize::MAX,
            preempted_migrate: false,
        }
    }

    /// A request resumes on the worker where it ran. Each worker can hold `per_worker` requests,
    /// the running one included.
    #[must_use]
    pub const fn at_home(per_worker: usize) -> Self {
        Self { migrates: false, per_worker, preempted_migrate: false }
    }

    /// As [`at_home`](Self::at_home), but any worker with a free context may resume a request that was preempted.
    #[must_use]
    pub const fn at_home_unless_preempted(per_worker: usize) -> Self {
        Self { preempted_migrate: true, ..Self::at_home(per_worker) }
    }

    /// Whether a worker can run another request beside a suspended one.
    const fn free_workers(self) -> bool {
        self.migrates || self.per_worker > 1
    }
}
