//! Numbers as text, in the way of C's `%.Ng`.

use std::io::Write as _;

/// Longest text of a number in scientific notation.
const SCIENTIFIC_LEN_MAX: usize = 40;
/// Any decimal number of so many significant digits is the shortest text of its double.
const SHORTEST_DIGITS: usize = 15;

/// `value` with `digits` significant digits, as `%.{digits}g` prints it.
pub(super) fn general(value: f64, digits: usize) -> String {
    let mut out = Vec::new();
    append_general(value, digits, &mut out);
    out.into_iter().map(char::from).collect()
}

/// Appends what [`general`] returns.
pub(super) fn append_general(value: f64, digits: usize, out: &mut Vec<u8>) {
    if !value.is_finite() {
        let sign: &[u8] = if value.is_sign_negative() { b"-" } else { b"" };
        let name: &[u8] = if value.is_nan() { b"nan" } else { b"inf" };
        out.extend_from_slice(sign);
        out.extend_from_slice(name);
        return;
    }
    let exact = i32::try_from(digits.min(SHORTEST_DIGITS)).unwrap_or(0);
    let is_minus_zero = value == 0.0 && value.is_sign_negative();
    if value.fract() == 0.0 && value.abs() < 10f64.powi(exact) && !is_minus_zero {
        // A vector takes any text.
        let _ = write!(out, "{}", value as i64);
        return;
    }
    append_digits(value, digits.max(1), out);
}

fn append_digits(value: f64, digits: usize, out: &mut Vec<u8>) {
    let mut buffer = [0; SCIENTIFIC_LEN_MAX];
    let mut text = scientific(&mut buffer, format_args!("{value:e}"));
    // The mantissa has a point, and may have a sign.
    let is_rounded =
        digits > SHORTEST_DIGITS || text.split(|it| *it == b'e').next().is_some_and(|it| it.len() > digits);
    let mut rounded = [0; SCIENTIFIC_LEN_MAX];
    if is_rounded {
        let precision = digits - 1;
        text = scientific(&mut rounded, format_args!("{value:.precision$e}"));
    }
    let text = std::str::from_utf8(text).unwrap_or_default();
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let unsigned = mantissa.strip_prefix('-').unwrap_or(mantissa);
    let unsigned = without_zeros(unsigned);
    if mantissa.starts_with('-') {
        out.push(b'-');
    }
    if exponent < -4 || exponent >= i32::try_from(digits).unwrap_or(i32::MAX) {
        let sign = if exponent < 0 { '-' } else { '+' };
        let _ = write!(out, "{unsigned}e{sign}{:02}", exponent.unsigned_abs());
        return;
    }
    let shown = unsigned.bytes().filter(u8::is_ascii_digit);
    if exponent < 0 {
        out.extend_from_slice(b"0.");
        out.extend((1..exponent.unsigned_abs()).map(|_| b'0'));
        out.extend(shown);
        return;
    }
    let whole = usize::try_from(exponent).unwrap_or(0) + 1;
    let mut shown = shown.fuse();
    out.extend((0..whole).map(|_| shown.next().unwrap_or(b'0')));
    if let Some(first) = shown.next() {
        out.extend([b'.', first]);
        out.extend(shown);
    }
}

/// Writes `text`, which is not too long, to `buffer`.
fn scientific<'b>(buffer: &'b mut [u8; SCIENTIFIC_LEN_MAX], text: std::fmt::Arguments<'_>) -> &'b [u8] {
    let mut rest = &mut buffer[..];
    let _ = rest.write_fmt(text);
    let left = rest.len();
    &buffer[..SCIENTIFIC_LEN_MAX - left]
}

fn without_zeros(text: &str) -> &str {
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_as_c_prints_them() {
        for (value, digits, expected) in [
            (0.0, 17, "0"),
            (-0.0, 17, "-0"),
            (1.0, 14, "1"),
            (-7.0, 17, "-7"),
            (0.1, 17, "0.10000000000000001"),
            (0.1, 14, "0.1"),
            (2.345678, 14, "2.345678"),
            (1e15, 14, "1e+15"),
            (123456789012345.0, 14, "1.2345678901234e+14"),
            (1e20, 17, "1e+20"),
            (1e16, 17, "10000000000000000"),
            (1e-5, 14, "1e-05"),
            (0.0001, 14, "0.0001"),
            (9.99999999999999999, 14, "10"),
            (f64::INFINITY, 17, "inf"),
            (f64::NEG_INFINITY, 17, "-inf"),
            (1.25, 14, "1.25"),
            (-123.75, 14, "-123.75"),
            (0.000123, 14, "0.000123"),
            (1.5e-7, 14, "1.5e-07"),
            (99999999999999.0, 14, "99999999999999"),
            (99999999999999.5, 14, "1e+14"),
            (12345678901234.5, 14, "12345678901234"),
            (-1e14, 14, "-1e+14"),
            (1.0 / 3.0, 14, "0.33333333333333"),
            (-2.0 / 3.0, 14, "-0.66666666666667"),
            (5e-324, 17, "4.9406564584124654e-324"),
            (1e300, 17, "1.0000000000000001e+300"),
        ] {
            assert_eq!(general(value, digits), expected);
        }
    }
}
