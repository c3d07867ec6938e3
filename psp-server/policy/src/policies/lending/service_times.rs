//! How the service times of a type are distributed: whether a request that ran long will run on
//! for long, and how short the shortest are.

/// Buckets per doubling of the service time.
const PER_OCTAVE: u64 = 4;
const BUCKETS: usize = (u64::BITS as u64 * PER_OCTAVE) as usize;

/// A histogram whose buckets are a quarter of an octave wide. What was counted before weighs half
/// when a window closes, so that a change shows after few windows.
#[derive(Debug, Clone)]
pub(crate) struct ServiceTimes {
    counts: Vec<u64>,
}

/// What a histogram says, or several taken together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    /// Variance over squared mean: 0 where all are equal, 1 for an exponential distribution.
    pub(crate) scv: f64,
    /// One in a thousand is at most about as short as this.
    pub(crate) shortest_ns: f64,
    /// The service time beyond which the part of all work lies that was asked for.
    pub(crate) late_ns: f64,
    /// The least of all service times that a part of the requests exceeds which was asked for.
    pub(crate) rare_ns: f64,
}

impl ServiceTimes {
    /// Nothing counted. All memory is set aside here.
    pub(crate) fn new() -> Self {
        Self { counts: vec![0; BUCKETS] }
    }

    /// Counts `count` requests that took `service_ns` in total.
    pub(crate) fn record(&mut self, count: u32, service_ns: u64) {
        if let Some(each_ns) = service_ns.checked_div(u64::from(count)) {
            self.counts[bucket(each_ns)] += u64::from(count);
        }
    }

    /// Lets what was counted so far weigh half of what follows.
    pub(crate) fn fade(&mut self) {
        self.counts.iter_mut().for_each(|count| *count /= 2);
    }

    /// What is known of all requests in `parts` together. The part `late` of all work lies beyond `late_ns`, and the
    /// part `rare` of all requests beyond `rare_ns`. `None` when nothing was counted.
    pub(crate) fn spread<'a>(parts: impl Iterator<Item = &'a Self> + Clone, late: f64, rare: f64) -> Option<Spread> {
        let count = |bucket: usize| -> f64 {
            let counts = parts.clone().map(|part| part.counts[bucket]);
            counts.sum::<u64>() as f64
        };
        let (mut total, mut sum, mut sum_squared) = (0.0, 0.0, 0.0);
        for index in 0..BUCKETS {
            let (count, ns) = (count(index), middle_ns(index));
            total += count;
            sum += count * ns;
            sum_squared += count * ns * ns;
        }
        let mut below = 0.0;
        let shortest = (0..BUCKETS).find(|&index| {
            below += count(index);
            below > 0.0 && below >= total / 1000.0
        })?;
        let (mut late_ns, mut rare_ns) = (None, None);
        let (mut beyond, mut work_ns) = (0.0, 0.0);
        for index in (0..BUCKETS).rev() {
            let (count, ns) = (count(index), middle_ns(index));
            beyond += count;
            work_ns += count * ns;
            if rare_ns.is_none() && beyond >= rare * total {
                rare_ns = Some(ns);
            }
            if late_ns.is_none() && work_ns - beyond * ns >= late * sum {
                late_ns = Some(ns);
            }
        }
        Some(Spread {
            scv: (sum_squared * total / (sum * sum) - 1.0).max(0.0),
            shortest_ns: middle_ns(shortest),
            late_ns: late_ns.unwrap_or(0.0),
            rare_ns: rare_ns.unwrap_or(0.0),
        })
    }
}

/// Bucket of a service time: its binary order of magnitude and the two bits that follow.
fn bucket(service_ns: u64) -> usize {
    let service_ns = service_ns.max(1);
    let octave = service_ns.ilog2();
    let quarter = if octave >= 2 {
        (service_ns >> (octave - 2)) & 3
    } else {
        (service_ns << (2 - octave)) & 3
    };
    (u64::from(octave) * PER_OCTAVE + quarter) as usize
}

/// A service time in the middle of a bucket.
fn middle_ns(bucket: usize) -> f64 {
    let (octave, quarter) = (bucket as u64 / PER_OCTAVE, bucket as u64 % PER_OCTAVE);
    (octave as f64).exp2() * (1.0 + (quarter as f64 + 0.5) / PER_OCTAVE as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(times_ns: impl IntoIterator<Item = u64>) -> ServiceTimes {
        let mut times = ServiceTimes::new();
        for ns in times_ns {
            times.record(1, ns);
        }
        times
    }

    fn spread(times: &ServiceTimes) -> Spread {
        ServiceTimes::spread(std::iter::once(times), 0.25, 0.001).unwrap()
    }

    #[test]
    fn buckets_follow_each_other() {
        let buckets: Vec<usize> = [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16].map(bucket).to_vec();
        assert!(buckets.is_sorted(), "{buckets:?}");
        assert_eq!(bucket(0), bucket(1));
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        for ns in [1_u64, 2, 3, 900, 1_000, 1_024, 635_000] {
            let ratio = middle_ns(bucket(ns)) / ns as f64;
            assert!((0.85..1.2).contains(&ratio), "{ns}: {ratio}");
        }
    }

    #[test]
    fn equal_times_have_no_spread() {
        let spread = spread(&of([100_000; 50]));
        assert!(spread.scv < 1e-9);
        assert!((spread.rare_ns / 100_000.0 - 1.0).abs() < 0.2);
        assert!(spread.late_ns / spread.rare_ns < 0.8, "{spread:?}");
        assert!((spread.shortest_ns / 100_000.0 - 1.0).abs() < 0.2);
    }

    #[test]
    fn exponential_times_have_a_squared_coefficient_of_variation_of_one() {
        let quantile = |n: u32| -(1.0 - (f64::from(n) + 0.5) / 10_000.0).ln();
        let times = of((0..10_000).map(|n| (quantile(n) * 1e5) as u64));
        let spread = spread(&times);
        assert!((spread.scv - 1.0).abs() < 0.1, "{spread:?}");
        let quarter_ns = -0.25_f64.ln() * 1e5;
        assert!((spread.late_ns / quarter_ns - 1.0).abs() < 0.2, "{spread:?}");
        let rare_ns = -0.001_f64.ln() * 1e5;
        assert!((spread.rare_ns / rare_ns - 1.0).abs() < 0.2, "{spread:?}");
        assert!((50.0..200.0).contains(&spread.shortest_ns), "{spread:?}");
    }

    #[test]
    fn parts_are_taken_together() {
        let (short, long) = (of([1_000; 50]), of([100_000; 50]));
        let both = ServiceTimes::spread([&short, &long].into_iter(), 0.25, 0.001).unwrap();
        assert!((both.scv - 0.96).abs() < 0.1, "{both:?}");
        assert!((50_000.0..80_000.0).contains(&both.late_ns), "{both:?}");
        let none = ServiceTimes::spread(std::iter::empty(), 0.25, 0.001);
        assert_eq!(none, None);
    }

    #[test]
    fn what_was_counted_before_weighs_half() {
        let mut times = of([1_000; 101]);
        times.fade();
        times.record(50, 50 * 100_000);
        let (short, long) = (of([1_000; 50]), of([100_000; 50]));
        assert_eq!(Some(spread(&times)), ServiceTimes::spread([&short, &long].into_iter(), 0.25, 0.001));
    }

    #[test]
    fn what_was_counted_before_fades() {
        let mut times = of([1_000; 100]);
        for _ in 0..10 {
            times.fade();
        }
        times.record(20, 20 * 100_000);
        times.record(0, 7);
        assert!(spread(&times).scv < 1e-9, "the first are forgotten");
    }
}
