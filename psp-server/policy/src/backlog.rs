//! What waits and runs, on its way from one scheduler to another.

use crate::event::{RequestId, WorkerId};
use crate::request_type::RequestType;

/// Everything that a scheduler has when another policy replaces it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Backlog {
    /// All requests that wait, run or are blocked, in order of arrival.
    pub requests: Vec<BacklogRequest>,
    /// Requests that found their typed queue full, and for which the driver has not polled the
    /// [`Action::Reject`](crate::Action::Reject) yet, in order.
    pub refused: Vec<(RequestId, RequestType)>,
    /// Per type slot, `UNKNOWN` last: how many requests were refused so far. Missing slots count 0.
    pub rejections: Vec<u64>,
}

/// A request that waits, runs or is blocked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BacklogRequest {
    /// The driver's name for it.
    pub request: RequestId,
    /// Its type.
    pub request_type: RequestType,
    /// When it arrived, in nanoseconds.
    pub arrived_ns: u64,
    /// When its turn shall have come at the latest, in nanoseconds.
    pub deadline_ns: Option<u64>,
    /// For how long it ran in earlier turns, in nanoseconds; 0 for a request that never ran.
    pub served_ns: u64,
    /// For how long it was blocked before it last became unblocked, in nanoseconds; 0 for most requests.
    pub blocked_ns: u64,
    /// Whether it waits or runs, and where.
    pub state: RequestState,
}

impl BacklogRequest {
    /// Whether it waits for a worker, at its first turn or between two.
    #[must_use]
    pub const fn waits(&self) -> bool {
        matches!(self.state, RequestState::Waiting | RequestState::Suspended { .. })
    }
}

/// Whether a request waits, runs or is blocked, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestState {
    /// It waits, and any worker may run it.
    Waiting,
    /// It began on this worker, its home worker, which alone can resume it.
    Suspended {
        /// The home worker.
        home: WorkerId,
    },
    /// It runs.
    Running {
        /// Where. No two requests run on one worker.
        worker: WorkerId,
        /// When this turn started, in nanoseconds.
        started_ns: u64,
        /// Whether the driver was asked to stop it. It is not asked again in this turn.
        preempted: bool,
    },
    /// It waits for something outside of the scheduler, until [`Event::Unblocked`](crate::Event::Unblocked).
    Blocked {
        /// Where it ran last: its home worker, unless requests migrate.
        home: WorkerId,
        /// Since when, in nanoseconds.
        since_ns: u64,
    },
}

/// How a scheduler's requests go on under another policy.
pub trait Handover {
    /// Gives away everything that waits, runs and is blocked. The scheduler is of no use afterwards.
    fn hand_over(&mut self) -> Backlog;

    /// Takes over what another scheduler with the same [`SchedulerSetup`](crate::SchedulerSetup)
    /// gave away. The driver calls it before any event, says how many workers are present unless all are
    /// ([`Event::Workers`](crate::Event::Workers)), and polls afterwards. Requests that run go on running.
    fn take_over(&mut self, now_ns: u64, backlog: Backlog);
}
