//! Spans of the crate `tracing`, of one request in so many.
//!
//! A request that yields leaves its thread to others, so its span is not entered. It lasts from before the handler to
//! behind it.

use psp_policy::WorkerId;
use tracing::Span;
use tracing::field::Empty;

use crate::telemetry::Times;

/// Says which requests have spans.
pub(super) struct Spans {
    /// 0 for none.
    every: u64,
    /// Requests up to the next one that has.
    left: u64,
}

impl Spans {
    /// One request of so many; 0 for none.
    pub(super) fn new(every: u64) -> Self {
        Self { every, left: every }
    }

    /// The next request begins, and has this span if it is its turn.
    #[inline]
    pub(super) fn next(&mut self, span: impl FnOnce() -> Span) -> Option<Span> {
        if self.every == 0 {
            return None;
        }
        self.left -= 1;
        if self.left > 0 {
            return None;
        }
        self.left = self.every;
        Some(span())
    }
}

/// The span of a request that begins.
#[cold]
pub(super) fn request_span(type_name: &str, worker: WorkerId, waited_ns: u64) -> Span {
    tracing::info_span!(
        target: "psp::request",
        "request",
        request_type = type_name,
        worker = worker.0,
        wait_us = waited_ns / 1000,
        service_us = Empty,
    )
}

/// Ends a request's span.
#[inline]
pub(super) fn end_span(span: Option<Span>, times: Times) {
    if let Some(span) = span {
        span.record("service_us", times.served_ns / 1000);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_request_of_so_many_has_a_span() {
        for (every, expected) in [(0, 0), (1, 12), (4, 3), (7, 1), (13, 0)] {
            let mut spans = Spans::new(every);
            let made = (0..12).filter_map(|_| spans.next(Span::none)).count();
            assert_eq!(made, expected, "{every}");
        }
    }
}
