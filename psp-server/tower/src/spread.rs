//! How far the service times of a type are apart.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::times::Times;

/// The type is looked at after so many requests, and so many more.
const LOOK_EVERY: u64 = 512;
/// Of all requests, that many are below the spread, and that many above.
const LEFT_OUT: f64 = 0.05;
/// A wide spread has its ends so far apart.
const DECADE: f64 = 10.0;

/// The service times of nine in ten requests of a type lie between these, in nanoseconds, to a fifth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Spread {
    /// Of one request in twenty it is shorter.
    pub low_ns: u64,
    /// Of one request in twenty it is longer.
    pub high_ns: u64,
}

impl Spread {
    /// How many times longer long requests are than short ones.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        self.high_ns as f64 / self.low_ns.max(1) as f64
    }

    /// Whether the ends are more than a decade apart: no policy can tell these requests from each other by their type.
    #[must_use]
    pub fn is_wide(&self) -> bool {
        self.ratio() > DECADE
    }
}

/// The service times of a type.
#[derive(Debug)]
pub(crate) struct ServiceTimes {
    pub(crate) times: Times,
    requests: AtomicU64,
}

impl ServiceTimes {
    pub(crate) fn new() -> Self {
        Self { times: Times::new(), requests: AtomicU64::new(0) }
    }

    /// Counts a request. Returns the spread when it is time to look at it.
    pub(crate) fn add(&self, service_ns: u64) -> Option<Spread> {
        self.times.add(service_ns);
        let requests = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        requests.is_multiple_of(LOOK_EVERY).then(|| self.spread())?
    }

    /// `None` until there are enough requests.
    pub(crate) fn spread(&self) -> Option<Spread> {
        let counts = self.times.counts();
        let total = counts.total();
        if total < LOOK_EVERY {
            return None;
        }
        let at = |share: f64| counts.of_rank((total as f64 * share) as u64);
        Some(Spread { low_ns: at(LEFT_OUT), high_ns: at(1.0 - LEFT_OUT) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread_of(times: impl Iterator<Item = u64>) -> Option<Spread> {
        let service_times = ServiceTimes::new();
        for ns in times {
            service_times.add(ns);
        }
        service_times.spread()
    }

    #[test]
    fn few_requests_say_nothing() {
        assert_eq!(spread_of((1..512).map(|it| it * 1000)), None);
    }

    #[test]
    fn a_type_of_two_kinds_is_wide_and_a_rare_exception_is_not() {
        let mixed = |every: u64| {
            let times = (0..2000).map(move |it| if it % every == 0 { 900_000 } else { 10_000 });
            spread_of(times).unwrap()
        };
        assert!(mixed(5).is_wide());
        assert!(!mixed(100).is_wide());
        let alike = spread_of((0..2000).map(|it| 10_000 + it * 30)).unwrap();
        assert!(!alike.is_wide() && alike.ratio() > 2.0, "{alike:?}");
    }

    #[test]
    fn it_is_time_to_look_now_and_then() {
        let service_times = ServiceTimes::new();
        let looks = (0..2048).filter(|_| service_times.add(1000).is_some());
        assert_eq!(looks.count(), 4);
    }
}
