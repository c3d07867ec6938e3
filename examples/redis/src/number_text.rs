//! The texts that C reads as a floating-point number.
//!
//! Redis leaves numbers to `strtod` and `strtold`, which read more forms than Rust does: `0x1.8p3`, `.5`, `1.`.

use rustc_apfloat::{Float, Round, Status};

/// Longest text of a number in bytes, as in Redis. A value of any length may be read as a number.
pub const LEN_MAX: usize = 5 * 1024 - 1;

/// Exponents beyond this one are as good as infinite: no text of [`LEN_MAX`] bytes makes up for them.
const EXPONENT_MAX: i64 = 100_000;

/// The number nearest to what `text` says. Infinities are valid. NaN, numbers that overflow, and numbers that underflow
/// to zero are not, as in Redis.
#[must_use]
pub fn parse<F: Float>(text: &[u8]) -> Option<F> {
    if text.len() > LEN_MAX {
        return None;
    }
    let text = std::str::from_utf8(text).ok()?;
    let (sign, magnitude) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    if ["inf", "infinity"].iter().any(|name| magnitude.eq_ignore_ascii_case(name)) {
        return Some(if sign.is_empty() { F::INFINITY } else { -F::INFINITY });
    }
    let hexadecimal = magnitude.strip_prefix("0x").or(magnitude.strip_prefix("0X"));
    let (prefix, letter, digits) = match hexadecimal {
        Some(digits) => ("0x", 'p', digits),
        None => ("", 'e', magnitude),
    };
    let is_digit = |digit: char| digit.is_digit(if prefix.is_empty() { 10 } else { 16 });
    let (mantissa, exponent) = match digits.find([letter, letter.to_ascii_uppercase()]) {
        Some(at) => (&digits[..at], exponent(&digits[at + 1..])?),
        None => (digits, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let has_digits = !(whole.is_empty() && fraction.is_empty());
    if !has_digits || !whole.chars().chain(fraction.chars()).all(is_digit) {
        return None;
    }
    // With a digit before the point and one behind it, whatever the text has.
    let normal = format!("{sign}{prefix}0{whole}.{fraction}0{letter}{exponent}");
    let read = F::from_str_r(&normal, Round::NearestTiesToEven).ok()?;
    let is_out_of_range = read.status.intersects(Status::OVERFLOW | Status::UNDERFLOW)
        && (read.value.is_infinite() || read.value.is_zero());
    (!is_out_of_range).then_some(read.value)
}

/// An exponent, cut to the range of [`EXPONENT_MAX`].
fn exponent(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let magnitude = digits.parse().unwrap_or(EXPONENT_MAX).min(EXPONENT_MAX);
    Some(if text.starts_with('-') { -magnitude } else { magnitude })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rustc_apfloat::ieee::Double;

    use super::*;

    fn double(text: &str) -> Option<f64> {
        let number: Option<Double> = parse(text.as_bytes());
        number.map(|number| f64::from_bits(number.to_bits() as u64))
    }

    #[test]
    fn numbers_have_the_forms_of_c() {
        for (text, expected) in [
            ("3.5e3", 3500.0),
            ("1.", 1.0),
            (".5", 0.5),
            ("+1", 1.0),
            ("-0.25", -0.25),
            ("0x10", 16.0),
            ("-0x1.8p1", -3.0),
            ("0X.8P+2", 2.0),
            ("inf", f64::INFINITY),
            ("-Infinity", f64::NEG_INFINITY),
            ("0e99999999999999999999", 0.0),
            ("1e-320", 1e-320),
        ] {
            assert_eq!(double(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn other_texts_are_no_numbers() {
        let long = "1".repeat(LEN_MAX + 1);
        for text in [
            "",
            "+",
            ".",
            "e5",
            "1e",
            "1e+",
            "1x",
            " 1",
            "1 ",
            "--1",
            "0x",
            "0x.",
            "0xg",
            "0x-1",
            "nan",
            "1_0",
            "1e400",
            "-1e400",
            "1e-400",
            "1e99999999999999999999",
            &long,
        ] {
            assert_eq!(double(text), None, "{text:.9}");
        }
    }

    proptest! {
        #[test]
        fn decimals_are_those_of_rust(number in any::<f64>().prop_filter("finite", |number| number.is_finite())) {
            prop_assert_eq!(double(&format!("{number:e}")), Some(number));
            prop_assert_eq!(double(&number.to_string()), Some(number));
        }

        #[test]
        fn any_text_is_a_number_or_none(text in "[-+]?(0x)?[0-9a-f.]{0,9}[ep]?[-+]?[0-9]{0,5}") {
            let number = double(&text);
            prop_assert!(number.is_none_or(|number| !number.is_nan()));
            if let (Ok(expected), Some(number)) = (text.parse::<f64>(), number) {
                prop_assert_eq!(number, expected);
            }
        }
    }
}
