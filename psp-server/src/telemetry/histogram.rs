//! Histograms of times, with one writer and any number of readers.
//!
//! Buckets are eight to an octave, from 64 ns on, so that a bucket is at most an eighth of its time wide. What takes
//! more than 137 s is in the last bucket.

use super::counter::Counter;

/// Nanoseconds of the narrowest buckets, as a power of two.
const UNIT_BITS: u32 = 6;
/// Buckets of an octave, as a power of two.
const SPLIT_BITS: u32 = 3;
const SPLIT: usize = 1 << SPLIT_BITS;
/// Octaves above the first [`SPLIT`] buckets.
const OCTAVES: usize = 28;
const BUCKETS: usize = SPLIT * (OCTAVES + 1);
/// The lowest bound that exporters get is 1.024 us: the end of this bucket.
const FIRST_BOUND: usize = 2 * SPLIT - 1;

/// Written by one worker.
#[derive(Debug)]
pub(crate) struct Histogram {
    counts: [Counter; BUCKETS],
    sum_ns: Counter,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            counts: std::array::from_fn(|_| Counter::default()),
            sum_ns: Counter::default(),
        }
    }
}

/// The bucket of a time.
#[inline]
const fn bucket_of(ns: u64) -> usize {
    let units = ns >> UNIT_BITS;
    let Some(magnitude) = units.checked_ilog2() else {
        return 0;
    };
    if magnitude < SPLIT_BITS {
        return units as usize;
    }
    let shift = magnitude - SPLIT_BITS;
    let bucket = ((shift as usize) << SPLIT_BITS) + (units >> shift) as usize;
    if bucket < BUCKETS { bucket } else { BUCKETS - 1 }
}

/// Where a bucket ends, in nanoseconds.
const fn end_ns(bucket: usize) -> u64 {
    let octave = bucket >> SPLIT_BITS;
    let shift = octave.saturating_sub(1);
    let units = (bucket - (shift << SPLIT_BITS) + 1) << shift;
    (units as u64) << UNIT_BITS
}

impl Histogram {
    /// The sum of all times.
    pub(crate) fn sum_ns(&self) -> u64 {
        self.sum_ns.get()
    }

    /// Counts a time. Only the one writer may call this.
    #[inline]
    pub(crate) fn record(&self, ns: u64) {
        self.counts[bucket_of(ns)].add(1);
        self.sum_ns.add(ns);
    }
}

/// A readable copy of a histogram of times. It is serialized as its quantiles, and `buckets` that are not empty: where
/// each ends, in nanoseconds, and how many times it has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HistogramSnapshot {
    counts: Box<[u64]>,
    sum_ns: u64,
}

impl HistogramSnapshot {
    /// The sum of the histograms of several workers.
    pub(crate) fn sum<'a>(histograms: impl Iterator<Item = &'a Histogram>) -> Self {
        let mut sum = Self { counts: Box::new([0; BUCKETS]), sum_ns: 0 };
        for histogram in histograms {
            for (sum, count) in sum.counts.iter_mut().zip(&histogram.counts) {
                *sum += count.get();
            }
            sum.sum_ns = sum.sum_ns.wrapping_add(histogram.sum_ns.get());
        }
        sum
    }

    /// How many times were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The sum of all times, in nanoseconds.
    #[must_use]
    pub const fn sum_ns(&self) -> u64 {
        self.sum_ns
    }

    /// The time that this fraction of all times does not exceed, from 0 to 1, in nanoseconds: at most an eighth more
    /// than the exact one. 0 if there are none.
    #[must_use]
    pub fn quantile_ns(&self, fraction: f64) -> u64 {
        let rank = (self.count() as f64 * fraction).ceil().max(1.0) as u64;
        let mut counted = 0;
        let bucket = self.counts.iter().position(|count| {
            counted += count;
            counted >= rank
        });
        bucket.map_or(0, end_ns)
    }

    /// What was counted since `earlier`, a copy of the same histogram.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let counts = self.counts.iter().zip(&earlier.counts);
        Self {
            counts: counts.map(|(now, then)| now.saturating_sub(*then)).collect(),
            sum_ns: self.sum_ns.wrapping_sub(earlier.sum_ns),
        }
    }

    /// Bounds in nanoseconds, an octave apart, and how many times are below each; all others are above the last.
    pub fn octaves(&self) -> impl Iterator<Item = (u64, u64)> {
        let mut counted = 0;
        let counts = self.counts.iter().enumerate();
        counts.filter_map(move |(bucket, count)| {
            counted += count;
            let is_bound = bucket >= FIRST_BOUND && bucket % SPLIT == SPLIT - 1 && bucket + 1 < BUCKETS;
            is_bound.then(|| (end_ns(bucket), counted))
        })
    }

    /// Times that stand for all others, in nanoseconds: the middle of each bucket, and how many are in it.
    pub(super) fn middles_ns(&self) -> impl Iterator<Item = (u64, usize)> {
        let counts = self.counts.iter().enumerate();
        counts.filter(|(_, count)| **count > 0).map(|(bucket, count)| {
            let begin_ns = bucket.checked_sub(1).map_or(0, end_ns);
            (begin_ns.midpoint(end_ns(bucket)), *count as usize)
        })
    }
}

