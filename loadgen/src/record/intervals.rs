//! The seconds of the measurement, type by type.
//!
//! ```text
//!   generator thread                                       main thread
//!   completed ─► histogram of this second ── interval ──►  timeline, observer (HDR log)
//!                         ▲                                       │
//!                         └────────── emptied histograms ◄────────┘
//! ```
//!
//! A second counts from the end of the warm-up. A request belongs to the second in which it ended.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use hdrhistogram::Histogram;
use psp_sim::measure::new_histogram;
use serde::{Deserialize, Serialize};

/// Length of an interval.
pub const INTERVAL: Duration = Duration::from_secs(1);

/// The same in nanoseconds.
const INTERVAL_NS: u64 = 1_000_000_000;

/// Spare histograms of a type at the start. They suffice while the main thread wakes each second.
const SPARE_HISTOGRAMS: usize = 2;

/// One second of one type, with its whole distribution.
#[derive(Debug, Clone)]
pub struct Interval {
    /// Index of the type in the plan.
    pub type_index: usize,
    /// Number of the second in the measurement, from 0.
    pub second: u64,
    /// Errors, drops and timeouts.
    pub failed: u64,
    /// Latencies of the requests that were completed, in nanoseconds.
    pub latency_ns: Histogram<u64>,
}

/// One second of one type in a report. Percentiles are absent if no request was completed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TimelinePoint {
    /// Number of the second in the measurement, from 0.
    pub second: u64,
    /// Requests that were completed.
    pub completed: u64,
    /// Errors, drops and timeouts.
    pub failed: u64,
    /// Median latency in microseconds.
    pub p50_us: Option<f64>,
    /// 99th percentile.
    pub p99_us: Option<f64>,
    /// 99.9th percentile.
    pub p999_us: Option<f64>,
    /// Maximum.
    pub max_us: Option<f64>,
}

impl TimelinePoint {
    pub(super) fn of(interval: &Interval) -> Self {
        let latency_ns = &interval.latency_ns;
        let at = |quantile| (!latency_ns.is_empty()).then(|| latency_ns.value_at_quantile(quantile) as f64 / 1e3);
        Self {
            second: interval.second,
            completed: latency_ns.len(),
            failed: interval.failed,
            p50_us: at(0.5),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: at(1.0),
        }
    }

    fn empty(second: u64) -> Self {
        Self {
            second,
            completed: 0,
            failed: 0,
            p50_us: None,
            p99_us: None,
            p999_us: None,
            max_us: None,
        }
    }
}

/// The current interval of one type, on the thread of the type.
#[derive(Debug)]
pub(crate) struct IntervalRecorder {
    current: Interval,
    /// When the first second begins.
    measured_from_ns: u64,
    end_ns: u64,
    full: Sender<Interval>,
    emptied: Receiver<Histogram<u64>>,
}

impl IntervalRecorder {
    pub(crate) fn completed(&mut self, now_ns: u64, latency_ns: u64) {
        self.tick(now_ns);
        self.current.latency_ns.saturating_record(latency_ns);
    }

    pub(crate) fn failed(&mut self) {
        self.current.failed += 1;
    }

    /// Sends the interval that has ended by `now_ns`, if one has.
    pub(crate) fn tick(&mut self, now_ns: u64) {
        if now_ns >= self.end_ns {
            self.rotate((now_ns - self.measured_from_ns) / INTERVAL_NS);
        }
    }

    fn rotate(&mut self, second: u64) {
        // When the main thread is late, this allocates a histogram rather than losing an interval.
        let latency_ns = self.emptied.try_recv().unwrap_or_else(|_| new_histogram());
        let next = Interval {
            type_index: self.current.type_index,
            second,
            failed: 0,
            latency_ns,
        };
        self.end_ns = self.measured_from_ns.saturating_add((second + 1).saturating_mul(INTERVAL_NS));
        let ended = std::mem::replace(&mut self.current, next);
        // Without a collector the interval is dropped.
        let _ = self.full.send(ended);
    }

    /// Sends the last interval.
    pub(crate) fn finish(mut self) {
        let second = self.current.second;
        self.rotate(second + 1);
    }
}

/// Collects the intervals of all types on the main thread.
#[derive(Debug)]
pub(crate) struct IntervalCollector {
    intervals: Receiver<Interval>,
    full: Option<Sender<Interval>>,
    emptied: Vec<Sender<Histogram<u64>>>,
    timelines: Vec<Vec<TimelinePoint>>,
}

