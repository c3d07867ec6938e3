//! What a connection owes its peer: replies that are deferred, and those of detached requests.

use crate::config::Config;
use crate::limits::OWED_MAX;

/// Names a deferred reply. No two replies of a thread that receives requests have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ticket(pub(crate) u64);

/// A request whose handler has returned without a reply.
#[derive(Debug)]
pub(crate) struct Owed {
    pub(crate) ticket: Ticket,
    /// The request, for a refusal.
    pub(crate) request: Box<[u8]>,
    /// A part of the reply was sent before it was deferred.
    pub(crate) is_committed: bool,
}

/// How many runs of a connection may be detached, beside a short one that is not: 0 if none is.
pub(crate) fn detached_max(replies_in_order: bool, config: &Config) -> usize {
    match config.requests_per_connection_max {
        max if replies_in_order || max == 1 => 0,
        max => max,
    }
}

/// How many replies a connection may owe before its next request has to wait. With one, replies keep the order of their
/// requests.
pub(crate) fn owed_max(replies_in_order: bool) -> usize {
    if replies_in_order { 1 } else { OWED_MAX }
}
