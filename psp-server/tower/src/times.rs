//! Histograms of times, which many threads write.

use std::sync::atomic::{AtomicU32, Ordering};

/// Buckets of one doubling of time.
const PER_OCTAVE_BITS: u32 = 2;
const BUCKETS: usize = (64 << PER_OCTAVE_BITS) as usize;

/// See the [module](self). A bucket is up to a quarter of its time wide.
#[derive(Debug)]
pub(crate) struct Times(Box<[AtomicU32]>);

/// What a histogram had at a moment.
#[derive(Debug, Clone)]
pub(crate) struct Counts(Vec<u32>);

impl Times {
    pub(crate) fn new() -> Self {
        Self((0..BUCKETS).map(|_| AtomicU32::new(0)).collect())
    }

    /// Counts a time.
    pub(crate) fn add(&self, ns: u64) {
        self.0[bucket(ns)].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn counts(&self) -> Counts {
        let counts = self.0.iter().map(|it| it.load(Ordering::Relaxed));
        Counts(counts.collect())
    }
}

impl Counts {
    #[cfg(feature = "metrics")]
    pub(crate) const fn none() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn total(&self) -> u64 {
        self.0.iter().map(|&count| u64::from(count)).sum()
    }

    /// A time to a fourth: so many others are shorter, or as long.
    pub(crate) fn of_rank(&self, rank: u64) -> u64 {
        let mut before = 0;
        let holds_rank = |&count: &u32| {
            before += u64::from(count);
            before > rank
        };
        floor_ns(self.0.iter().position(holds_rank).unwrap_or(0))
    }

    /// The times that were counted since `before`: the middle of their bucket, and how many.
    #[cfg(feature = "metrics")]
    pub(crate) fn since<'a>(&'a self, before: &'a Self) -> impl Iterator<Item = (u64, u32)> + 'a {
        let counts = self.0.iter().enumerate();
        let fresh = counts.map(|(bucket, &count)| {
            let before = before.0.get(bucket).copied().unwrap_or(0);
            let middle_ns = floor_ns(bucket).midpoint(floor_ns(bucket + 1));
            (middle_ns, count.wrapping_sub(before))
        });
        fresh.filter(|&(_, count)| count > 0)
    }
}

/// The bucket of a time: its power of two, and the next two bits.
const fn bucket(ns: u64) -> usize {
    if ns < 1 << PER_OCTAVE_BITS {
        return ns as usize;
    }
    let octave = ns.ilog2() - PER_OCTAVE_BITS;
    let within = (ns >> octave) as usize;
    ((octave as usize) << PER_OCTAVE_BITS) + within
}

/// The shortest time of a bucket.
const fn floor_ns(bucket: usize) -> u64 {
    let per_octave = 1 << PER_OCTAVE_BITS;
    if bucket < per_octave {
        return bucket as u64;
    }
    let octave = bucket / per_octave - 1;
    ((bucket - octave * per_octave) as u64) << octave
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_is_in_the_bucket_whose_floor_is_just_below() {
        let mut ns = 0_u64;
        while ns < 1 << 62 {
            let floor = floor_ns(bucket(ns));
            assert!(floor <= ns && ns - floor <= ns / 4, "{ns} {floor}");
            assert!(floor_ns(bucket(ns) + 1) > ns, "{ns}");
            ns += 1 + ns / 7;
        }
        assert!(bucket(u64::MAX) < BUCKETS);
    }

    #[cfg(feature = "metrics")]
    #[test]
    fn what_was_counted_before_is_not_new() {
        let times = Times::new();
        for ns in [1_000, 1_001, 70_000] {
            times.add(ns);
        }
        let before = times.counts();
        assert_eq!(before.since(&Counts::none()).count(), 2);
        times.add(70_001);
        let after = times.counts();
        let fresh: Vec<_> = after.since(&before).collect();
        assert_eq!(fresh, [((65_536_u64).midpoint(81_920), 1)]);
        assert_eq!(after.since(&after).count(), 0);
    }
}
