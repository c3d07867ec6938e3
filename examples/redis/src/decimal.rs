//! Sums of decimal numbers, for INCRBYFLOAT and HINCRBYFLOAT.
//!
//! Redis adds in 80-bit floating point and prints 17 digits behind the point. Sums here are exact to that digit, as
//! long as both numbers are below 10^20. Others are added in 64-bit floating point.

use crate::error::CommandError;
use crate::parse::{self, Result};

/// Digits behind the point.
const SCALE: u32 = 17;
/// One, in units of the last digit.
const ONE: i128 = 10_i128.pow(SCALE);
/// Hexadecimal numbers, which are whole, are exact below this one.
const WHOLE_MAX: f64 = (1_u64 << 53) as f64;
/// Digits before the point at most.
const INTEGER_DIGITS_MAX: usize = 20;

/// `value + increment` as text. `wrong_value` is the error if `value` is no number.
///
/// # Errors
/// `wrong_value`; [`CommandError::NotFloat`] for `increment`; [`CommandError::NotFinite`].
pub fn sum(value: Option<&[u8]>, increment: &[u8], wrong_value: CommandError) -> Result<String> {
    let value = value.unwrap_or(b"0");
    let step = parse::float(increment)?;
    let before = parse::float(value).map_err(|_text| wrong_value)?;
    if let (Some(before), Some(step)) = (units(value), units(increment)) {
        return Ok(text(before + step));
    }
    let sum = before + step;
    if sum.is_finite() {
        Ok(sum.to_string())
    } else {
        Err(CommandError::NotFinite)
    }
}

/// A decimal number in units of its last digit, rounded to the nearest.
fn units(number: &[u8]) -> Option<i128> {
    let text = std::str::from_utf8(number).ok()?;
    if text.contains(['x', 'X']) {
        let value = parse::float(number).ok()?;
        return (value.abs() < WHOLE_MAX).then_some(value as i128 * ONE);
    }
    let (mantissa, exponent) = match text.find(['e', 'E']) {
        Some(at) => (&text[..at], text[at + 1..].parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (negative, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, mantissa.strip_prefix('+').unwrap_or(mantissa)),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).collect();
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    // Where the point is among the digits.
    let point = i64::try_from(whole.len()).ok()? + i64::from(exponent);
    let leading = digits.iter().take_while(|digit| **digit == b'0').count();
    if point > i64::try_from(leading + INTEGER_DIGITS_MAX).ok()? {
        return None;
    }
    let mut units: i128 = 0;
    let first = point.min(0);
    for place in first..point + i64::from(SCALE) {
        let digit = usize::try_from(place).ok().and_then(|at| digits.get(at));
        units = units * 10 + i128::from(digit.map_or(0, |digit| digit - b'0'));
    }
    let next = usize::try_from(point + i64::from(SCALE)).ok();
    if next
        .and_then(|at| digits.get(at))
        .is_some_and(|digit| *digit >= b'5')
    {
        units += 1;
    }
    Some(if negative { -units } else { units })
}

fn text(units: i128) -> String {
    let sign = if units < 0 { "-" } else { "" };
    let (whole, fraction) = (units.abs() / ONE, units.abs() % ONE);
    let text = format!("{sign}{whole}.{fraction:017}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(value: &str, increment: &str) -> Result<String> {
        sum(
            Some(value.as_bytes()),
            increment.as_bytes(),
            CommandError::Syntax,
        )
    }

    #[test]
    fn sums_are_exact_to_17_digits() {
        for (value, increment, expected) in [
            ("0.1", "0.2", "0.3"),
            ("1.1", "1.23456789012345678", "2.33456789012345678"),
            ("3.0e3", "200", "3200"),
            ("10.5", "5e3", "5010.5"),
            ("-0.5", "0.5", "0"),
            ("-1", "0.75", "-0.25"),
            ("0", "1e-17", "0.00000000000000001"),
            ("0", "6e-18", "0.00000000000000001"),
            ("0", "4e-18", "0"),
            ("0", "1e-300", "0"),
            ("99999999999999999999", "1", "100000000000000000000"),
            ("00000000000000000000000001", ".5", "1.5"),
            ("1.", "+1", "2"),
            ("0.30000000000000004", "-0x10", "-15.69999999999999996"),
        ] {
            assert_eq!(
                add(value, increment).as_deref(),
                Ok(expected),
                "{value} + {increment}"
            );
        }
        assert_eq!(
            sum(None, b"1.5", CommandError::Syntax).as_deref(),
            Ok("1.5")
        );
    }

    #[test]
    fn large_numbers_are_added_as_64_bits_allow() {
        assert_eq!(add("1e300", "1e299"), Ok(1.1e300.to_string()));
        assert_eq!(add("1e308", "1e308"), Err(CommandError::NotFinite));
        assert_eq!(add("1", "x"), Err(CommandError::NotFloat));
        assert_eq!(add("x", "1"), Err(CommandError::Syntax));
    }
}
