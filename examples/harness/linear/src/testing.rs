//! Histories that tests write down.

use crate::checker::{Failure, check};
use crate::history::Call;
use crate::keyspace::{Reply, Request};

/// A call of a connection of its own, from `begun` to `ended`.
pub(crate) fn call(begun: u64, ended: u64, operation: Request, reply: impl Into<Option<Reply>>) -> Call<Request> {
    Call {
        session: begun,
        sequence: 0,
        begun,
        ended,
        operation,
        reply: reply.into(),
    }
}

/// Whether some order explains the calls.
///
/// # Panics
/// When the search takes too many steps.
pub(crate) fn is_accepted(mut calls: Vec<Call<Request>>) -> bool {
    calls.sort_by_key(|call| (call.begun, call.sequence));
    match check(&calls) {
        Ok(()) => true,
        Err(Failure::Violation(_)) => false,
        Err(Failure::Undecided) => panic!("too many steps"),
    }
}
