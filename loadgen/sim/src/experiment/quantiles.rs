//! Points of a distribution in reports of simulations.

use serde::{Deserialize, Serialize};

use crate::measure::Percentiles;
use crate::text::number;

/// Percentiles of a distribution; absent when no request completed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    /// Median.
    pub p50: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
    /// 99.9th percentile.
    pub p999: Option<f64>,
    /// Maximum.
    pub max: Option<f64>,
}

/// The heads of columns of [`Quantiles`].
pub(super) const QUANTILE_HEADS: [&str; 4] = ["p50", "p99", "p99.9", "max"];

impl Quantiles {
    pub(super) fn of(percentiles: Option<Percentiles>) -> Self {
        Self {
            p50: percentiles.map(|points| points.p50),
            p99: percentiles.map(|points| points.p99),
            p999: percentiles.map(|points| points.p999),
            max: percentiles.map(|points| points.max),
        }
    }

    pub(super) fn columns(&self) -> [Option<f64>; QUANTILE_HEADS.len()] {
        [self.p50, self.p99, self.p999, self.max]
    }

    pub(super) fn cells(&self) -> impl Iterator<Item = String> {
        self.columns().into_iter().map(|value| value.map_or_else(absent, number))
    }

    pub(super) fn csv(&self) -> impl Iterator<Item = String> {
        let exact = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
        self.columns().into_iter().map(exact)
    }
}

/// The cell of a figure that is absent.
pub(super) fn absent() -> String {
    "-".to_owned()
}
