//! Numbers as text, in the way of C's `%.Ng`.

/// `value` with `digits` significant digits, as `%.{digits}g` prints it.
pub(super) fn general(value: f64, digits: usize) -> String {
    if value.is_nan() {
        let sign = if value.is_sign_negative() { "-" } else { "" };
        return format!("{sign}nan");
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    if value.fract() == 0.0 && value.abs() < 1e15 && digits >= 15 {
        return format!("{value:.0}");
    }
    let precision = digits.max(1) - 1;
    let scientific = format!("{value:.precision$e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if exponent < -4 || exponent >= i32::try_from(digits).unwrap_or(i32::MAX) {
        let sign = if exponent < 0 { '-' } else { '+' };
        let mantissa = without_zeros(mantissa);
        return format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs());
    }
    let decimals = i32::try_from(precision).unwrap_or(0) - exponent;
    let decimals = usize::try_from(decimals).unwrap_or(0);
    without_zeros(&format!("{value:.decimals$}")).to_owned()
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
            (1e300, 17, "1.0000000000000001e+300"),
        ] {
            assert_eq!(general(value, digits), expected);
        }
    }
}
