//! The clock of expiration times, which follows no jump of the wall clock.

use std::time::Duration;

use psp_store::unix_time_ms;
use rustix::time::{ClockId, clock_gettime};

/// Milliseconds since some fixed moment before the start of the process.
#[must_use]
pub fn now_ms() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    let now = Duration::try_from(time).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

/// One moment on both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// The clock of expiration times, see [`now_ms`].
    pub ms: u64,
    /// The wall clock, in milliseconds since the Unix epoch.
    pub unix_ms: u64,
}

impl Moment {
    /// Reads both clocks.
    #[must_use]
    pub fn now() -> Self {
        Self { ms: now_ms(), unix_ms: unix_time_ms() }
    }

    /// When the wall clock will show `unix_ms` if it does not jump; 0 if that is past.
    #[must_use]
    pub fn at_unix_ms(self, unix_ms: u64) -> u64 {
        match unix_ms.checked_sub(self.unix_ms) {
            Some(ahead_ms) => self.ms.saturating_add(ahead_ms),
            None => 0,
        }
    }

    /// What the wall clock shows at `ms`, in Unix seconds, to the nearest second.
    #[must_use]
    pub fn unix_s(self, ms: u64) -> u64 {
        let unix_ms = if ms >= self.ms {
            self.unix_ms.saturating_add(ms - self.ms)
        } else {
            self.unix_ms.saturating_sub(self.ms - ms)
        };
        unix_ms.saturating_add(500) / 1000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unix_times_are_converted_and_shown_again() {
        let moment = Moment { ms: 5_000, unix_ms: 1_700_000_000_400 };
        for (unix_s, ms) in [
            (1_700_000_001, 5_600),
            (1_800_000_000, 100_000_004_600),
            (4_294_967_296, 2_594_967_300_600),
        ] {
            assert_eq!(moment.at_unix_ms(unix_s * 1000), ms);
            assert_eq!(moment.unix_s(ms), unix_s);
        }
        assert_eq!(moment.at_unix_ms(1_700_000_000_000), 0);
        assert_eq!(moment.at_unix_ms(u64::MAX), u64::MAX - 1_699_999_995_400);
        assert_eq!(moment.unix_s(0), 1_699_999_995);
    }

    #[test]
    fn time_goes_on() {
        let start = now_ms();
        while now_ms() == start {
            std::thread::yield_now();
        }
        assert!(now_ms() > start);
    }
}
