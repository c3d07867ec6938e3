//! Counts the requests of one type while a run goes on.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use psp_sim::measure::SLOWDOWN_STEPS;

use super::intervals::IntervalRecorder;
use super::type_record::{Completions, TypeRecord};

/// Counters of one type that other threads may read during the run. Warm-up included.
#[derive(Debug, Default)]
pub struct LiveCounters {
    /// Requests with a reply that is not an error.
    pub completed: AtomicU64,
    /// Errors, drops and timeouts.
    pub failed: AtomicU64,
    /// Longest latency since a reader last set it to 0, in nanoseconds.
    pub latency_ns_max: AtomicU64,
}

/// Records the requests of one type on the type's thread.
#[derive(Debug)]
pub(crate) struct Recorder {
    record: TypeRecord,
    live: Arc<LiveCounters>,
    intervals: IntervalRecorder,
    /// Intended times of measured requests. Earlier arrivals are warm-up.
    measured_ns: Range<u64>,
    /// Requests that have ended, warm-up included.
    ended: u64,
    /// The completed measured requests, if they are wanted one by one.
    completions: Option<Completions>,
}

/// The result of a [`Recorder`].
pub(crate) type Notes = (TypeRecord, Option<Completions>);

impl Recorder {
    pub(crate) fn new(
        measured_ns: Range<u64>,
        live: Arc<LiveCounters>,
        intervals: IntervalRecorder,
        completions: Option<Completions>,
    ) -> Self {
        Self {
            record: TypeRecord::default(),
            live,
            intervals,
            measured_ns,
            ended: 0,
            completions,
        }
    }

    pub(crate) fn into_notes(self) -> Notes {
        self.intervals.finish();
        (self.record, self.completions)
    }

    /// Must be called regularly, because seconds end even if no request does.
    pub(crate) fn tick(&mut self, now_ns: u64) {
        self.intervals.tick(now_ns);
    }

    /// The record, if a request of `intended_ns` belongs to it.
    fn measured(&mut self, intended_ns: u64) -> Option<&mut TypeRecord> {
        (intended_ns >= self.measured_ns.start).then_some(&mut self.record)
    }

    /// The generator takes an arrival at `taken_ns`. Returns whether to send its request. The
    /// request is dropped without room, and it is a timeout if it is already `timeout_ns` late.
    pub(crate) fn taken_up(&mut self, intended_ns: u64, taken_ns: u64, has_room: bool, timeout_ns: u64) -> bool {
        let lag_ns = taken_ns.saturating_sub(intended_ns);
        let is_sent = has_room && lag_ns < timeout_ns;
        if let Some(record) = self.measured(intended_ns) {
            record.scheduled += 1;
            if is_sent {
                record.lag_ns.saturating_record(lag_ns);
            }
        }
        if !has_room {
            self.failed(intended_ns, Failure::Dropped);
        } else if !is_sent {
            self.failed(intended_ns, Failure::Timeout);
        }
        is_sent
    }

    pub(crate) fn queued(&mut self, intended_ns: u64) {
        if let Some(record) = self.measured(intended_ns) {
            record.queued += 1;
        }
    }

    /// A request waited while a connection rested after a failure.
    pub(crate) fn held_back(&mut self, intended_ns: u64) {
        if let Some(record) = self.measured(intended_ns) {
            record.held_back += 1;
        }
    }

    pub(crate) fn sent(&mut self, intended_ns: u64, sent_ns: u64) {
        let in_time = sent_ns < self.measured_ns.end;
        if let Some(record) = self.measured(intended_ns) {
            record.sent += 1;
            record.sent_in_time += u64::from(in_time);
        }
    }

