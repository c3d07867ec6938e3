//! Where the requests of a type are polled: where they are, or in the pool.
//!
//! ```text
//!              enough requests in a row without a long poll, and a short mean
//!     ┌──────┐ ─────────────────────────────────────────────────────────────► ┌────────┐
//!     │ pool │                                                                │ inline │
//!     └──────┘ ◄───────────────────────────────────────────────────────────── └────────┘
//!                        one long poll, or a mean that is no longer short
//! ```
//!
//! A type that was moved to the pool has to show twice as many good requests as before until it leaves that again, up
//! to a bound. So a type whose requests are seldom long is mostly in the pool.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// Where a request is polled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Where it arrived: by the task that awaits its response.
    Inline,
    /// By a worker of the pool.
    Pool,
}

/// Requests in a row that a new type has to show.
const CALM_FIRST: u32 = 16;
/// The most that a type has to show.
const CALM_MAX: u32 = 4096;
/// Share of the latest request in the mean: one in so many.
const MEAN_OF: u64 = 8;

/// What is short, and what is long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Thresholds {
    /// A type with a mean below it is polled inline.
    pub(crate) inline_below_ns: u64,
    /// A poll above it moves its type to the pool.
    pub(crate) long_poll_ns: u64,
}

impl Thresholds {
    pub(crate) const DEFAULT: Self = Self { inline_below_ns: 100_000, long_poll_ns: 1_000_000 };

    /// Whether it matters how long a poll was that took so long on the clock.
    pub(crate) const fn may_be_long(self, poll_ns: u64) -> bool {
        poll_ns > self.long_poll_ns || poll_ns >= self.inline_below_ns
    }
}

/// As schedulers count time.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// See the [module](self). Of updates at the same time one may be lost, which does not matter.
#[derive(Debug)]
pub(crate) struct Placement {
    is_inline: AtomicBool,
    /// 0 while it is unknown.
    mean_ns: AtomicU64,
    calm: AtomicU32,
    calm_needed: AtomicU32,
}

impl Placement {
    /// Of a type whose requests are expected to take so long, if anything is.
    pub(crate) fn new(expected_ns: Option<u64>, thresholds: Thresholds) -> Self {
        let is_short = |&ns: &u64| ns < thresholds.inline_below_ns;
        Self {
            is_inline: AtomicBool::new(expected_ns.as_ref().is_some_and(is_short)),
            mean_ns: AtomicU64::new(expected_ns.unwrap_or(0)),
            calm: AtomicU32::new(0),
            calm_needed: AtomicU32::new(CALM_FIRST),
        }
    }

    pub(crate) fn place(&self) -> Place {
        match self.is_inline.load(Ordering::Relaxed) {
            true => Place::Inline,
            false => Place::Pool,
        }
    }

    /// Nanoseconds; 0 while it is unknown.
    pub(crate) fn mean_ns(&self) -> u64 {
        self.mean_ns.load(Ordering::Relaxed)
    }

    /// A poll took so long, wherever it was.
    pub(crate) fn polled(&self, poll_ns: u64, thresholds: Thresholds) {
        if poll_ns > thresholds.long_poll_ns {
            self.calm.store(0, Ordering::Relaxed);
            self.leave_inline();
        }
    }

    /// A request took so long, in all its polls.
    pub(crate) fn served(&self, service_ns: u64, thresholds: Thresholds) {
        let mean_ns = match self.mean_ns() {
            0 => service_ns.max(1),
            mean_ns => (mean_ns - mean_ns / MEAN_OF).saturating_add(service_ns / MEAN_OF),
        };
        self.mean_ns.store(mean_ns, Ordering::Relaxed);
        let is_short = mean_ns < thresholds.inline_below_ns;
        if self.is_inline.load(Ordering::Relaxed) {
            if !is_short {
                self.leave_inline();
            }
            return;
        }
        let calm = self.calm.load(Ordering::Relaxed).saturating_add(1);
        self.calm.store(calm, Ordering::Relaxed);
        if is_short && calm >= self.calm_needed.load(Ordering::Relaxed) {
            self.is_inline.store(true, Ordering::Relaxed);
        }
    }

    fn leave_inline(&self) {
        if self.is_inline.swap(false, Ordering::Relaxed) {
            self.calm.store(0, Ordering::Relaxed);
            let needed = self.calm_needed.load(Ordering::Relaxed) * 2;
            let needed = needed.min(CALM_MAX);
            self.calm_needed.store(needed, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Thresholds = Thresholds::DEFAULT;
    const SHORT_NS: u64 = 10_000;

    /// How many requests of `service_ns` it takes until the type is inline.
    fn until_inline(placement: &Placement, service_ns: u64, at_most: u32) -> Option<u32> {
        (1..=at_most).find(|_| {
            placement.polled(service_ns, LIMITS);
            placement.served(service_ns, LIMITS);
            placement.place() == Place::Inline
        })
    }

    #[test]
    fn types_begin_in_the_pool_unless_they_are_said_to_be_short() {
        let place = |expected_ns| Placement::new(expected_ns, LIMITS).place();
        assert_eq!(place(None), Place::Pool);
        assert_eq!(place(Some(99_999)), Place::Inline);
        assert_eq!(place(Some(100_000)), Place::Pool);
    }

    #[test]
    fn a_short_type_leaves_the_pool_and_a_long_one_does_not() {
        let short = Placement::new(None, LIMITS);
        assert_eq!(until_inline(&short, SHORT_NS, 100), Some(CALM_FIRST));
        let long = Placement::new(None, LIMITS);
        assert_eq!(until_inline(&long, 200_000, 100_000), None);
    }

    #[test]
    fn one_long_poll_moves_a_type_at_once_and_each_time_for_longer() {
        let placement = Placement::new(None, LIMITS);
        let mut needed = CALM_FIRST;
        for _ in 0..20 {
            assert_eq!(until_inline(&placement, SHORT_NS, CALM_MAX), Some(needed));
            placement.polled(1_000_001, LIMITS);
            assert_eq!(placement.place(), Place::Pool);
            needed = (needed * 2).min(CALM_MAX);
        }
        assert_eq!(needed, CALM_MAX);
    }

    #[test]
    fn a_long_poll_in_the_pool_begins_the_count_again() {
        let placement = Placement::new(None, LIMITS);
        assert_eq!(until_inline(&placement, SHORT_NS, CALM_FIRST - 1), None);
        placement.polled(5_000_000, LIMITS);
        assert_eq!(until_inline(&placement, SHORT_NS, CALM_FIRST), Some(CALM_FIRST));
    }

    #[test]
    fn a_mean_that_grows_moves_the_type_to_the_pool() {
        let placement = Placement::new(Some(SHORT_NS), LIMITS);
        let moved = (1..1000).find(|_| {
            placement.served(500_000, LIMITS);
            placement.place() == Place::Pool
        });
        assert!(moved.is_some_and(|requests| requests > 1));
    }

    #[test]
    fn nothing_is_inline_below_zero() {
        let limits = Thresholds { inline_below_ns: 0, ..LIMITS };
        let placement = Placement::new(Some(0), limits);
        (0..10_000).for_each(|_| placement.served(0, limits));
        assert_eq!(placement.place(), Place::Pool);
    }
}
