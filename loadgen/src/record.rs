//! What a run counts and measures, per request type.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hdrhistogram::Histogram;

use crate::clock::RunClock;
use crate::intervals::{IntervalRecorder, TimelinePoint};
use crate::stalls::Stalls;

/// Longest latency that is told apart, in nanoseconds: an hour.
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;

/// Significant decimal digits of every histogram.
const DIGITS: u8 = 3;

/// Steps per unit in histograms of slowdown.
pub const SLOWDOWN_STEPS: f64 = 1e3;

/// Kinds of errors that are told apart; peers choose their names.
const ERROR_KINDS_MAX: usize = 32;

/// What became of one type's requests.
///
/// Only requests whose intended time is inside the measured part of the run are in it, except for
/// [`completed_within`](Self::completed_within). Every one of them ends in exactly one place:
/// `scheduled = completed + errors + timeouts + dropped + unfinished`.
#[derive(Debug, Clone)]
pub struct TypeRecord {
    /// Arrivals of the schedule.
    pub scheduled: u64,
    /// Requests given to the operating system.
    pub sent: u64,
    /// Those of them that were before the measured part ended. The others were not sent at the
    /// rate that the schedule asked for.
    pub sent_in_time: u64,
    /// Requests answered without an error.
    pub completed: u64,
    /// Replies without an error that came while the measured part lasted, those to requests of the
    /// warm-up included: what the server gave in that time. Replies to measured requests that came
    /// after its end are not in it.
    pub completed_within: u64,
    /// Requests not sent because too many were outstanding.
    pub dropped: u64,
    /// Requests given up without a reply, sent or not.
    pub timeouts: u64,
    /// Requests without a reply when the run was interrupted.
    pub unfinished: u64,
    /// Requests that found no free connection and waited for one. No outcome of its own.
    pub queued: u64,
    /// Times a connection was opened again.
    pub reconnects: u64,
    /// What was looked up and was there, in requests that count in `completed`, or failed later on:
    /// keys where the protocol tells, replies otherwise.
    pub hits: u64,
    /// The same of what was not there.
    pub misses: u64,
    /// Requests answered with an error, or lost with their connection, by kind.
    pub errors: ErrorCounts,
    /// Completed requests: intended send time to the last byte of the reply, in nanoseconds.
    pub latency_ns: Histogram<u64>,
    /// All requests that were sent: by how much the generator was late, in nanoseconds. Waiting for
    /// a free connection is the server's doing and not part of it.
    pub lag_ns: Histogram<u64>,
    /// One point for each second of the measurement.
    pub timeline: Vec<TimelinePoint>,
    /// Completed requests whose service time is known: latency divided by it, in
    /// [`SLOWDOWN_STEPS`] per unit.
    pub slowdown: Histogram<u64>,
    /// Those of `latency_ns` that no stall of the machine overlapped. `None` when nobody watched.
    pub calm_latency_ns: Option<Histogram<u64>>,
}

impl Default for TypeRecord {
    fn default() -> Self {
        Self {
            scheduled: 0,
            sent: 0,
            sent_in_time: 0,
            completed: 0,
            completed_within: 0,
            dropped: 0,
            timeouts: 0,
            unfinished: 0,
            queued: 0,
            reconnects: 0,
            hits: 0,
            misses: 0,
            errors: ErrorCounts::default(),
            latency_ns: new_histogram(),
            lag_ns: new_histogram(),
            timeline: Vec::new(),
            slowdown: new_histogram(),
            calm_latency_ns: None,
        }
    }
}

