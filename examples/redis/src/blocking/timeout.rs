//! The timeout argument of blocking commands.

use std::time::{Duration, Instant};

use crate::error::CommandError;
use crate::parse::{self, Result};

/// Longest timeout in milliseconds. Redis counts in 64 bits.
const MS_MAX: f64 = i64::MAX as f64;

/// When a command that starts now gives up: `timeout` seconds from now, rounded up to milliseconds, or never if it is
/// zero.
///
/// # Errors
/// The timeout is not a number, is negative, or is too long.
pub(crate) fn deadline(timeout: &[u8]) -> Result<Option<Instant>> {
    let seconds =
        parse::float(timeout).map_err(|_text| CommandError::line("ERR timeout is not a float or out of range"))?;
    if seconds < 0.0 {
        return Err(CommandError::line("ERR timeout is negative"));
    }
    let milliseconds = (seconds * 1000.0).ceil();
    if milliseconds >= MS_MAX {
        return Err(CommandError::line("ERR timeout is out of range"));
    }
    Ok(after(Duration::from_secs_f64(milliseconds / 1000.0)))
}

/// Like [`deadline`], for a timeout in whole milliseconds.
///
/// # Errors
/// The timeout is not an integer or is negative.
pub(crate) fn deadline_ms(timeout: &[u8]) -> Result<Option<Instant>> {
    let milliseconds =
        parse::integer(timeout).map_err(|_text| CommandError::line("ERR timeout is not an integer or out of range"))?;
    let milliseconds =
        u64::try_from(milliseconds).map_err(|_negative| CommandError::line("ERR timeout is negative"))?;
    Ok(after(Duration::from_millis(milliseconds)))
}

fn after(timeout: Duration) -> Option<Instant> {
    // A clock that does not reach that far never gets there.
    let deadline = Instant::now().checked_add(timeout);
    deadline.filter(|_| !timeout.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_rounded_up_to_milliseconds() {
        let before = Instant::now();
        for (text, ms) in [("1", 1000), ("0.0001", 1), ("1e-300", 1), ("1.0005", 1001)] {
            let deadline = deadline(text.as_bytes()).unwrap().expect(text);
            let (least, now) = (Duration::from_millis(ms), Instant::now());
            assert!(deadline >= before + least && deadline <= now + least, "{text}");
        }
        for never in ["0", "-0", "0.0"] {
            assert_eq!(deadline(never.as_bytes()), Ok(None), "{never}");
        }
        // Far away.
        assert!(deadline(b"9e15").is_ok());
    }

    #[test]
    fn timeouts_in_milliseconds_are_integers() {
        assert_eq!(deadline_ms(b"0"), Ok(None));
        assert!(deadline_ms(b"5").unwrap().is_some());
        assert!(deadline_ms(b"9223372036854775807").is_ok());
        for (text, error) in [
            ("1.5", "ERR timeout is not an integer or out of range"),
            ("x", "ERR timeout is not an integer or out of range"),
            ("-1", "ERR timeout is negative"),
        ] {
            let refused = deadline_ms(text.as_bytes()).unwrap_err();
            assert_eq!(refused.to_string(), error, "{text}");
        }
    }

    #[test]
    fn what_is_not_a_timeout_is_an_error() {
        for (text, error) in [
            ("x", "ERR timeout is not a float or out of range"),
            ("", "ERR timeout is not a float or out of range"),
            ("nan", "ERR timeout is not a float or out of range"),
            ("-1", "ERR timeout is negative"),
            ("-0.001", "ERR timeout is negative"),
            ("1e300", "ERR timeout is out of range"),
            ("9.3e15", "ERR timeout is out of range"),
            ("inf", "ERR timeout is out of range"),
        ] {
            let refused = deadline(text.as_bytes()).unwrap_err();
            assert_eq!(refused.to_string(), error, "{text}");
        }
    }
}
