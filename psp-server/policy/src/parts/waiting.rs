//! A request that waits.

use crate::backlog::{BacklogRequest, RequestState};
use crate::event::{RequestId, WorkerId};
use crate::request_type::RequestType;

/// A request that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) request: RequestId,
    pub(crate) request_type: RequestType,
    pub(crate) arrived_ns: u64,
    /// When its turn shall have come at the latest, if the peer or its type says so.
    pub(crate) deadline_ns: Option<u64>,
    /// For how long it ran before it was preempted; 0 if it never ran.
    pub(crate) served_ns: u64,
    /// For how long it was blocked.
    pub(crate) blocked_ns: u64,
    /// It has not run, and waits at another worker than the one that received it.
    pub(crate) handed_over: bool,
    /// The worker where it ran last, if that alone can resume it.
    pub(crate) home: Option<WorkerId>,
    /// Position in the order of arrival over all lanes.
    pub(crate) sequence: u64,
    /// Position in its lane, in which suspended requests and others are compared.
    pub(crate) rank: u64,
}

impl Waiting {
    /// A request of a backlog, at this position in the order of arrival.
    pub(crate) const fn of(request: &BacklogRequest, sequence: u64, home: Option<WorkerId>) -> Self {
        Self {
            request: request.request,
            request_type: request.request_type,
            arrived_ns: request.arrived_ns,
            deadline_ns: request.deadline_ns,
            served_ns: request.served_ns,
            blocked_ns: request.blocked_ns,
            handed_over: false,
            home,
            sequence,
            rank: sequence,
        }
    }

    /// The request as part of a backlog.
    pub(crate) const fn in_state(&self, state: RequestState) -> BacklogRequest {
        BacklogRequest {
            request: self.request,
            request_type: self.request_type,
            arrived_ns: self.arrived_ns,
            deadline_ns: self.deadline_ns,
            served_ns: self.served_ns,
            blocked_ns: self.blocked_ns,
            state,
        }
    }

    /// For how long it has waited for a worker, before its first turn and between turns.
    pub(crate) const fn waited_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.since_ns())
    }

    /// Since when it waits for a worker, if all that time is put together: the times in which it ran or was
    /// blocked are left out.
    pub(crate) const fn since_ns(&self) -> u64 {
        self.present_since_ns().saturating_add(self.served_ns)
    }

    /// When it would have arrived if it had never been blocked.
    pub(crate) const fn present_since_ns(&self) -> u64 {
        self.arrived_ns.saturating_add(self.blocked_ns)
    }
}

#[cfg(test)]
impl Waiting {
    /// Some request that never ran.
    pub(crate) const fn example() -> Self {
        Self {
            request: RequestId(0),
            request_type: RequestType::UNKNOWN,
            arrived_ns: 0,
            deadline_ns: None,
            served_ns: 0,
            blocked_ns: 0,
            handed_over: false,
            home: None,
            sequence: 0,
            rank: 0,
        }
    }
}
