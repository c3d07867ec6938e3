//! Traces in builds without the feature `admin`: nothing is recorded.

use psp_policy::{HandOff, RequestId, WorkerId};

#[derive(Debug)]
pub(crate) struct Trace;

/// What happens to a request on a worker.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turn {
    pub(crate) worker: WorkerId,
    pub(crate) request: RequestId,
    pub(crate) slot: usize,
}

impl Trace {
    pub(crate) fn new(_receivers: usize, _workers: usize) -> Self {
        Self
    }

    pub(crate) fn run_by(&self, _now: impl Fn() -> u64 + Send + Sync + 'static) {}

    #[inline]
    pub(crate) fn arrived(&self, _receiver: usize, _request: RequestId, _slot: usize) {}

    #[inline]
    pub(crate) fn woken(&self, _receiver: usize, _request: RequestId, _slot: usize) {}

    #[inline]
    pub(crate) fn rejected(&self, _receiver: usize, _request: RequestId, _slot: usize) {}

    #[inline]
    pub(crate) fn dropped(&self, _receiver: usize, _request: RequestId, _slot: usize) {}

    #[inline]
    pub(crate) fn taken(&self, _receiver: usize, turn: Turn, _hand_off: HandOff) {
        ignore(turn);
    }

    #[inline]
    pub(crate) fn asked(&self, _receiver: usize, _worker: WorkerId) {}

    #[inline]
    pub(crate) fn asked_by_timer(&self, _worker: WorkerId) {}

    #[inline]
    pub(crate) fn begun(&self, _at_ns: u64, turn: Turn, _requests: usize) {
        ignore(turn);
    }

    #[inline]
    pub(crate) fn completed(&self, _at_ns: u64, turn: Turn, _replies: usize) {
        ignore(turn);
    }

    #[inline]
    pub(crate) fn yielded(&self, _at_ns: u64, turn: Turn) {
        ignore(turn);
    }

    #[inline]
    pub(crate) fn blocked(&self, _at_ns: u64, turn: Turn) {
        ignore(turn);
    }
}

#[inline]
fn ignore(turn: Turn) {
    let _ = (turn.worker, turn.request, turn.slot);
}
