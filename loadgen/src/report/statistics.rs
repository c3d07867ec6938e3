//! Statistics of one figure over several runs.

use serde::{Deserialize, Serialize};

/// A mean with its precision.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Mean over the runs.
    pub mean: f64,
    /// Half the width of the 95 % confidence interval of the mean (Student's t); absent for a
    /// single run.
    pub ci95: Option<f64>,
}

impl Estimate {
    /// Computes it from one value for each run; `None` without values.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        let count = values.len() as f64;
        if values.is_empty() {
            return None;
        }
        let mean = values.iter().sum::<f64>() / count;
        let degrees = values.len() - 1;
        let ci95 = (degrees > 0).then(|| {
            let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
            student_t_95(degrees) * (squares / degrees as f64 / count).sqrt()
        });
        Some(Self { mean, ci95 })
    }
}

/// The median, the smallest and the largest of several values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The middle value, or the mean of the two middle values.
    pub median: f64,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
}

impl Spread {
    /// Computes it from one value for each run; `None` without values.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let (low, high) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
        Some(Self { median: f64::midpoint(low, high), min, max })
    }
}

/// 97.5th percentiles of Student's t distribution for 1 and more degrees of freedom.
const STUDENT_T_95: [f64; 12] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179];

/// The 97.5th percentile of the normal distribution.
const NORMAL_95: f64 = 1.959_964;

/// Number of standard errors to either side of the mean that hold it in 95 % of all cases.
fn student_t_95(degrees: usize) -> f64 {
    if let Some(known) = degrees.checked_sub(1).and_then(|index| STUDENT_T_95.get(index)) {
        return *known;
    }
    // Abramowitz and Stegun, 26.7.5.
    let (z, n) = (NORMAL_95, degrees as f64);
    let first = (z.powi(3) + z) / (4.0 * n);
    let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * n.powi(2));
    z + first + second
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_follow_student() {
        let one = Estimate::of(&[7.0]).unwrap();
        assert_eq!((one.mean, one.ci95), (7.0, None));
        // Standard deviation 1, standard error 1 / sqrt(3), two degrees of freedom.
        let three = Estimate::of(&[1.0, 2.0, 3.0]).unwrap();
        assert_eq!(three.mean, 2.0);
        assert!((three.ci95.unwrap() - 4.303 / 3_f64.sqrt()).abs() < 1e-9);
        let same = Estimate::of(&[4.0; 5]).unwrap();
        assert_eq!((same.mean, same.ci95), (4.0, Some(0.0)));
        assert_eq!(Estimate::of(&[]), None);
    }

    #[test]
    fn the_series_continues_the_table() {
        for (degrees, expected) in [(13, 2.160), (20, 2.086), (30, 2.042), (120, 1.980)] {
            assert!((student_t_95(degrees) - expected).abs() < 1e-3, "{degrees}");
        }
        let falling = (1..200).map(student_t_95);
        assert!(falling.is_sorted_by(|one, next| one > next));
    }

    #[test]
    fn a_spread_has_its_median_between_its_ends() {
        let odd = Spread::of(&[3.0, 1.0, 20.0]).unwrap();
        assert_eq!((odd.median, odd.min, odd.max), (3.0, 1.0, 20.0));
        assert_eq!(Spread::of(&[1.0, 2.0, 4.0, 8.0]).unwrap().median, 3.0);
        assert_eq!(Spread::of(&[]), None);
    }
}
