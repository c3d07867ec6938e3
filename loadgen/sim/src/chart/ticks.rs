//! Positions of grid lines and labels of an axis.

use super::drawing::Axis;

/// Labelled intervals of a linear axis, at most.
const INTERVALS_MAX: f64 = 7.0;

/// Lines of one axis.
#[derive(Debug, PartialEq)]
pub(super) struct Ticks {
    /// Lines with their labels.
    pub(super) major: Vec<(f64, String)>,
    /// Lines without.
    pub(super) minor: Vec<f64>,
}

impl Ticks {
    pub(super) fn of(axis: &Axis) -> Self {
        if !axis.labels.is_empty() {
            let inside = |(value, _): &&(f64, String)| (axis.from..=axis.to).contains(value);
            Self {
                major: axis.labels.iter().filter(inside).cloned().collect(),
                minor: Vec::new(),
            }
        } else if axis.log {
            Self::decades(axis)
        } else {
            Self::round_steps(axis)
        }
    }

    fn round_steps(axis: &Axis) -> Self {
        let least = (axis.to - axis.from) / INTERVALS_MAX;
        let decade = 10f64.powf(least.log10().floor());
        let mut steps = [1.0, 2.0, 5.0, 10.0].iter().map(|part| part * decade);
        let step = steps.find(|step| *step >= least * (1.0 - 1e-9)).unwrap_or(10.0 * decade);
        let decimals = (-step.log10().floor()).max(0.0) as usize;
        let first = (axis.from / step - 1e-9).ceil() as i64;
        let last = (axis.to / step + 1e-9).floor() as i64;
        let tick = |number: i64| {
            let value = number as f64 * step;
            let label = match decimals {
                0 => grouped(value),
                _ => format!("{value:.decimals$}"),
            };
            (value, label)
        };
        Self { major: (first..=last).map(tick).collect(), minor: Vec::new() }
    }

    fn decades(axis: &Axis) -> Self {
        let inside = |value: &f64| (axis.from * (1.0 - 1e-9)..=axis.to * (1.0 + 1e-9)).contains(value);
        let first = axis.from.log10().floor() as i32;
        let last = axis.to.log10().ceil() as i32;
        let values = |part: i32| {
            let value = move |decade: i32| f64::from(part) * 10f64.powi(decade);
            (first..=last).map(value).filter(inside)
        };
        // An axis of less than two decades also has labels between them.
        let labelled: &[i32] = if axis.to / axis.from < 100.0 { &[1, 2, 5] } else { &[1] };
        let mut major: Vec<f64> = labelled.iter().flat_map(|part| values(*part)).collect();
        major.sort_by(f64::total_cmp);
        let minor = (2..10).filter(|part| !labelled.contains(part));
        Self {
            minor: minor.flat_map(values).collect(),
            major: major.into_iter().map(|value| (value, grouped(value))).collect(),
        }
    }
}

/// A number with separated thousands and without trailing zeros.
pub fn grouped(value: f64) -> String {
    if value < 1_000.0 {
        return format!("{}", (value * 1e6).round() / 1e6);
    }
    let digits = format!("{value:.0}");
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_an_axis_replace_its_decades() {
        let labels = [(2.0, "p50"), (100.0, "p99"), (1e6, "beyond the end")];
        let labels = labels.map(|(value, label)| (value, label.to_owned()));
        let axis = Axis::log("percentile", 1.0, 1_000.0).labelled(labels.to_vec());
        let ticks = Ticks::of(&axis);
        assert_eq!(ticks.major, labels[..2]);
        assert!(ticks.minor.is_empty());
    }

    fn labels(axis: &Axis) -> Vec<String> {
        let ticks = Ticks::of(axis);
        ticks.major.into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn linear_axes_have_round_steps() {
        assert_eq!(labels(&Axis::linear("", 0.0, 5.3)), ["0", "1", "2", "3", "4", "5"]);
        assert_eq!(labels(&Axis::linear("", 0.2, 1.0)), ["0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(labels(&Axis::linear("", 0.0, 14.0)), ["0", "2", "4", "6", "8", "10", "12", "14"]);
    }

    #[test]
    fn logarithmic_axes_have_decades() {
        assert_eq!(labels(&Axis::log("", 1.0, 10_000.0)), ["1", "10", "100", "1\u{202f}000", "10\u{202f}000"]);
        assert_eq!(labels(&Axis::log("", 0.5, 20.0)), ["0.5", "1", "2", "5", "10", "20"]);
        let minor = Ticks::of(&Axis::log("", 1.0, 100.0)).minor;
        assert_eq!(minor.len(), 16);
    }
}
