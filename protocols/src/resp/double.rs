//! Floating point numbers as Redis 7.2 and later print them.

use std::ops::Deref;

use smallvec::SmallVec;

/// The text of a number: a `str` of at most a few dozen bytes, without allocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DoubleText {
    bytes: SmallVec<[u8; 32]>,
}

impl Deref for DoubleText {
    type Target = str;

    fn deref(&self) -> &str {
        std::str::from_utf8(&self.bytes).expect("digits, signs and letters")
    }
}

impl DoubleText {
    fn new(text: &str) -> Self {
        Self { bytes: SmallVec::from_slice(text.as_bytes()) }
    }
}

/// Integers below this magnitude are printed as integers: 2^52, up to which a double has halves.
const INTEGER_MAX: f64 = 4_503_599_627_370_496.0;

/// The shortest text that reads back as `value`, as ZSCORE gives it: `3`, `3.1`, `1e+20`, `inf`,
/// `-inf`, `nan`.
///
/// INCRBYFLOAT and HINCRBYFLOAT never use an exponent: for them, format with Rust's `{value}`.
#[must_use]
pub fn format_double(value: f64) -> DoubleText {
    if value.is_nan() {
        return DoubleText::new("nan");
    }
    if value.is_infinite() {
        return DoubleText::new(if value > 0.0 { "inf" } else { "-inf" });
    }
    if value == 0.0 {
        return DoubleText::new(if value.is_sign_negative() { "-0" } else { "0" });
    }
    if value.abs() < INTEGER_MAX && value.fract() == 0.0 {
        return DoubleText::new(itoa::Buffer::new().format(value as i64));
    }
    let decimal = Decimal::shortest(value.abs());
    let mut bytes = SmallVec::new();
    if value.is_sign_negative() {
        bytes.push(b'-');
    }
    decimal.write(&mut bytes);
    DoubleText { bytes }
}

/// `digits * 10^exponent`, without leading or trailing zeros in `digits`.
struct Decimal {
    digits: SmallVec<[u8; 20]>,
    exponent: i32,
}

impl Decimal {
    fn shortest(value: f64) -> Self {
        let mut buffer = ryu::Buffer::new();
        let text = buffer.format_finite(value);
        let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
        let mut exponent: i32 = exponent.parse().expect("ryu writes a decimal exponent");
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        exponent -= i32::try_from(fraction.len()).expect("at most 17 digits");
        let mut digits: SmallVec<[u8; 20]> =
            whole.bytes().chain(fraction.bytes()).skip_while(|&digit| digit == b'0').collect();
        while digits.last() == Some(&b'0') {
            digits.pop();
            exponent += 1;
        }
        Self { digits, exponent }
    }

    /// Chooses as Redis does: plain notation if it is short, an exponent otherwise.
    fn write(&self, out: &mut SmallVec<[u8; 32]>) {
        let digits = &self.digits[..];
        let count = i32::try_from(digits.len()).expect("at most 17 digits");
        let scientific = self.exponent + count - 1;
        let zeros = |count: i32| std::iter::repeat_n(b'0', usize::try_from(count).unwrap_or(0));
        if self.exponent >= 0 && scientific < count + 7 {
            out.extend_from_slice(digits);
            out.extend(zeros(self.exponent));
        } else if self.exponent < 0 && (self.exponent > -7 || scientific.abs() < 4) {
            let whole = count + self.exponent;
            if whole <= 0 {
                out.extend_from_slice(b"0.");
                out.extend(zeros(-whole));
                out.extend_from_slice(digits);
            } else {
                let (whole, fraction) = digits.split_at(usize::try_from(whole).unwrap_or(0));
                out.extend_from_slice(whole);
                out.push(b'.');
                out.extend_from_slice(fraction);
            }
        } else {
            let (first, fraction) = digits.split_at(1);
            out.extend_from_slice(first);
            if !fraction.is_empty() {
                out.push(b'.');
                out.extend_from_slice(fraction);
            }
            out.push(b'e');
            out.push(if scientific < 0 { b'-' } else { b'+' });
            let mut buffer = itoa::Buffer::new();
            out.extend_from_slice(buffer.format(scientific.unsigned_abs()).as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_look_as_in_redis() {
        let cases = [
            (0.0, "0"),
            (-0.0, "-0"),
            (3.0, "3"),
            (-17.0, "-17"),
            (3.1, "3.1"),
            (-0.5, "-0.5"),
            (100_000_000.0, "100000000"),
            (1_234_567.891, "1234567.891"),
            (1e-5, "0.00001"),
            (1e-7, "1e-7"),
            (1.5e-9, "1.5e-9"),
            (1e20, "1e+20"),
            (1.25e100, "1.25e+100"),
            (9_007_199_254_740_992.0, "9007199254740992"),
            (f64::MAX, "1.7976931348623157e+308"),
            (f64::MIN_POSITIVE, "2.2250738585072014e-308"),
            (123_456_789_012e7, "1234567890120000000"),
            (123_456_789e8, "1.23456789e+16"),
            (1_234.123_456_7, "1234.1234567"),
            (12_345.123_456_7, "1.23451234567e+4"),
            (0.001_234_567_8, "0.0012345678"),
            (0.000_123_456_78, "1.2345678e-4"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
        ];
        for (value, text) in cases {
            assert_eq!(&*format_double(value), text);
        }
    }

    proptest! {
        #[test]
        fn every_number_reads_back(bits: u64) {
            let value = f64::from_bits(bits);
            let text = format_double(value);
            let read: f64 = text.parse().expect("a number");
            prop_assert!(read == value || (read.is_nan() && value.is_nan()), "{}", &*text);
        }
    }
}
