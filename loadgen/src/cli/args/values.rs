//! Values that several options take.

use psp_server::policy::elastic::Workers;

/// Units of times, in seconds.
const TIMES: [(&str, f64); 6] = [("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
/// Units of numbers.
const MULTIPLES: [(&str, f64); 6] = [("k", 1e3), ("K", 1e3), ("m", 1e6), ("M", 1e6), ("g", 1e9), ("G", 1e9)];

/// The number in `text`, times its unit if it has one.
fn scaled(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let unit = units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)));
    let (number, factor) = unit.unwrap_or((text, &1.0));
    number
        .parse::<f64>()
        .ok()
        .map(|number| number * factor)
        .filter(|number| number.is_finite())
}

pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    /// A hundred days.
    const MAX: f64 = 8.64e6;
    scaled(text, &TIMES)
        .filter(|seconds| (0.0..=MAX).contains(seconds))
        .ok_or_else(|| "expected a time such as 10, 30s, 500ms or 2m".to_owned())
}

/// A time above 0.
pub(crate) fn some_seconds(text: &str) -> Result<f64, String> {
    let seconds = seconds(text)?;
    match seconds > 0.0 {
        true => Ok(seconds),
        false => Err("expected a time above 0".to_owned()),
    }
}

pub(crate) fn positive(text: &str) -> Result<f64, String> {
    scaled(text, &MULTIPLES)
        .filter(|number| *number > 0.0)
        .ok_or_else(|| "expected a number above 0, such as 500 or 5k".to_owned())
}

pub(crate) fn at_least_one(text: &str) -> Result<usize, String> {
    whole(text)
        .and_then(|number| usize::try_from(number).ok())
        .ok_or_else(|| "expected a number from 1, such as 50 or 2k".to_owned())
}

/// A whole number above 0.
pub(crate) fn count(text: &str) -> Result<u64, String> {
    whole(text).ok_or_else(|| "expected a number from 1, such as 500 or 1M".to_owned())
}

fn whole(text: &str) -> Option<u64> {
    // Beyond this a number of this type is not exact.
    const MAX: f64 = 9_007_199_254_740_992.0;
    let number = scaled(text, &MULTIPLES)?;
    let is_whole = (1.0..=MAX).contains(&number) && number.fract() == 0.0;
    is_whole.then_some(number as u64)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_counts_have_units() {
        for (text, expected) in [("10", 10.0), ("30s", 30.0), ("500ms", 0.5), ("2m", 120.0), ("1h", 3600.0), ("0", 0.0)]
        {
            assert_eq!(seconds(text), Ok(expected), "{text}");
        }
        for (text, expected) in [("5k", 5000.0), ("1.5M", 1.5e6), ("7", 7.0), ("1e3", 1000.0)] {
            assert_eq!(positive(text), Ok(expected), "{text}");
        }
        assert_eq!([at_least_one("2k"), at_least_one("50")], [Ok(2000), Ok(50)]);
        assert_eq!(count("1M"), Ok(1_000_000));
        for wrong in ["", "s", "-1s", "5x", "infm", "nan", "1 s", "9e9h"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
        for wrong in ["0", "0k", "-5k", "k", "inf", "1kk"] {
            assert!(positive(wrong).is_err(), "{wrong}");
        }
        for wrong in ["0", "1.5", "0.5", "1e30", "1s"] {
            assert!(at_least_one(wrong).is_err() && count(wrong).is_err(), "{wrong}");
        }
        assert!(some_seconds("0s").is_err() && some_seconds("1ns").is_ok());
    }
}