impl Default for IntervalCollector {
    fn default() -> Self {
        let (full, intervals) = channel();
        Self {
            intervals,
            full: Some(full),
            emptied: Vec::new(),
            timelines: Vec::new(),
        }
    }
}

impl IntervalCollector {
    /// The recorder of the next type. Types come in the plan's order.
    pub(crate) fn add_type(&mut self, measured_from_ns: u64) -> IntervalRecorder {
        let (emptied, receiver) = channel();
        for _ in 0..SPARE_HISTOGRAMS {
            // The receiver belongs to this collector, so sending succeeds.
            let _ = emptied.send(new_histogram());
        }
        let type_index = self.emptied.len();
        self.emptied.push(emptied);
        self.timelines.push(Vec::new());
        let full = self.full.clone();
        IntervalRecorder {
            current: Interval {
                type_index,
                second: 0,
                failed: 0,
                latency_ns: new_histogram(),
            },
            measured_from_ns,
            end_ns: measured_from_ns.saturating_add(INTERVAL_NS),
            full: full.expect("types are added before the collection ends"),
            emptied: receiver,
        }
    }

    /// Takes the intervals that arrived since the last call and shows each to `observe`.
    pub(crate) fn collect(&mut self, observe: &mut dyn FnMut(&Interval)) {
        while let Ok(mut interval) = self.intervals.try_recv() {
            observe(&interval);
            let timeline = &mut self.timelines[interval.type_index];
            let first = timeline.last().map_or(0, |point| point.second + 1);
            timeline.extend((first..interval.second).map(TimelinePoint::empty));
            timeline.push(TimelinePoint::of(&interval));
            interval.latency_ns.reset();
            // The thread may have ended.
            let _ = self.emptied[interval.type_index].send(interval.latency_ns);
        }
    }

    /// The timelines of all types: a point for each second up to the last one in which a request of
    /// the type ended.
    pub(crate) fn into_timelines(mut self) -> Vec<Vec<TimelinePoint>> {
        self.full = None;
        for timeline in &mut self.timelines {
            while timeline.last().is_some_and(|point| point.completed + point.failed == 0) {
                timeline.pop();
            }
        }
        self.timelines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START_NS: u64 = 500;

    #[test]
    fn each_second_has_what_ended_in_it_and_quiet_ones_are_there_too() {
        let mut collector = IntervalCollector::default();
        let mut idle = collector.add_type(START_NS);
        let mut busy = collector.add_type(START_NS);
        for (second, latency_us) in [(0, 10), (0, 30), (3, 20)] {
            busy.completed(START_NS + second * INTERVAL_NS + 7, latency_us * 1_000);
        }
        busy.failed();
        busy.tick(START_NS + 5 * INTERVAL_NS);
        idle.tick(START_NS + 5 * INTERVAL_NS);
        busy.finish();
        idle.finish();
        let mut observed = Vec::new();
        collector.collect(&mut |interval| observed.push((interval.type_index, interval.second)));
        assert_eq!(observed, [(1, 0), (1, 3), (0, 0), (1, 5), (0, 5)]);
        let timelines = collector.into_timelines();
        assert!(timelines[0].is_empty());
        let counts: Vec<_> = timelines[1].iter().map(|point| (point.second, point.completed, point.failed)).collect();
        assert_eq!(counts, [(0, 2, 0), (1, 0, 0), (2, 0, 0), (3, 1, 1)]);
        let [p50, max] = [timelines[1][0].p50_us, timelines[1][0].max_us].map(Option::unwrap);
        assert!((p50 - 10.0).abs() < 0.1 && (max - 30.0).abs() < 0.1, "{p50} {max}");
        assert_eq!(timelines[1][1].p50_us, None);
    }

    #[test]
    fn more_intervals_than_spare_histograms_are_no_loss() {
        let mut collector = IntervalCollector::default();
        let mut recorder = collector.add_type(0);
        for second in 0..20 {
            recorder.completed(second * INTERVAL_NS, 1_000);
        }
        recorder.finish();
        collector.collect(&mut |_| {});
        let timeline = &collector.into_timelines()[0];
        assert!(timeline.iter().all(|point| point.completed == 1));
        assert_eq!(timeline.len(), 20);
    }
}
