//! Counts and latencies of one request type.

use hdrhistogram::Histogram;
use psp_sim::measure::new_histogram;

use super::clock::RunClock;
use super::errors::ErrorCounts;
use super::intervals::TimelinePoint;
use super::stalls::Stalls;

/// The requests of one type.
///
/// The record holds only requests whose intended time is inside the measured part of the run,
/// except for [`completed_within`](Self::completed_within). Each request ends in exactly one count:
/// `scheduled = completed + errors + timeouts + dropped + unfinished`.
#[derive(Debug, Clone)]
pub struct TypeRecord {
    /// Arrivals of the schedule.
    pub scheduled: u64,
    /// Requests given to the operating system.
    pub sent: u64,
    /// Requests sent before the measured part ended. Later ones missed the rate of the schedule.
    pub sent_in_time: u64,
    /// Requests with a reply that is not an error.
    pub completed: u64,
    /// Replies without an error that came during the measured part. Replies to requests of the
    /// warm-up count. Replies after the end of the measured part do not.
    pub completed_within: u64,
    /// Requests not sent because too many were outstanding.
    pub dropped: u64,
    /// Requests given up without a reply, sent or not.
    pub timeouts: u64,
    /// Requests without a reply when the run was interrupted.
    pub unfinished: u64,
    /// Requests that waited for a free connection. This is not an outcome.
    pub queued: u64,
    /// Requests among `queued` that waited while the generator let a connection rest after a failure.
    /// A request that waited twice counts twice.
    pub held_back: u64,
    /// Times a connection was opened again.
    pub reconnects: u64,
    /// Found keys, in requests that count in `completed` or failed later. If the protocol does not
    /// tell keys apart, found replies.
    pub hits: u64,
    /// The same for keys that were not found.
    pub misses: u64,
    /// Requests answered with an error, or lost with their connection, by kind.
    pub errors: ErrorCounts,
    /// Completed requests: intended send time to the last byte of the reply, in nanoseconds.
    pub latency_ns: Histogram<u64>,
    /// Sent requests: how late the generator was, in nanoseconds. Waiting for a free connection is
    /// not part of it, because the server causes it.
    pub lag_ns: Histogram<u64>,
    /// One point for each second of the measurement.
    pub timeline: Vec<TimelinePoint>,
    /// Completed requests whose service time is known: latency divided by it, in
    /// [`SLOWDOWN_STEPS`](psp_sim::measure::SLOWDOWN_STEPS) per unit.
    pub slowdown: Histogram<u64>,
    /// Latencies of calm requests: no stall of the machine overlapped them. `None` without
    /// witnesses.
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
            held_back: 0,
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
    /// Adds another record to this one. The timeline is left out, because percentiles do not add
    /// up.
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
        self.held_back += other.held_back;
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

    /// Records which of `completions` were calm. Their times are on `clock`.
    pub(crate) fn find_calm(&mut self, completions: &Completions, clock: &RunClock, stalls: &Stalls) {
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
    /// Completions that fit without allocation during the run. Later ones are left out.
    const MAX: usize = 1 << 21;

    pub(crate) fn new() -> Self {
        Self(Vec::with_capacity(Self::MAX))
    }

    pub(super) fn push(&mut self, intended_ns: u64, latency_ns: u64) {
        if self.0.len() < Self::MAX {
            self.0.push((intended_ns, latency_ns));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::record::errors::KINDS_MAX;

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
    fn error_kinds_are_bounded_and_records_add_up() {
        let mut record = TypeRecord::default();
        for kind in 0..100 {
            record.errors.add(&format!("E{kind}"), 2);
        }
        assert_eq!(record.errors.iter().count(), KINDS_MAX);
        let mut sum = record.clone();
        sum.add(&record);
        assert_eq!(sum.errors.total(), 400);
        assert_eq!(sum.errors.iter().count(), KINDS_MAX);
    }
}
