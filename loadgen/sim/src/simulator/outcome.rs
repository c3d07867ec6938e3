//! Results of a simulation.

use hdrhistogram::Histogram;

use super::tape::SimTrace;
use crate::measure::{Percentiles, SLOWDOWN_STEPS};
#[cfg(doc)]
use psp_policy::admission::Reason;

/// The results of a simulation. Only requests that arrived after the warm-up count.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Requests per second that arrive on average by the plan. For a workload with phases: the
    /// requests that did arrive.
    pub offered_rps: f64,
    /// Time from the first measured arrival to the last, in nanoseconds.
    pub duration_ns: u64,
    /// Measured arrivals.
    pub arrived: u64,
    /// Measured requests that completed.
    pub completed: u64,
    /// Measured requests that were rejected because a queue was full.
    pub rejected: u64,
    /// Measured requests that admission refused.
    pub refused: u64,
    /// Measured requests that were let in, and dropped when their turn came, because it was too late.
    pub dropped: u64,
    /// Further attempts of clients at measured requests. Each is completed, rejected, refused or dropped by itself.
    pub retried: u64,
    /// Share of the workers' time that went to requests which ended in time: within their SLO, and before their
    /// clients gave up.
    pub goodput: f64,
    /// Share of the workers' time that was service, from the first measured arrival to the last.
    pub utilization: f64,
    /// The same of each worker by itself, server by server; empty for ideals.
    pub worker_utilization: Vec<f64>,
    /// Share of the workers' time that was overhead: waiting for dispatched requests, stealing,
    /// switching, being preempted.
    pub overhead: f64,
    /// Workers that idled though requests waited which might not run there, on average over that time: under DARC the
    /// price of its reservation (Perséphone, equation 2). 0 for ideals.
    pub reserved_idle_cores: f64,
    /// Workers that were present, on average over that time. Times the duration, these are core seconds.
    pub workers_mean: f64,
    /// How often a worker came or went, warm-up included.
    pub worker_changes: u64,
    /// Requests in the system, on average over that time.
    pub in_system_mean: f64,
    /// Number of preemptions, warm-up included.
    pub preemptions: u64,
    /// Number of requests that a worker took from another worker's queue, warm-up included.
    pub steals: u64,
    /// Number of changes of the reservation, warm-up included.
    pub reservation_updates: u64,
    /// Slowdowns of all requests.
    pub overall: Slowdowns,
    /// Each type, in the workload's order.
    pub types: Vec<TypeOutcome>,
    /// Each priority, if the workload has several.
    pub priorities: Vec<TenantOutcome>,
    /// Each tenant, if the workload has some, and not more than [`TENANTS_MAX`].
    pub tenants: Vec<TenantOutcome>,
    /// The timeline, if the plan asks for it.
    pub timeline: Vec<TimelineBucket>,
    /// Each completed request in the order of completion, if the plan asks for them.
    pub each: Vec<Completion>,
    /// What happened to each request in a window, if the plan asks for it.
    pub trace: Option<SimTrace>,
    /// Whether the caller stopped the simulation before all requests had arrived.
    pub interrupted: bool,
}

/// A completed request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// When it arrived, in nanoseconds from the start.
    pub arrived_ns: u64,
    /// Time from its arrival to its completion, in nanoseconds.
    pub latency_ns: u64,
}

/// The results of one type.
#[derive(Debug, Clone, PartialEq)]
pub struct TypeOutcome {
    /// The type's name.
    pub name: String,
    /// Requests that completed.
    pub completed: u64,
    /// Requests that were rejected.
    pub rejected: u64,
    /// Requests that admission refused, in the order of [`Reason::ALL`].
    pub refused: [u64; 4],
    /// Requests that were let in, and dropped when their turn came.
    pub dropped: u64,
    /// Requests that ended in time.
    pub in_time: u64,
    /// Share of all workers' time that went to those.
    pub goodput: f64,
    /// Workers reserved for the type at the end, of all servers.
    pub workers_reserved: usize,
    /// Time from arrival to completion, in nanoseconds.
    pub latency_ns: Histogram<u64>,
    /// Latency as a multiple of each request's own service time.
    pub slowdown: Slowdowns,
}

