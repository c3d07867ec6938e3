//! The `long double` of C on x86-64, for INCRBYFLOAT and HINCRBYFLOAT.
//!
//! Redis adds in this type, of 64 bits of precision, and prints 17 digits behind the point. Sums here have the same
//! digits, on every processor: `rustc_apfloat` rounds as the x87 does.

use std::fmt;

use rustc_apfloat::Float;
use rustc_apfloat::ieee::X87DoubleExtended;

use crate::error::CommandError;
use crate::number_text;
use crate::parse::Result;

/// Digits behind the point.
const SCALE: u32 = 17;
/// One, in units of the last digit.
const ONE: u128 = 10_u128.pow(SCALE);
/// Bits of the significand behind its first one.
const FRACTION_BITS: i32 = 63;
const EXPONENT_BIAS: i32 = 16_383;
/// Digits of a limb of a long whole number.
const LIMB_DIGITS: usize = 9;
const LIMB: u64 = 10_u64.pow(LIMB_DIGITS as u32);
/// A limb shifted so far is still less than 2^64.
const SHIFT_MAX: u32 = 32;

/// A number of the range up to 10^4932. It is not NaN.
#[derive(Debug, Clone, Copy)]
pub struct LongDouble(X87DoubleExtended);

impl LongDouble {
    /// The number nearest to what `text` says.
    ///
    /// # Errors
    /// [`CommandError::NotFloat`] for other texts, NaN, and numbers that overflow or become zero.
    pub fn parse(text: &[u8]) -> Result<Self> {
        number_text::parse(text).map(Self).ok_or(CommandError::NotFloat)
    }

    /// Whether the number is finite.
    #[must_use]
    pub fn is_finite(self) -> bool {
        self.0.is_finite()
    }

    /// The sum, rounded to the nearest.
    ///
    /// # Errors
    /// [`CommandError::NotFinite`].
    pub fn plus(self, other: Self) -> Result<Self> {
        let sum = (self.0 + other.0).value;
        if sum.is_finite() {
            Ok(Self(sum))
        } else {
            Err(CommandError::NotFinite)
        }
    }
}

/// `value + increment` as text. `wrong_value` is the error if `value` is no number.
///
/// # Errors
/// `wrong_value`; [`CommandError::NotFloat`] for `increment`; [`CommandError::NotFinite`].
pub fn sum(value: Option<&[u8]>, increment: &[u8], wrong_value: CommandError) -> Result<String> {
    let value = LongDouble::parse(value.unwrap_or(b"0")).map_err(|_text| wrong_value)?;
    Ok(value.plus(LongDouble::parse(increment)?)?.to_string())
}

/// As C prints it with `%.17Lf`, without the zeros at the end. Zero has no sign.
impl fmt::Display for LongDouble {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = self.0.to_bits();
        let significand = bits as u64;
        let exponent = (bits >> 64) as i32 & 0x7fff;
        // The number is `significand * 2^shift`.
        let shift = exponent.max(1) - EXPONENT_BIAS - FRACTION_BITS;
        let (whole, fraction) = match u32::try_from(shift) {
            Ok(shift) => (shifted(significand, shift), 0),
            Err(_negative) => {
                let units = rounded(u128::from(significand) * ONE, shift.unsigned_abs());
                ((units / ONE).to_string(), units % ONE)
            }
        };
        let text = format!("{whole}.{fraction:017}");
        let text = text.trim_end_matches('0').trim_end_matches('.');
        let is_zero = text == "0";
        let sign = if self.0.is_negative() && !is_zero { "-" } else { "" };
        write!(formatter, "{sign}{text}")
    }
}

/// `number / 2^shift`, rounded to the nearest, halves to even.
fn rounded(number: u128, shift: u32) -> u128 {
    let Some(quotient) = number.checked_shr(shift) else {
        return 0;
    };
    let rest = number - (quotient << shift);
    let half = 1_u128.unbounded_shl(shift.saturating_sub(1));
    let is_up = rest > half || (rest == half && quotient % 2 == 1);
    quotient + u128::from(is_up)
}

/// The digits of `number * 2^shift`.
fn shifted(number: u64, mut shift: u32) -> String {
    // The lowest limb first.
    let mut limbs = vec![number % LIMB, number / LIMB % LIMB, number / LIMB / LIMB];
    while shift > 0 {
        let step = shift.min(SHIFT_MAX);
        shift -= step;
        let mut carry = 0;
        for limb in &mut limbs {
            let sum = (*limb << step) + carry;
            (*limb, carry) = (sum % LIMB, sum / LIMB);
        }
        while carry > 0 {
            limbs.push(carry % LIMB);
            carry /= LIMB;
        }
    }
    let digits: String = limbs.iter().rev().map(|limb| format!("{limb:09}")).collect();
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() { "0" } else { digits }.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(value: &str, increment: &str) -> Result<String> {
        sum(Some(value.as_bytes()), increment.as_bytes(), CommandError::Syntax)
    }

    /// The sums are those of redis-server 7.0.15.
    #[test]
    fn sums_have_the_digits_of_redis() {
        for (value, increment, expected) in SUMS {
            assert_eq!(add(value, increment).as_deref(), Ok(*expected), "{value} + {increment}");
        }
        assert_eq!(sum(None, b"1.5", CommandError::Syntax).as_deref(), Ok("1.5"));
    }

    const SUMS: &[(&str, &str, &str)] = &[
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
        ("1e18", "0.123", "1000000000000000000.125"),
        ("3000", "1e-17", "3000"),
        ("17179869184", "1.5", "17179869185.5"),
        ("0.25", "-0x0.1", "0.1875"),
        ("1.00000000000000000001", "1e-18", "1"),
        ("-1e-18", "0", "0"),
        ("18446744073709551615", "1", "18446744073709551616"),
        ("1e25", "-3", "10000000000000000000000000"),
        ("123456789012345678901234567890", "0.1", "123456789012345678899921813504"),
        ("0.00000000000000000500", "0", "0"),
        ("4.5e-17", "0", "0.00000000000000004"),
        ("0x1p-17", "0", "0.00000762939453125"),
        ("0x1p-18", "0", "0.00000381469726562"),
        ("0x3p-18", "0", "0.00001144409179688"),
        ("1e30", "1", "1000000000000000000024696061952"),
        ("-1e30", "0.5", "-1000000000000000000024696061952"),
    ];

    #[test]
    fn large_numbers_have_all_their_digits() {
        let two_to_the_16383 = add("0x1p16383", "0").unwrap();
        assert_eq!(two_to_the_16383.len(), 4932);
        assert!(two_to_the_16383.starts_with("594865747678615882542879663314"));
        assert!(two_to_the_16383.ends_with("982033408"));
        assert_eq!(add("0x1p-16445", "0").as_deref(), Ok("0"));
    }

    #[test]
    fn sums_that_are_no_numbers_are_errors() {
        assert_eq!(add("1e4932", "1e4932"), Err(CommandError::NotFinite));
        assert_eq!(add("inf", "-inf"), Err(CommandError::NotFinite));
        assert_eq!(add("1", "1e5000"), Err(CommandError::NotFloat));
        assert_eq!(add("1", "1e-5000"), Err(CommandError::NotFloat));
        assert_eq!(add("1", "x"), Err(CommandError::NotFloat));
        assert_eq!(add("x", "1"), Err(CommandError::Syntax));
    }
}