impl serde::Serialize for HistogramSnapshot {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;

        let mut fields = serializer.serialize_struct("HistogramSnapshot", 7)?;
        fields.serialize_field("count", &self.count())?;
        fields.serialize_field("sum_ns", &self.sum_ns)?;
        for (name, fraction) in [("p50_ns", 0.5), ("p90_ns", 0.9), ("p99_ns", 0.99), ("p999_ns", 0.999)] {
            fields.serialize_field(name, &self.quantile_ns(fraction))?;
        }
        let buckets = self.counts.iter().enumerate();
        let buckets = buckets.filter(|(_, count)| **count > 0);
        let buckets: Vec<_> = buckets.map(|(bucket, count)| (end_ns(bucket), count)).collect();
        fields.serialize_field("buckets", &buckets)?;
        fields.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(times_ns: impl IntoIterator<Item = u64>) -> HistogramSnapshot {
        let histogram = Histogram::default();
        times_ns.into_iter().for_each(|ns| histogram.record(ns));
        HistogramSnapshot::sum([&histogram].into_iter())
    }

    #[test]
    fn buckets_touch_and_are_an_eighth_of_their_time_wide() {
        let mut begin_ns = 0;
        for bucket in 0..BUCKETS {
            let end_ns = end_ns(bucket);
            assert_eq!(bucket_of(begin_ns), bucket);
            assert_eq!(bucket_of(end_ns - 1), bucket);
            let width_ns = end_ns - begin_ns;
            assert!(width_ns == 64 || width_ns * 8 <= begin_ns, "{bucket}");
            begin_ns = end_ns;
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_at_most_an_eighth_too_long() {
        let histogram = histogram((1..=1000).map(|us| us * 1000));
        for (fraction, exact_us) in [(0.0, 1), (0.5, 500), (0.99, 990), (0.999, 999), (1.0, 1000)] {
            let exact_ns = exact_us * 1000;
            let ns = histogram.quantile_ns(fraction);
            assert!((exact_ns..=exact_ns * 9 / 8 + 64).contains(&ns), "{fraction}: {ns}");
        }
        assert_eq!((histogram.count(), histogram.sum_ns()), (1000, 500_500_000));
    }

    #[test]
    fn no_times_have_no_quantile() {
        assert_eq!(histogram([]).quantile_ns(0.99), 0);
    }

    #[test]
    fn a_difference_has_what_came_between() {
        let (earlier, later) = (histogram([100, 5000]), histogram([100, 5000, 5000, 70_000]));
        assert_eq!(later.since(&earlier), histogram([5000, 70_000]));
    }

    #[test]
    fn octaves_add_up_and_double() {
        let octaves: Vec<_> = histogram([10, 1023, 1024, 3000, u64::MAX / 2]).octaves().collect();
        assert_eq!(octaves[..3], [(1024, 2), (2048, 3), (4096, 4)]);
        assert!(octaves.windows(2).all(|pair| pair[0].0 * 2 == pair[1].0));
        assert_eq!(octaves.last().unwrap().1, 4, "the last bucket has no end");
    }

    #[test]
    fn the_middles_have_about_the_same_sum() {
        let histogram = histogram((1..=1000).map(|us| us * 777));
        let sum_ns: u64 = histogram.middles_ns().map(|(ns, count)| ns * count as u64).sum();
        assert!(sum_ns.abs_diff(histogram.sum_ns()) * 16 < histogram.sum_ns());
    }
}
