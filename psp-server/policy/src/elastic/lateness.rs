//! Whether too many requests of a type are late: a signal of the tail, which averages do not show.
//!
//! A request is *late* when it takes longer than the 99th percentile of its type's service times, times
//! [`tail_factor`](super::ElasticSettings::tail_factor), and would not without its wait for a worker. Requests that are
//! long by themselves are not late: another worker would not help them.
//!
//! ```text
//!   debt = max(0, debt + late requests - requests / 100)      once an interval
//! ```
//!
//! The type is late when its debt grows beyond what it may have late in [`FORGIVEN`] intervals. So a few late requests
//! are forgiven, and a share of more than one in a hundred that lasts is not. Old debt fades.

/// One request of so many may be late.
const ONE_IN: f64 = 100.0;
/// Intervals whose allowance makes no type late.
const FORGIVEN: f64 = 5.0;
/// Late requests that make no type late.
const FORGIVEN_MIN: f64 = 4.0;
/// Weight of a new interval in the mean number of requests.
const NEWEST: f64 = 0.125;
/// The part of the debt that an interval leaves.
const FADING: f64 = 0.99;
/// Requests after which the tail of the service times is known.
const KNOWN_AFTER: u32 = 100;
/// The part by which a request that is within the tail lowers it.
const STEP: f64 = 5e-4;

/// The mean and the 99th percentile of a type's service times. Both follow them slowly.
#[derive(Debug, Clone, Copy, Default)]
struct ServiceTimes {
    seen: u32,
    mean_ns: f64,
    tail_ns: f64,
}

impl ServiceTimes {
    #[inline]
    fn saw(&mut self, service_ns: f64) {
        self.seen = self.seen.saturating_add(1);
        let weight = f64::from(self.seen.min(KNOWN_AFTER)).recip();
        self.mean_ns += (service_ns - self.mean_ns) * weight;
        // One step up weighs as much as 99 steps down.
        self.tail_ns = if !self.is_known() {
            self.tail_ns.max(service_ns)
        } else if service_ns > self.tail_ns {
            self.tail_ns * (1.0 + (ONE_IN - 1.0) * STEP)
        } else {
            self.tail_ns * (1.0 - STEP)
        };
    }

    const fn is_known(&self) -> bool {
        self.seen > KNOWN_AFTER
    }
}

/// See the [module](self).
#[derive(Debug, Clone)]
pub(super) struct Lateness {
    /// 0: no request is short enough to be late.
    tail_factor: f64,
    service: ServiceTimes,
    completed: u32,
    late: u32,
    /// Mean number of requests in an interval.
    completed_mean: f64,
    debt: f64,
    is_late: bool,
}

impl Lateness {
    pub(super) fn new(tail_factor: f64) -> Self {
        Self {
            tail_factor,
            service: ServiceTimes::default(),
            completed: 0,
            late: 0,
            completed_mean: 0.0,
            debt: 0.0,
            is_late: false,
        }
    }

    /// A request waited for workers, and was served, for so long.
    #[inline]
    pub(super) fn completed(&mut self, waited_ns: u64, service_ns: u64) {
        let service_ns = service_ns as f64;
        self.service.saw(service_ns);
        self.completed += 1;
        let limit_ns = self.tail_factor * self.service.tail_ns;
        let is_late = self.service.is_known() && service_ns <= limit_ns && service_ns + waited_ns as f64 > limit_ns;
        self.late += u32::from(is_late);
    }

    /// Mean service time, in nanoseconds; 0 if nothing has completed.
    pub(super) const fn service_ns_mean(&self) -> f64 {
        self.service.mean_ns
    }

    pub(super) fn end_interval(&mut self) {
        let completed = f64::from(std::mem::take(&mut self.completed));
        let late = f64::from(std::mem::take(&mut self.late));
        self.completed_mean += (completed - self.completed_mean) * NEWEST;
        self.debt = (self.debt * FADING + late - completed / ONE_IN).max(0.0);
        let forgiven = (FORGIVEN * self.completed_mean / ONE_IN).max(FORGIVEN_MIN);
        self.is_late = late > 0.0 && self.debt > forgiven;
    }

    /// Whether the type was late at the end of the last interval.
    pub(super) const fn is_late(&self) -> bool {
        self.is_late
    }