    /// The reply came at `now_ns`. `service_ns` is the service time of the request, if known.
    pub(crate) fn completed(&mut self, intended_ns: u64, now_ns: u64, service_ns: Option<u32>) {
        let latency_ns = now_ns.saturating_sub(intended_ns);
        self.ended += 1;
        self.live.completed.fetch_add(1, Ordering::Relaxed);
        self.live.latency_ns_max.fetch_max(latency_ns, Ordering::Relaxed);
        self.record.completed_within += u64::from(self.measured_ns.contains(&now_ns));
        if let Some(record) = self.measured(intended_ns) {
            record.completed += 1;
            record.latency_ns.saturating_record(latency_ns);
            if let Some(service_ns) = service_ns {
                let slowdown = latency_ns as f64 / f64::from(service_ns.max(1)) * SLOWDOWN_STEPS;
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "the conversion saturates"
                )]
                let slowdown = slowdown.round() as u64;
                record.slowdown.saturating_record(slowdown);
            }
            self.intervals.completed(now_ns, latency_ns);
            if let Some(completions) = &mut self.completions {
                completions.push(intended_ns, latency_ns);
            }
        }
    }

    /// A request's lookups had `hits` and `misses`.
    pub(crate) fn looked_up(&mut self, intended_ns: u64, hits: u64, misses: u64) {
        if let Some(record) = self.measured(intended_ns) {
            record.hits += hits;
            record.misses += misses;
        }
    }

    pub(crate) fn failed(&mut self, intended_ns: u64, failure: Failure<'_>) {
        self.ended += 1;
        self.live.failed.fetch_add(1, Ordering::Relaxed);
        if let Some(record) = self.measured(intended_ns) {
            match failure {
                Failure::Error(kind) => record.errors.add(kind, 1),
                Failure::Timeout => record.timeouts += 1,
                Failure::Dropped => record.dropped += 1,
                Failure::Unfinished => record.unfinished += 1,
            }
            if !matches!(failure, Failure::Unfinished) {
                self.intervals.failed();
            }
        }
    }

    /// Requests that have ended since the last call.
    pub(crate) fn take_ended(&mut self) -> u64 {
        std::mem::take(&mut self.ended)
    }

    pub(crate) fn reconnected(&mut self) {
        self.record.reconnects += 1;
    }
}

/// Why a request has no latency.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Failure<'a> {
    /// The server answered with an error, or the connection broke.
    Error(&'a str),
    /// No reply in time.
    Timeout,
    /// Too many requests were outstanding.
    Dropped,
    /// The run ended first.
    Unfinished,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::intervals::IntervalCollector;

    #[test]
    fn warm_up_is_not_recorded_and_every_arrival_ends_once() {
        let live = Arc::new(LiveCounters::default());
        let intervals = IntervalCollector::default().add_type(1_000);
        let mut recorder = Recorder::new(1_000..4_500, Arc::clone(&live), intervals, None);
        for intended_ns in [0, 999, 1_000, 2_000, 3_000, 4_000, 5_000] {
            assert!(recorder.taken_up(intended_ns, intended_ns + 7, true, 8));
            recorder.sent(intended_ns, intended_ns);
        }
        recorder.completed(0, 1_500, None);
        recorder.failed(999, Failure::Timeout);
        recorder.completed(1_000, 9_000, Some(4_000));
        recorder.failed(2_000, Failure::Error("BUSY"));
        recorder.failed(3_000, Failure::Timeout);
        recorder.failed(4_000, Failure::Dropped);
        recorder.failed(5_000, Failure::Unfinished);
        assert_eq!((recorder.take_ended(), recorder.take_ended()), (7, 0));
        let record = recorder.into_notes().0;
        assert_eq!((record.scheduled, record.sent), (5, 5));
        assert_eq!(record.sent_in_time, 4, "one was sent after the measured part");
        assert_eq!((record.slowdown.len(), record.slowdown.max()), (1, 2_000));
        let ends = [
            record.completed,
            record.errors.total(),
            record.timeouts,
            record.dropped,
            record.unfinished,
        ];
        assert_eq!(ends, [1; 5]);
        assert_eq!((record.lag_ns.len(), record.lag_ns.max()), (5, 7));
        assert_eq!(record.latency_ns.len(), 1);
        assert!(record.latency_ns.equivalent(record.latency_ns.max(), 8_000));
        assert_eq!(live.completed.load(Ordering::Relaxed), 2);
        assert_eq!(live.failed.load(Ordering::Relaxed), 5);
    }

    #[test]
    fn an_arrival_without_room_or_time_is_not_sent() {
        let intervals = IntervalCollector::default().add_type(0);
        let mut recorder = Recorder::new(0..1_000, Arc::default(), intervals, None);
        for (taken_ns, has_room) in [(100, false), (109, false), (110, true)] {
            assert!(!recorder.taken_up(100, taken_ns, has_room, 10));
        }
        assert!(recorder.taken_up(100, 109, true, 10));
        assert_eq!(recorder.take_ended(), 3);
        let record = recorder.into_notes().0;
        assert_eq!((record.scheduled, record.lag_ns.len()), (4, 1));
        assert_eq!((record.dropped, record.timeouts), (2, 1));
    }

    #[test]
    fn what_came_within_the_measured_part_is_counted_by_the_time_of_the_reply() {
        let intervals = IntervalCollector::default().add_type(1_000);
        let mut recorder = Recorder::new(1_000..2_000, Arc::default(), intervals, None);
        for (intended_ns, replied_ns) in [
            (500, 999),     // warm-up alone
            (900, 1_000),   // sent in the warm-up, answered after it
            (1_000, 1_999), // measured and in time
            (1_900, 2_000), // measured, answered after the end
        ] {
            recorder.completed(intended_ns, replied_ns, None);
        }
        let record = recorder.into_notes().0;
        assert_eq!((record.completed, record.completed_within), (2, 2));
    }
}
