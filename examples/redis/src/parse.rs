//! Parses arguments into numbers, options and ranges.

use std::ops::Range;
use std::str::FromStr;

use psp_protocols::resp::parse_integer;
use rustc_apfloat::Float;
use rustc_apfloat::ieee::Double;

use crate::error::CommandError;
use crate::number_text;

/// The result of a command or of a part of it.
pub type Result<T, E = CommandError> = std::result::Result<T, E>;

/// A 64-bit integer in Redis' strict form: no leading zeros, no plus sign, no spaces.
///
/// # Errors
/// [`CommandError::NotInteger`].
pub fn integer(arg: &[u8]) -> Result<i64> {
    parse_integer(arg).ok_or(CommandError::NotInteger)
}

/// A count that must not be negative.
///
/// # Errors
/// [`CommandError::NotInteger`]; [`CommandError::NotPositive`] if it is below zero.
pub fn count(arg: &[u8]) -> Result<usize> {
    usize::try_from(integer(arg)?).map_err(|_negative| CommandError::NotPositive)
}

/// A number. Infinities are valid; NaN, and numbers that 64 bits turn into zero or infinity, are not.
///
/// # Errors
/// [`CommandError::NotFloat`].
pub fn float(arg: &[u8]) -> Result<f64> {
    if arg.len() > number_text::LEN_MAX {
        return Err(CommandError::NotFloat);
    }
    if memchr::memchr2(b'x', b'X', arg).is_some() {
        let number: Option<Double> = number_text::parse(arg);
        let number = number.ok_or(CommandError::NotFloat)?;
        return Ok(f64::from_bits(number.to_bits() as u64));
    }
    let text = std::str::from_utf8(arg).map_err(|_binary| CommandError::NotFloat)?;
    let value = f64::from_str(text).map_err(|_text| CommandError::NotFloat)?;
    let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
    let has_digit = |least| mantissa.bytes().any(|byte| (least..=b'9').contains(&byte));
    let is_out_of_range = (value.is_infinite() && has_digit(b'0')) || (value == 0.0 && has_digit(b'1'));
    if value.is_nan() || is_out_of_range {
        Err(CommandError::NotFloat)
    } else {
        Ok(value)
    }
}

/// Whether a command of the given arity accepts `count` arguments. A negative arity is a minimum.
#[must_use]
pub fn arity_accepts(arity: i32, count: usize) -> bool {
    let bound = usize::try_from(arity.unsigned_abs()).unwrap_or(usize::MAX);
    if arity < 0 { count >= bound } else { count == bound }
}

/// Whether `arg` is the option `keyword`. The case of letters does not matter.
#[must_use]
pub fn is(arg: &[u8], keyword: &str) -> bool {
    arg.eq_ignore_ascii_case(keyword.as_bytes())
}

/// The indices from `start` to `stop`, both inclusive, as a range within `len` elements. Negative
/// indices count from the end. The range may be empty.
#[must_use]
pub fn index_range(start: i64, stop: i64, len: usize) -> Range<usize> {
    let len_signed = i64::try_from(len).unwrap_or(i64::MAX);
    let from_start = |index: i64| {
        if index < 0 {
            index.saturating_add(len_signed)
        } else {
            index
        }
    };
    let start = from_start(start).max(0);
    let stop = from_start(stop).min(len_signed - 1);
    if start > stop {
        return 0..0;
    }
    // Both now lie within 0..len.
    start as usize..stop as usize + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_strict() {
        assert_eq!(integer(b"-9223372036854775808"), Ok(i64::MIN));
        for bad in ["", "+1", "01", " 1", "1 ", "9223372036854775808", "1.0", "-"] {
            assert_eq!(integer(bad.as_bytes()), Err(CommandError::NotInteger), "{bad:?}");
        }
    }

    #[test]
    fn floats_accept_infinities_and_refuse_nan() {
        assert_eq!(float(b"3.5e3"), Ok(3500.0));
        assert_eq!(float(b"-inf"), Ok(f64::NEG_INFINITY));
        assert_eq!(float(b"+inf"), Ok(f64::INFINITY));
        assert_eq!(float(b"0e9"), Ok(0.0));
        assert_eq!(float(b"Infinity"), Ok(f64::INFINITY));
        assert_eq!(float(b"-1e308"), Ok(-1e308));
        assert_eq!(float(b"-0x1F"), Ok(-31.0));
        assert_eq!(float(b"0x1.8p1"), Ok(3.0));
        let long = "1".repeat(number_text::LEN_MAX + 1);
        for bad in ["0x", "0xg", "0x-1", "", "nan", " 1", "1x", "1e400", "-1e400", "1e-400", &long] {
            assert_eq!(float(bad.as_bytes()), Err(CommandError::NotFloat), "{bad:.9}");
        }
    }

    #[test]
    fn ranges_count_from_both_ends() {
        assert_eq!(index_range(0, -1, 5), 0..5);
        assert_eq!(index_range(-2, 100, 5), 3..5);
        assert_eq!(index_range(-100, 1, 5), 0..2);
        assert_eq!(index_range(3, 1, 5), 0..0);
        assert_eq!(index_range(5, 9, 5), 0..0);
        assert_eq!(index_range(0, -1, 0), 0..0);
        assert_eq!(index_range(i64::MIN, i64::MAX, 5), 0..5);
    }
}