/// Tenants up to which an outcome has each.
pub const TENANTS_MAX: usize = 64;

/// The results of one tenant, or of one priority.
#[derive(Debug, Clone, PartialEq)]
pub struct TenantOutcome {
    /// Requests that completed.
    pub completed: u64,
    /// Requests that were rejected, refused or dropped.
    pub unserved: u64,
    /// Share of all workers' time that went to requests which ended in time.
    pub goodput: f64,
    /// Latency as a multiple of each request's own service time.
    pub slowdown: Slowdowns,
}

/// A distribution of slowdowns: time from arrival to completion as a multiple of the request's own
/// service time. At least 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Slowdowns {
    /// In thousandths.
    histogram: Histogram<u64>,
}

impl Slowdowns {
    pub(super) const fn new(histogram: Histogram<u64>) -> Self {
        Self { histogram }
    }

    /// The slowdown that the fraction `quantile` of the requests do not exceed: 0.999 for p99.9. 0
    /// without requests.
    #[must_use]
    pub fn at(&self, quantile: f64) -> f64 {
        self.histogram.value_at_quantile(quantile) as f64 / SLOWDOWN_STEPS
    }

    /// The mean; 0 without requests.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.histogram.mean() / SLOWDOWN_STEPS
    }

    /// In steps of [`SLOWDOWN_STEPS`] per unit.
    #[must_use]
    pub const fn histogram(&self) -> &Histogram<u64> {
        &self.histogram
    }

    /// Number of requests.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The usual percentiles; `None` without requests.
    #[must_use]
    pub fn percentiles(&self) -> Option<Percentiles> {
        Percentiles::of(&self.histogram, SLOWDOWN_STEPS)
    }
}

impl TypeOutcome {
    /// The usual percentiles of the latency in microseconds; `None` when nothing completed.
    #[must_use]
    pub fn latency_us(&self) -> Option<Percentiles> {
        Percentiles::of(&self.latency_ns, 1e3)
    }
}

impl Outcome {
    /// The largest slowdown of any type at `quantile`. It is at most 10 at 0.999 when every type
    /// keeps an SLO of 10.
    #[must_use]
    pub fn worst_slowdown(&self, quantile: f64) -> f64 {
        let types = self.types.iter().map(|ty| ty.slowdown.at(quantile));
        types.fold(0.0, f64::max)
    }
}

/// The requests that arrived in one bucket of the timeline.
#[derive(Debug, Clone, PartialEq)]
pub struct TimelineBucket {
    /// When it begins, in nanoseconds after the first measured arrival.
    pub start_ns: u64,
    /// Share of the workers' time that was service.
    pub utilization: f64,
    /// Workers that were present, on average.
    pub workers_mean: f64,
    /// Number of changes of the reservation from the start of the simulation to the end of the
    /// bucket.
    pub reservation_updates: u64,
    /// Each type, in the workload's order.
    pub types: Vec<TimelinePoint>,
}

impl TimelineBucket {
    /// Share of the workers' time that went to requests of the bucket which ended in time.
    #[must_use]
    pub fn goodput(&self) -> f64 {
        self.types.iter().map(|ty| ty.goodput).sum()
    }
}

/// One type in one bucket.
#[derive(Debug, Clone, PartialEq)]
pub struct TimelinePoint {
    /// Requests that arrived in the bucket and completed.
    pub completed: u64,
    /// Requests that arrived in the bucket and were rejected, refused, or dropped.
    pub rejected: u64,
    /// Requests that arrived in the bucket and ended in time.
    pub in_time: u64,
    /// Service of those, as a share of the workers' time in the bucket.
    pub goodput: f64,
    /// Mean time from arrival to completion in nanoseconds; 0 when nothing completed.
    pub latency_ns_mean: f64,
    /// 99th percentile of the time from arrival to completion in nanoseconds, to two digits; 0 when nothing
    /// completed.
    pub latency_ns_p99: u64,
    /// 99.9th percentile of the time from arrival to completion in nanoseconds, to two digits; 0
    /// when nothing completed.
    pub latency_ns_p999: u64,
    /// Workers reserved for the type at the end of the bucket.
    pub workers_reserved: usize,
}
