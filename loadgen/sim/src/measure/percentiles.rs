//! Percentiles of one run or of several runs.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Percentiles of a distribution. `T` is a number for one run, and a statistic such as a median for
/// several runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Percentiles<T = f64> {
    /// Mean.
    pub mean: T,
    /// Median.
    pub p50: T,
    /// 90th percentile.
    pub p90: T,
    /// 99th percentile.
    pub p99: T,
    /// 99.9th percentile.
    pub p999: T,
    /// 99.99th percentile.
    pub p9999: T,
    /// Maximum.
    pub max: T,
}

/// Heads of columns of percentiles. [`Percentiles::columns`] gives their values.
pub const PERCENTILE_HEADS: [&str; 6] = ["p50", "p90", "p99", "p99.9", "p99.99", "max"];

impl Percentiles {
    /// Reads `histogram`, each value divided by `unit`. `None` when it is empty.
    #[must_use]
    pub fn of(histogram: &Histogram<u64>, unit: f64) -> Option<Self> {
        let at = |quantile| histogram.value_at_quantile(quantile) as f64 / unit;
        (!histogram.is_empty()).then(|| Self {
            mean: histogram.mean() / unit,
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            p9999: at(0.9999),
            max: at(1.0),
        })
    }

    /// Each point divided by that of `base`.
    #[must_use]
    pub fn divided_by(&self, base: &Self) -> Self {
        Self {
            mean: self.mean / base.mean,
            p50: self.p50 / base.p50,
            p90: self.p90 / base.p90,
            p99: self.p99 / base.p99,
            p999: self.p999 / base.p999,
            p9999: self.p9999 / base.p9999,
            max: self.max / base.max,
        }
    }

    /// Folds the values of all runs, percentile by percentile. `None` when a run has no
    /// percentiles, or there is no run.
    pub fn fold<T>(runs: &[Option<Self>], say: impl Fn(&[f64]) -> Option<T>) -> Option<Percentiles<T>> {
        let runs: Vec<Self> = runs.iter().copied().collect::<Option<_>>()?;
        let over = |point: fn(&Self) -> f64| {
            let values: Vec<f64> = runs.iter().map(point).collect();
            say(&values)
        };
        Some(Percentiles {
            mean: over(|run| run.mean)?,
            p50: over(|run| run.p50)?,
            p90: over(|run| run.p90)?,
            p99: over(|run| run.p99)?,
            p999: over(|run| run.p999)?,
            p9999: over(|run| run.p9999)?,
            max: over(|run| run.max)?,
        })
    }
}

impl<T: Copy> Percentiles<T> {
    /// The values under [`PERCENTILE_HEADS`], in their order.
    #[must_use]
    pub fn columns(&self) -> [T; PERCENTILE_HEADS.len()] {
        [self.p50, self.p90, self.p99, self.p999, self.p9999, self.max]
    }
}

/// A point of a percentile curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// One request in `one_in` is slower: 2 at the median, 1000 at the 99.9th percentile.
    pub one_in: f64,
    /// The value there.
    pub value: f64,
}

/// Points for each factor of two between 1 and the number of requests.
const POINTS_PER_DOUBLING: i32 = 2;

/// The percentile curve of `histogram`, each value divided by `unit`. It ends where the histogram
/// has too few values for the next point.
#[must_use]
pub fn curve(histogram: &Histogram<u64>, unit: f64) -> Vec<CurvePoint> {
    let steps = (0..).map(|step| 2_f64.powf(f64::from(step) / f64::from(POINTS_PER_DOUBLING)));
    steps
        .take_while(|one_in| *one_in <= histogram.len() as f64)
        .map(|one_in| CurvePoint {
            one_in,
            value: histogram.value_at_quantile(1.0 - 1.0 / one_in) as f64 / unit,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::histogram::new_histogram;

    fn thousand() -> Histogram<u64> {
        let mut histogram = new_histogram();
        for value in 1..=1_000 {
            histogram.record(value).unwrap();
        }
        histogram
    }

    #[test]
    fn a_curve_reaches_as_far_as_its_requests() {
        let curve = curve(&thousand(), 1.0);
        assert!(curve.is_sorted_by(|one, next| one.one_in < next.one_in && one.value <= next.value));
        let median = curve.iter().find(|point| point.one_in == 2.0).unwrap();
        assert!((median.value - 500.0).abs() <= 1.0);
        let last = curve.last().unwrap();
        assert!(last.one_in <= 1_000.0 && last.one_in > 500.0);
        assert!(super::curve(&new_histogram(), 1.0).is_empty());
    }

    #[test]
    fn runs_fold_only_when_all_have_figures() {
        let points = Percentiles::of(&thousand(), 1.0);
        let largest = |values: &[f64]| values.iter().copied().reduce(f64::max);
        let folded = Percentiles::fold(&[points, points], largest).unwrap();
        assert_eq!(Some(folded), points);
        assert_eq!(Percentiles::fold(&[points, None], largest), None);
        assert_eq!(Percentiles::fold(&[], largest), None);
    }
}
