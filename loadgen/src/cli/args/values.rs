//! Values that several options take.

use psp_server::policy::elastic::Workers;

pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    /// A hundred days.
    const MAX: f64 = 8.64e6;
    let number: Option<f64> = text.parse().ok();
    number
        .filter(|number| (0.0..=MAX).contains(number))
        .ok_or_else(|| "expected a number of seconds".to_owned())
}

pub(crate) fn positive(text: &str) -> Result<f64, String> {
    let number: Option<f64> = text.parse().ok();
    number
        .filter(|number| number.is_finite() && *number > 0.0)
        .ok_or_else(|| "expected a number above 0".to_owned())
}

pub(crate) fn at_least_one(text: &str) -> Result<usize, String> {
    let number: Option<usize> = text.parse().ok();
    number.filter(|number| *number > 0).ok_or_else(|| "expected a number from 1".to_owned())
}

/// A number of workers from 1, or a range.
pub(crate) fn workers(text: &str) -> Result<Workers, String> {
    let workers: Workers = text.parse()?;
    match workers.min {
        0 => Err("expected a number from 1, or a range such as 2..8".to_owned()),
        _ => Ok(workers),
    }
}

/// A number from `min` to `max`.
pub(crate) fn in_range(min: f64, max: f64) -> impl Fn(&str) -> Result<f64, String> + Clone + Send + Sync + 'static {
    move |text| {
        let number: Option<f64> = text.parse().ok();
        number
            .filter(|number| (min..=max).contains(number))
            .ok_or_else(|| format!("expected a number from {min} to {max}"))
    }
}
