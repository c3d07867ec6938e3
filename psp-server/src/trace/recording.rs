//! One trace, from its beginning to the file.

#[cfg(loom)]
use loom::sync::atomic::Ordering;
#[cfg(not(loom))]
use std::sync::atomic::Ordering;

use psp_trace::Event;

use super::recorder::{OFF, Trace};
use super::ring::Ring;

/// Why no trace can be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TraceRefused {
    /// There is one trace at a time.
    #[error("another trace is being made")]
    Taken,
    /// Its threads do not run yet.
    #[error("the server is starting")]
    NotRunning,
}

/// A trace that is being made. Dropped, it is given up.
#[derive(Debug)]
pub(crate) struct Recording<T: AsRef<Trace>> {
    trace: T,
    session: u64,
    from_ns: u64,
}

/// What was recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Recorded {
    pub(crate) events: Vec<Event>,
    pub(crate) from_ns: u64,
    /// Until when nothing is missing.
    pub(crate) until_ns: u64,
    /// Events that found no room.
    pub(crate) dropped: u64,
}

impl<T: AsRef<Trace>> Recording<T> {
    /// Has all threads record from now on.
    ///
    /// # Errors
    /// [`TraceRefused`].
    pub(crate) fn begin(trace: T) -> Result<Self, TraceRefused> {
        let this = trace.as_ref();
        let Some(now) = this.clock.get() else {
            return Err(TraceRefused::NotRunning);
        };
        if this.is_taken.swap(true, Ordering::Acquire) {
            return Err(TraceRefused::Taken);
        }
        this.rings.iter().for_each(Ring::make);
        let session = this.last.load(Ordering::Relaxed) + 1;
        this.last.store(session, Ordering::Relaxed);
        let from_ns = now();
        this.session.store(session, Ordering::Release);
        Ok(Self { trace, session, from_ns })
    }

    /// Ends the trace, and returns what was recorded.
    pub(crate) fn end(self) -> Recorded {
        let trace = self.trace.as_ref();
        let mut until_ns = trace.clock.get().map_or(self.from_ns, |now| now());
        trace.session.store(OFF, Ordering::Release);
        let mut events = Vec::new();
        let mut dropped = 0;
        for ring in &trace.rings {
            let recorded = ring.read(self.session);
            let read = recorded.events.into_iter().filter_map(Event::from_words);
            let before = events.len();
            events.extend(read);
            if recorded.dropped > 0 {
                dropped += recorded.dropped;
                let last_ns = events[before..].iter().map(|event| event.at_ns).max();
                until_ns = until_ns.min(last_ns.unwrap_or(self.from_ns));
            }
        }
        Recorded { events, from_ns: self.from_ns, until_ns, dropped }
    }
}

impl<T: AsRef<Trace>> Drop for Recording<T> {
    fn drop(&mut self) {
        let trace = self.trace.as_ref();
        trace.session.store(OFF, Ordering::Release);
        trace.is_taken.store(false, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::AtomicU64;

    use psp_policy::{RequestId, WorkerId};
    use psp_trace::Kind;

    use super::super::recorder::{RING_MAX, Turn};
    use super::*;

    impl AsRef<Self> for Trace {
        fn as_ref(&self) -> &Self {
            self
        }
    }

    /// A trace of one receiver and two workers, whose clock counts calls.
    fn trace() -> Trace {
        let trace = Trace::new(1, 2);
        let calls = AtomicU64::new(0);
        trace.run_by(move || calls.fetch_add(1, Ordering::Relaxed));
        trace
    }

    fn turn(worker: u32) -> Turn {
        Turn { worker: WorkerId(worker), request: RequestId(7), slot: 1 }
    }

    #[test]
    fn what_happens_in_a_trace_is_recorded_and_nothing_else() {
        let trace = trace();
        trace.arrived(0, RequestId(7), 1);
        let recording = Recording::begin(&trace).unwrap();
        trace.arrived(0, RequestId(8), 1);
        trace.begun(5, turn(1), 2);
        trace.asked_by_timer(WorkerId(1));
        let recorded = recording.end();
        let kinds: Vec<_> = { recorded.events.iter() }
            .map(|event| (event.kind, event.request, event.worker, event.at_ns))
            .collect();
        let expected = [(Kind::Arrived, 8, 0, 1), (Kind::Begun, 7, 1, 5), (Kind::Asked, 0, 1, 2)];
        assert_eq!(kinds, expected);
        assert_eq!((recorded.from_ns, recorded.until_ns, recorded.dropped), (0, 3, 0));
        trace.arrived(0, RequestId(7), 1);
        let recorded = Recording::begin(&trace).unwrap().end();
        assert_eq!(recorded.events, []);
    }

    #[test]
    fn there_is_one_trace_at_a_time_and_none_before_the_server_runs() {
        let refused = Recording::begin(&Trace::new(1, 1)).unwrap_err();
        assert_eq!(refused, TraceRefused::NotRunning);
        let trace = trace();
        let first = Recording::begin(&trace).unwrap();
        assert_eq!(Recording::begin(&trace).unwrap_err(), TraceRefused::Taken);
        drop(first);
        assert!(Recording::begin(&trace).is_ok(), "it was given up");
    }

    #[test]
    fn a_trace_ends_before_the_first_event_that_found_no_room() {
        let trace = trace();
        let recording = Recording::begin(&trace).unwrap();
        for number in 0..RING_MAX as u64 + 7 {
            trace.begun(number, turn(0), 1);
        }
        trace.begun(RING_MAX as u64 * 2, turn(1), 1);
        let recorded = recording.end();
        assert_eq!(recorded.dropped, 7);
        assert!(recorded.until_ns < RING_MAX as u64);
    }
}