    /// Counts anew from now on.
    pub(super) const fn forgive(&mut self) {
        self.debt = 0.0;
        self.is_late = false;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Intervals of 1000 requests of 100 to 199 ns, of which so many waited long.
    fn intervals(lateness: &mut Lateness, waited: u64, intervals: u32) -> bool {
        for _ in 0..intervals {
            for request in 0..1_000 {
                let waited_ns = if request < waited { 1_000 } else { 0 };
                lateness.completed(waited_ns, 100 + request % 100);
            }
            lateness.end_interval();
        }
        lateness.is_late()
    }

    #[test]
    fn more_than_one_in_a_hundred_is_late_if_it_lasts() {
        let mut lateness = Lateness::new(1.0);
        assert!(!intervals(&mut lateness, 9, 1_000), "fewer");
        assert!(!intervals(&mut lateness, 40, 1), "a burst");
        assert!(!intervals(&mut lateness, 0, 4));
        assert!(intervals(&mut lateness, 40, 4), "four in a hundred");
        assert!(intervals(&mut lateness, 40, 1), "until it is forgiven");
        lateness.forgive();
        assert!(!lateness.is_late());
    }

    #[test]
    fn in_a_quiet_interval_as_many_may_be_late_as_in_those_before_it() {
        let mut lateness = Lateness::new(1.0);
        assert!(!intervals(&mut lateness, 0, 100));
        for request in 0..100 {
            lateness.completed(if request < 20 { 1_000 } else { 0 }, 150);
        }
        lateness.end_interval();
        assert!(!lateness.is_late());
        let mut lateness = Lateness::new(1.0);
        assert!(!intervals(&mut lateness, 0, 100));
        assert!(intervals(&mut lateness, 80, 1), "70 too many, and 50 are forgiven");
    }

    #[test]
    fn what_was_late_before_a_pause_is_not_late_after_it() {
        let mut lateness = Lateness::new(1.0);
        assert!(!intervals(&mut lateness, 0, 100));
        assert!(!intervals(&mut lateness, 50, 1));
        (0..1_000).for_each(|_| lateness.end_interval());
        assert!(!lateness.is_late(), "nothing ran");
        assert!(!intervals(&mut lateness, 3, 1));
    }

    #[test]
    fn without_a_factor_nothing_is_late() {
        assert!(!intervals(&mut Lateness::new(0.0), 1_000, 100));
    }

    #[test]
    fn service_times_are_followed_when_they_change() {
        for times in [1.0, 10.0, 0.1] {
            let mut service = ServiceTimes::default();
            for round in 0..100_000_u32 {
                let times = if round < 50_000 { 1.0 } else { times };
                service.saw(f64::from(1 + round * 7 % 100) * times);
            }
            let tail = service.tail_ns / times;
            assert!((90.0..115.0).contains(&tail), "{times}: {tail}");
            let mean = service.mean_ns / times;
            assert!((45.0..56.0).contains(&mean), "{times}: {mean}");
        }
    }

    proptest! {
        #[test]
        fn nothing_is_late_that_did_not_wait(
            tail_factor in 1.0..3.0_f64,
            intervals in prop::collection::vec(prop::collection::vec(1..1_000_000_u64, 0..300), 1..30),
        ) {
            let mut lateness = Lateness::new(tail_factor);
            for services_ns in intervals {
                services_ns.iter().for_each(|&service_ns| lateness.completed(0, service_ns));
                lateness.end_interval();
                prop_assert!(!lateness.is_late());
            }
        }

        #[test]
        fn any_share_above_one_in_a_hundred_is_late_in_the_end(
            permille in 0..100_u64,
            requests in 200..2_000_u64,
        ) {
            let mut lateness = Lateness::new(1.0);
            // The service times become known.
            (0..=KNOWN_AFTER).for_each(|_| lateness.completed(0, 100));
            lateness.end_interval();
            let mut numbers = 0..;
            let late = (0..60).any(|_| {
                for number in numbers.by_ref().take(requests as usize) {
                    let waits = number * permille % 1_000 < permille;
                    lateness.completed(if waits { 1_000 } else { 0 }, 100);
                }
                lateness.end_interval();
                lateness.is_late()
            });
            // Small intervals differ from the mean by a request.
            if permille <= 9 {
                prop_assert!(!late);
            } else if permille >= 20 {
                prop_assert!(late);
            }
        }
    }
}