impl TypeRecord {
    /// Adds another record to this one, but for the timeline, whose percentiles do not add up.
    pub fn add(&mut self, other: &Self) {
        self.scheduled += other.scheduled;
        self.sent += other.sent;
        self.sent_in_time += other.sent_in_time;
        self.completed += other.completed;
        self.completed_within += other.completed_within;
        self.dropped += other.dropped;
        self.timeouts += other.timeouts;
        self.unfinished += other.unfinished;
        self.queued += other.queued;
        self.reconnects += other.reconnects;
        self.hits += other.hits;
        self.misses += other.misses;
        for (kind, count) in other.errors.iter() {
            self.errors.add(kind, count);
        }
        for (mine, others) in [
            (&mut self.latency_ns, &other.latency_ns),
            (&mut self.lag_ns, &other.lag_ns),
            (&mut self.slowdown, &other.slowdown),
        ] {
            mine.add(others).expect("all histograms have one range");
        }
        if let Some(others) = &other.calm_latency_ns {
            let mine = self.calm_latency_ns.get_or_insert_with(new_histogram);
            mine.add(others).expect("all histograms have one range");
        }
    }

    /// Tells apart which of `completions`, all on `clock`, were calm.
    pub(crate) fn find_calm(
        &mut self,
        completions: &Completions,
        clock: &RunClock,
        stalls: &Stalls,
    ) {
        let mut calm_ns = new_histogram();
        for &(intended_ns, latency_ns) in &completions.0 {
            let (from, until) = (clock.at(intended_ns), clock.at(intended_ns + latency_ns));
            if stalls.within(from, until).is_zero() {
                calm_ns.saturating_record(latency_ns);
            }
        }
        self.calm_latency_ns = Some(calm_ns);
    }
}

/// Intended time and latency of each completed request of a type, in nanoseconds.
#[derive(Debug)]
pub(crate) struct Completions(Vec<(u64, u64)>);

impl Completions {
    /// Room for so many requests that nothing is allocated while they come; later ones are left out.
    const MAX: usize = 1 << 21;

    pub(crate) fn new() -> Self {
        Self(Vec::with_capacity(Self::MAX))
    }

    fn push(&mut self, intended_ns: u64, latency_ns: u64) {
        if self.0.len() < Self::MAX {
            self.0.push((intended_ns, latency_ns));
        }
    }
}

/// An empty histogram with the range and precision of all others.
#[must_use]
pub fn new_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_NS_MAX, DIGITS).expect("the bounds are constants")
}

/// Counts by the name of the error.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ErrorCounts {
    counts: Vec<(String, u64)>,
}

impl ErrorCounts {
    /// Counts `count` more of `kind`. Beyond a bounded number of kinds they are `OTHER`.
    pub fn add(&mut self, kind: &str, count: u64) {
        let known = self.counts.iter_mut().find(|(name, _)| name == kind);
        if let Some((_, total)) = known {
            *total += count;
        } else if self.counts.len() + 1 < ERROR_KINDS_MAX || kind == OTHER {
            self.counts.push((kind.to_owned(), count));
        } else {
            self.add(OTHER, count);
        }
    }

    /// Kinds and counts.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.counts
            .iter()
            .map(|(kind, count)| (kind.as_str(), *count))
    }

    /// All errors.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.iter().map(|(_, count)| count).sum()
    }
}

const OTHER: &str = "OTHER";

/// Counters of one type that other threads may read while the run goes on. Warm-up included.
#[derive(Debug, Default)]
pub struct LiveCounters {
    /// Requests answered without an error.
    pub completed: AtomicU64,
    /// Errors, drops and timeouts.
    pub failed: AtomicU64,
    /// Longest latency since a reader last set it to 0, in nanoseconds.
    pub latency_ns_max: AtomicU64,
}

/// Takes notes for one type on its thread.
#[derive(Debug)]
pub(crate) struct Recorder {
    record: TypeRecord,
    live: Arc<LiveCounters>,
    intervals: IntervalRecorder,
    /// Intended times that are measured. Arrivals before are warm-up.
    measured_ns: Range<u64>,
    /// Requests that have ended, warm-up included.
    ended: u64,
    /// Those that were measured, if each is wanted.
    completions: Option<Completions>,
}

