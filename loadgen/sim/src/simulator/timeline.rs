//! Latencies and reservations over time. A request belongs to the bucket in which it arrived. A
//! bucket closes when the last of its requests has left.

use std::collections::VecDeque;

use hdrhistogram::Histogram;

use super::outcome::{TimelineBucket, TimelinePoint};
use super::snapshot::Snapshot;

/// Longest latency that histograms tell apart, in nanoseconds: an hour.
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;

/// Significant digits of the latencies.
const DIGITS: u8 = 2;

struct OpenType {
    latency_ns: Histogram<u64>,
    rejected: u64,
    in_time: u64,
    /// Service of the requests that ended in time.
    good_ns: u64,
}

struct Open {
    bucket: TimelineBucket,
    types: Vec<OpenType>,
    /// Requests of the bucket that are in the system.
    in_system: u64,
    /// Whether the time of the bucket has passed.
    passed: bool,
}

/// See the [module](self).
pub(super) struct Timeline {
    width_ns: u64,
    types: usize,
    workers: usize,
    started_ns: Option<u64>,
    served_ns: u64,
    present_ns: u64,
    closed: Vec<TimelineBucket>,
    open: VecDeque<Open>,
    /// Empty histograms of closed buckets, for reuse.
    spare: Vec<Histogram<u64>>,
}

impl Timeline {
    pub(super) fn new(width_ns: u64, types: usize, workers: usize) -> Self {
        Self {
            width_ns: width_ns.max(1),
            types,
            workers,
            started_ns: None,
            served_ns: 0,
            present_ns: 0,
            closed: Vec::new(),
            open: VecDeque::new(),
            spare: Vec::new(),
        }
    }

    /// When the current bucket ends; the end of time before the first bucket.
    fn ends_ns(&self) -> u64 {
        let buckets = (self.closed.len() + self.open.len()) as u64;
        self.started_ns
            .map_or(0, |started_ns| started_ns.saturating_add(buckets.saturating_mul(self.width_ns)))
    }

    /// Whether an arrival at `now_ns` needs [`Timeline::advance`] first.
    pub(super) fn is_behind(&self, now_ns: u64) -> bool {
        now_ns >= self.ends_ns()
    }

    /// Ends buckets and begins others until one covers `now_ns`.
    pub(super) fn advance(&mut self, now_ns: u64, snapshot: &Snapshot) {
        self.started_ns.get_or_insert(now_ns);
        while self.is_behind(now_ns) {
            self.pass(self.width_ns, snapshot);
            let start_ns = (self.closed.len() + self.open.len()) as u64 * self.width_ns;
            let types = (0..self.types)
                .map(|_| OpenType {
                    latency_ns: self.spare.pop().unwrap_or_else(histogram),
                    rejected: 0,
                    in_time: 0,
                    good_ns: 0,
                })
                .collect();
            self.open.push_back(Open {
                bucket: TimelineBucket {
                    start_ns,
                    utilization: 0.0,
                    workers_mean: 0.0,
                    reservation_updates: 0,
                    types: Vec::new(),
                },
                types,
                in_system: 0,
                passed: false,
            });
        }
    }

    /// Ends the current bucket after `width_ns`.
    fn pass(&mut self, width_ns: u64, snapshot: &Snapshot) {
        let served_ns = snapshot.served_ns - self.served_ns;
        self.served_ns = snapshot.served_ns;
        let present_ns = snapshot.present_ns - self.present_ns;
        self.present_ns = snapshot.present_ns;
        if let Some(last) = self.open.back_mut().filter(|last| !last.passed) {
            last.passed = true;
            last.bucket.utilization = served_ns as f64 / (width_ns.max(1) as f64 * self.workers as f64);
            last.bucket.workers_mean = present_ns as f64 / width_ns.max(1) as f64;
            last.bucket.reservation_updates = snapshot.reservation_updates;
            last.bucket.types = snapshot
                .workers_reserved
                .iter()
                .map(|&workers_reserved| TimelinePoint {
                    completed: 0,
                    rejected: 0,
                    in_time: 0,
                    goodput: 0.0,
                    latency_ns_mean: 0.0,
                    latency_ns_p99: 0,
                    latency_ns_p999: 0,
                    workers_reserved,
                })
                .collect();
        }
        self.close();
    }

    fn of(&mut self, arrived_ns: u64) -> &mut Open {
        let since_ns = arrived_ns - self.started_ns.unwrap_or(arrived_ns);
        #[expect(clippy::cast_possible_truncation, reason = "the plan bounds the number of buckets")]
        let index = (since_ns / self.width_ns) as usize - self.closed.len();
        &mut self.open[index]
    }

    pub(super) fn arrived(&mut self, now_ns: u64) {
        self.of(now_ns).in_system += 1;
    }

    pub(super) fn rejected(&mut self, kind: usize, arrived_ns: u64) {
        let open = self.of(arrived_ns);
        open.in_system -= 1;
        open.types[kind].rejected += 1;
        self.close();
    }

    /// `good_ns` is the service of a request that ended in time.
    pub(super) fn completed(&mut self, kind: usize, arrived_ns: u64, latency_ns: u64, good_ns: Option<u64>) {
        let open = self.of(arrived_ns);
        open.in_system -= 1;
        let ty = &mut open.types[kind];
        ty.latency_ns.saturating_record(latency_ns);
        ty.in_time += u64::from(good_ns.is_some());
        ty.good_ns += good_ns.unwrap_or(0);
        self.close();
    }

    /// Closes the oldest buckets that no request can change.
    fn close(&mut self) {
        while let Some(first) = self.open.front()
            && first.passed
            && first.in_system == 0
        {
            let Some(mut first) = self.open.pop_front() else {
                return;
            };
            for (point, mut ty) in first.bucket.types.iter_mut().zip(first.types) {
                point.completed = ty.latency_ns.len();
                point.rejected = ty.rejected;
                point.in_time = ty.in_time;
                point.goodput = ty.good_ns as f64 / (self.width_ns as f64 * self.workers as f64);
                point.latency_ns_mean = ty.latency_ns.mean();
                point.latency_ns_p99 = ty.latency_ns.value_at_quantile(0.99);
                point.latency_ns_p999 = ty.latency_ns.value_at_quantile(0.999);
                ty.latency_ns.reset();
                self.spare.push(ty.latency_ns);
            }
            self.closed.push(first.bucket);
        }
    }

    /// The last arrival was at `now_ns`. The last bucket ends there.
    pub(super) fn end(&mut self, now_ns: u64, snapshot: &Snapshot) {
        let before_ns = (self.closed.len() + self.open.len()).saturating_sub(1) as u64;
        let started_ns = self.started_ns.unwrap_or(now_ns);
        let width_ns = (now_ns - started_ns).saturating_sub(before_ns * self.width_ns);
        self.pass(width_ns, snapshot);
    }

    /// All buckets. The system is empty.
    pub(super) fn into_buckets(self) -> Vec<TimelineBucket> {
        debug_assert!(self.open.is_empty(), "requests are still in the system");
        self.closed
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_NS_MAX, DIGITS).expect("the bounds are constants")
}
