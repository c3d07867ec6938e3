//! The scheduler core: events in, actions out, time is an argument.
//!
//! Nothing here reads a clock, starts a thread, touches a socket, or allocates after construction.
//! The live dispatcher, the simulator and the tests drive the same objects.
//!
//! ```text
//!   Arrived ────┐                                   ┌──► Run { worker, request }
//!   Completed ──┼──► Scheduler::on_event(now, ..) ──┤    Scheduler::poll(now)
//!   Tick ───────┘    typed queues, profile, workers └──► Reject { request }
//! ```

mod c_fcfs;
mod config;
mod d_fcfs;
mod darc;
mod fixed_priority;
mod grouped;
mod plan;
mod profile;
mod queues;
mod settings;
mod workers;

pub use config::{Policy, PolicyError};
pub use settings::{Darc, DarcStatic};

use crate::request_type::{RequestType, TypeTable};

/// Number of a worker, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkerId(pub u32);

impl WorkerId {
    /// Its place in per-worker arrays.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The driver's name for a request. The scheduler hands it back and never looks inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub u32);

/// What a worker measured: `count` requests of one type took `service_ns` in total.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Their type.
    pub request_type: RequestType,
    /// How many.
    pub count: u32,
    /// Their service times added up, in nanoseconds.
    pub service_ns: u64,
}

/// What happened.
#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    /// A request arrived. It may stand for a run of `count` pipelined requests that travel
    /// together; the run is queued, counted against the queue's capacity and dispatched as one.
    Arrived {
        /// The driver's name for it.
        request: RequestId,
        /// Its type; for a run, that of its first request.
        request_type: RequestType,
    },
    /// `worker` finished what it was running and is idle.
    Completed {
        /// The worker.
        worker: WorkerId,
        /// What it measured, one entry for each type in the run. Empty where nothing shall be
        /// learned from it.
        samples: &'a [Sample],
    },
    /// Time passed. The driver sends it about every millisecond when nothing else happens, so
    /// that profiling windows can close by time.
    Tick,
}

/// What the driver shall do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Run `request` on `worker`, which is idle.
    Run {
        /// Where.
        worker: WorkerId,
        /// What.
        request: RequestId,
        /// Its type.
        request_type: RequestType,
    },
    /// Refuse `request`: its typed queue is full.
    Reject {
        /// What.
        request: RequestId,
        /// Its type.
        request_type: RequestType,
    },
}

/// What a scheduler says about one type; see [`Scheduler::type_status`].
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TypeStatus {
    /// Requests (or runs) that wait.
    pub queued: usize,
    /// Workers reserved for the type's group; 0 before the first reservation and for policies
    /// without any.
    pub workers_reserved: usize,
    /// First of the reserved workers, when there are any.
    pub worker_first: Option<WorkerId>,
    /// Number of the type's group, by ascending service time.
    pub group: Option<usize>,
    /// Profiled mean service time in nanoseconds; 0 while unknown.
    pub service_ns_mean: f64,
    /// Profiled share of all requests, 0 to 1.
    pub share: f64,
    /// Times one of its requests ran on a worker reserved for a longer group.
    pub steals: u64,
    /// Times one of its requests was refused because the queue was full.
    pub rejections: u64,
}

/// A scheduling policy at work: one state machine for all its workers.
///
/// The driver reports events, then polls until `None`. It may run one action's request to its end
/// (on a worker that is its own thread) before it polls for the next.
pub trait Scheduler: Send {
    /// Takes note of an event. `now_ns` never goes backwards.
    fn on_event(&mut self, now_ns: u64, event: Event<'_>);

    /// The next thing to do, `None` when every request that can run has been handed out.
    fn poll(&mut self, now_ns: u64) -> Option<Action>;

    /// Whether two types may travel in one run: they share queueing and workers.
    fn same_run(&self, first: RequestType, next: RequestType) -> bool {
        first == next
    }

    /// What is known of the type at `slot` of the [`TypeTable`] (`UNKNOWN` comes last).
    fn type_status(&self, slot: usize) -> TypeStatus;

    /// How often reservations were computed.
    fn reservation_updates(&self) -> u64 {
        0
    }
}

/// What a scheduler is built for.
#[derive(Debug, Clone)]
pub struct SchedulerSetup<'a> {
    /// Number of workers, at least 1.
    pub workers: usize,
    /// The registered types and their hints.
    pub types: &'a TypeTable,
    /// Requests that may wait per type where the type does not say.
    pub queue_capacity: usize,
    /// Seed of the policies that draw lots.
    pub seed: u64,
}