/// What a [`Recorder`] leaves.
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

    /// To be called now and then: seconds end although nothing happens in them.
    pub(crate) fn tick(&mut self, now_ns: u64) {
        self.intervals.tick(now_ns);
    }

    /// The record, if a request of `intended_ns` is part of it.
    fn measured(&mut self, intended_ns: u64) -> Option<&mut TypeRecord> {
        (intended_ns >= self.measured_ns.start).then_some(&mut self.record)
    }

    /// The generator took up an arrival at `taken_ns`; whether its request is to be sent. Without room
    /// it is dropped, and it is a timeout when it is `timeout_ns` late already.
    pub(crate) fn taken_up(
        &mut self,
        intended_ns: u64,
        taken_ns: u64,
        has_room: bool,
        timeout_ns: u64,
    ) -> bool {
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

    pub(crate) fn sent(&mut self, intended_ns: u64, sent_ns: u64) {
        let in_time = sent_ns < self.measured_ns.end;
        if let Some(record) = self.measured(intended_ns) {
            record.sent += 1;
            record.sent_in_time += u64::from(in_time);
        }
    }

    /// The reply came at `now_ns`; `service_ns` is what was asked for, where that is known.
    pub(crate) fn completed(&mut self, intended_ns: u64, now_ns: u64, service_ns: Option<u32>) {
        let latency_ns = now_ns.saturating_sub(intended_ns);
        self.ended += 1;
        self.live.completed.fetch_add(1, Ordering::Relaxed);
        self.live
            .latency_ns_max
            .fetch_max(latency_ns, Ordering::Relaxed);
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

    /// So much of what a request looked up was there, and so much was not.
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

    /// How many requests have ended since this was last asked.
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
    /// Too many were outstanding already.
    Dropped,
    /// The run ended first.
    Unfinished,
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::intervals::IntervalCollector;

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
        assert_eq!(
            record.sent_in_time, 4,
            "one was sent after the measured part"
        );
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
    fn calm_requests_are_those_that_no_stall_overlaps() {
        let start = Instant::now();
        let clock = RunClock::starting_at(start);
        let at = |us| start + Duration::from_micros(us);
        let stalls = Stalls::new(vec![(at(100), at(200)), (at(300), at(400))]);
        let mut completions = Completions::new();
        for (intended_us, latency_us) in [(90, 5), (90, 15), (150, 10), (210, 80), (390, 1)] {
            completions.push(intended_us * 1_000, latency_us * 1_000);
        }
        let mut record = TypeRecord::default();
        record.find_calm(&completions, &clock, &stalls);
        let calm_ns = record.calm_latency_ns.as_ref().unwrap();
        assert_eq!((calm_ns.len(), calm_ns.max() / 1_000), (2, 80));
        let mut total = TypeRecord::default();
        total.add(&record);
        total.add(&TypeRecord::default());
        assert_eq!(total.calm_latency_ns.unwrap().len(), 2);
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

    #[test]
    fn latencies_keep_three_digits_up_to_an_hour() {
        let mut histogram = new_histogram();
        for value in [1, 1_234, 56_789_000, LATENCY_NS_MAX, u64::MAX] {
            histogram.reset();
            histogram.saturating_record(value);
            let read = histogram.value_at_quantile(1.0) as f64;
            let expected = value.min(LATENCY_NS_MAX) as f64;
            assert!((read / expected - 1.0).abs() <= 1e-3, "{value}: {read}");
        }
    }

    #[test]
    fn error_kinds_are_bounded_and_records_add_up() {
        let mut record = TypeRecord::default();
        for kind in 0..100 {
            record.errors.add(&format!("E{kind}"), 2);
        }
        assert_eq!(record.errors.iter().count(), ERROR_KINDS_MAX);
        let mut sum = record.clone();
        sum.add(&record);
        assert_eq!(sum.errors.total(), 400);
        assert_eq!(sum.errors.iter().count(), ERROR_KINDS_MAX);
    }
}
