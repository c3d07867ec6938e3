//! Expiration times in the clients' form.

use std::num::NonZeroU64;

use crate::clock::Moment;

/// An expiration time up to this many seconds (30 days) is relative.
const RELATIVE_S_MAX: i64 = 30 * 24 * 60 * 60;

/// A time that is past.
const PAST_MS: NonZeroU64 = NonZeroU64::MIN;

/// When an item with this expiration time expires, by the clock of [`now_ms`](crate::clock::now_ms). 0
/// means never, and a negative number means at once. A number up to 30 days counts seconds from now. A
/// larger number is a Unix time in seconds.
///
/// Later jumps of the wall clock do not change the time.
#[must_use]
pub fn expire_at_ms(exptime: impl Into<i64>) -> Option<NonZeroU64> {
    match exptime.into() {
        0 => None,
        exptime => Some(at(exptime, Moment::now())),
    }
}

/// When an item that arrives at `now` expires.
fn at(exptime: i64, now: Moment) -> NonZeroU64 {
    let ms = match exptime {
        ..=0 => 0,
        relative_s @ 1..=RELATIVE_S_MAX => now.ms.saturating_add(relative_s.unsigned_abs() * 1000),
        unix_s => now.at_unix_ms(unix_s.unsigned_abs().saturating_mul(1000)),
    };
    NonZeroU64::new(ms).unwrap_or(PAST_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Moment = Moment { ms: 1_000, unix_ms: 1_700_000_000_000 };

    #[test]
    fn expiration_times_are_never_past_relative_or_absolute() {
        assert_eq!(expire_at_ms(0), None);
        assert_eq!(expire_at_ms(-1), Some(PAST_MS));
        assert_eq!(expire_at_ms(i64::MIN), Some(PAST_MS));
        assert_eq!(at(1, START).get(), 2_000);
        assert_eq!(at(RELATIVE_S_MAX, START).get(), 2_592_001_000);
        assert_eq!(at(RELATIVE_S_MAX + 1, START), PAST_MS, "a day in 1970");
        assert_eq!(at(1_700_000_010, START).get(), 11_000);
        assert_eq!(at(u32::MAX.into(), START).get(), 2_594_967_296_000);
        assert!(at(i64::MAX, START).get() > 1 << 62);
    }

    #[test]
    fn a_jump_of_the_wall_clock_moves_only_unix_times_that_arrive_after_it() {
        let after_jump = Moment { unix_ms: START.unix_ms + 1_000_000, ..START };
        assert_eq!(at(60, after_jump), at(60, START));
        assert_eq!(at(1_700_001_001, START).get(), 1_002_000);
        assert_eq!(at(1_700_001_001, after_jump).get(), 2_000);
    }
}
