//! Parsers of single values on the command line.

pub(super) fn seconds(text: &str) -> Result<f64, String> {
    /// A hundred days.
    const MAX: f64 = 8.64e6;
    let number: Option<f64> = text.parse().ok();
    number
        .filter(|number| (0.0..=MAX).contains(number))
        .ok_or_else(|| "expected a number of seconds".to_owned())
}

pub(super) fn positive(text: &str) -> Result<f64, String> {
    let number: Option<f64> = text.parse().ok();
    number
        .filter(|number| number.is_finite() && *number > 0.0)
        .ok_or_else(|| "expected a number above 0".to_owned())
}

pub(super) fn at_least_one(text: &str) -> Result<usize, String> {
    let number: Option<usize> = text.parse().ok();
    number
        .filter(|number| *number > 0)
        .ok_or_else(|| "expected a number from 1".to_owned())
}
