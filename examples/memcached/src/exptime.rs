//! Expiration times in the clients' form.

use psp_store::unix_time_ms;

/// An expiration time up to this many seconds (30 days) is relative.
const RELATIVE_S_MAX: i64 = 30 * 24 * 60 * 60;

/// When an item with this expiration time expires, in milliseconds since the Unix epoch. 0 means
/// never, and a negative number means at once. A number up to 30 days counts seconds from now. A
/// larger number is a Unix time in seconds.
#[must_use]
pub fn expire_at_ms(exptime: impl Into<i64>) -> Option<u64> {
    match exptime.into() {
        0 => None,
        ..0 => Some(0),
        relative_s @ 1..=RELATIVE_S_MAX => {
            Some(unix_time_ms().saturating_add(relative_s.unsigned_abs() * 1000))
        }
        absolute_s => Some(absolute_s.unsigned_abs().saturating_mul(1000)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expiration_times_are_never_past_relative_or_absolute() {
        assert_eq!(expire_at_ms(0), None);
        assert_eq!(expire_at_ms(-1), Some(0));
        assert_eq!(expire_at_ms(i64::MIN), Some(0));
        let before = unix_time_ms();
        let relative = expire_at_ms(RELATIVE_S_MAX).unwrap();
        let after = unix_time_ms();
        let span_ms = RELATIVE_S_MAX.unsigned_abs() * 1000;
        assert!((before + span_ms..=after + span_ms).contains(&relative));
        assert_eq!(
            expire_at_ms(RELATIVE_S_MAX + 1),
            Some((RELATIVE_S_MAX.unsigned_abs() + 1) * 1000)
        );
        assert_eq!(expire_at_ms(u32::MAX), Some(4_294_967_295_000));
    }
}
