//! The run's clock.

use std::time::{Duration, Instant};

/// Nanoseconds since the run's first intended send time, shared by all threads of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunClock {
    origin: Instant,
}

impl RunClock {
    /// A clock that starts at `origin`. It shows 0 until then.
    pub(crate) fn starting_at(origin: Instant) -> Self {
        Self { origin }
    }

    /// The time at which the clock shows `ns`.
    pub(crate) fn at(&self, ns: u64) -> Instant {
        self.origin + Duration::from_nanos(ns)
    }

    /// The time in nanoseconds.
    pub(crate) fn now_ns(&self) -> u64 {
        let elapsed = Instant::now().saturating_duration_since(self.origin);
        u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)
    }
}
