//! Service times of one command on one worker: counts in buckets whose width is a sixteenth of their bounds.

use std::sync::atomic::{AtomicU64, Ordering};

/// log2 of the buckets between two powers of two.
const BITS: u32 = 4;
const PER_POWER: usize = 1 << BITS;
/// Longer times count as this one, about 68 seconds.
const NS_MAX: u64 = (1 << 36) - 1;
const BUCKETS: usize = bucket_of(NS_MAX) + 1;

const fn bucket_of(ns: u64) -> usize {
    if ns < PER_POWER as u64 {
        return ns as usize;
    }
    let shift = ns.ilog2() - BITS;
    (shift as usize) * PER_POWER + (ns >> shift) as usize
}

/// The longest time in a bucket.
const fn last_ns(bucket: usize) -> u64 {
    if bucket < PER_POWER {
        return bucket as u64;
    }
    let shift = bucket / PER_POWER - 1;
    let mantissa = (bucket % PER_POWER + PER_POWER) as u64;
    ((mantissa + 1) << shift) - 1
}

/// The counts, which one worker writes.
#[derive(Debug)]
pub struct Histogram(Box<[AtomicU64]>);

impl Default for Histogram {
    fn default() -> Self {
        Self((0..BUCKETS).map(|_| AtomicU64::new(0)).collect())
    }
}

impl Histogram {
    /// Counts a time in nanoseconds. Only one thread calls this.
    #[inline]
    pub fn record(&self, ns: u64) {
        let count = &self.0[bucket_of(ns.min(NS_MAX))];
        count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}

/// The counts of several histograms at one instant. Empty until some are added.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Times(Vec<u64>);

impl Times {
    /// Adds the counts of a worker.
    pub fn add(&mut self, histogram: &Histogram) {
        self.0.resize(BUCKETS, 0);
        for (sum, count) in self.0.iter_mut().zip(&histogram.0) {
            *sum += count.load(Ordering::Relaxed);
        }
    }

    /// The counts since `earlier`.
    #[must_use]
    pub fn since(mut self, earlier: &Self) -> Self {
        for (sum, earlier) in self.0.iter_mut().zip(&earlier.0) {
            *sum -= earlier;
        }
        self
    }

    /// Number of times.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Whether no time was recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The time in nanoseconds that `percent` of all times do not exceed, to a sixteenth; 0 without times.
    #[must_use]
    pub fn percentile_ns(&self, percent: f64) -> u64 {
        let wanted = (self.len() as f64 * percent / 100.0).ceil().max(1.0) as u64;
        let mut seen = 0;
        let found = self.0.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        found.map_or(0, last_ns)
    }

    /// How many times are at most 1, 2, 4, .. microseconds of 1024 ns long, as `(us, count)`. Only powers with further
    /// times are listed.
    #[must_use]
    pub fn cumulative_us(&self) -> Vec<(u64, u64)> {
        let mut found = Vec::new();
        let (mut seen, mut bound_ns) = (0, 1023);
        for (bucket, count) in self.0.iter().enumerate() {
            while last_ns(bucket) > bound_ns {
                bound_ns = bound_ns * 2 + 1;
            }
            seen += count;
            if *count > 0 {
                let us = bound_ns / 1000;
                found.pop_if(|(last, _)| *last == us);
                found.push((us, seen));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_cover_all_times_in_order() {
        let mut before = None;
        for bucket in 0..BUCKETS {
            let last = last_ns(bucket);
            assert_eq!(bucket_of(last), bucket);
            assert!(before.is_none_or(|before| before + 1 == last - width(bucket) + 1));
            before = Some(last);
        }
        assert_eq!(before, Some(NS_MAX));
    }

    fn width(bucket: usize) -> u64 {
        1 << (bucket / PER_POWER).saturating_sub(1)
    }

    #[test]
    fn percentiles_and_powers_follow_from_the_counts() {
        let histogram = Histogram::default();
        for us in [1, 1, 3, 1000] {
            histogram.record(us * 1000);
        }
        histogram.record(u64::MAX);
        let mut times = Times::default();
        assert!(times.is_empty() && times.percentile_ns(50.0) == 0);
        times.add(&histogram);
        assert_eq!(times.len(), 5);
        let close = |percent, us: u64| {
            let ns = times.percentile_ns(percent);
            assert!((us * 1000..=us * 1100).contains(&ns), "{percent}: {ns}");
        };
        close(0.0, 1);
        close(40.0, 1);
        close(60.0, 3);
        close(80.0, 1000);
        assert_eq!(times.percentile_ns(100.0), NS_MAX);
        let cumulative = times.cumulative_us();
        assert_eq!(cumulative[..2], [(1, 2), (4, 3)]);
        assert_eq!(cumulative.last().map(|(_, count)| *count), Some(5));
        let earlier = times.clone();
        assert!(times.since(&earlier).is_empty());
    }
}
