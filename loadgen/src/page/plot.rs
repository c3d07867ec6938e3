//! Plots, and the helpers that all plots share.

use psp_sim::chart::{Axis, Drawing, Panel};

/// The label of an axis of latencies.
pub(super) const LATENCY: &str = "latency, us";

/// A plot on a page.
pub(super) struct Plot {
    pub(super) id: String,
    pub(super) caption: String,
    pub(super) svg: String,
}

pub(super) type Points = Vec<(f64, f64)>;

pub(super) fn drawing(title: &str, series: &[impl AsRef<str>], panels: Vec<Panel>, columns: usize) -> Drawing {
    Drawing {
        name: "report".to_owned(),
        title: title.to_owned(),
        series: series.iter().map(|name| name.as_ref().to_owned()).collect(),
        panels,
        columns,
        footer: Vec::new(),
    }
}

/// A logarithmic axis of whole decades around all values.
pub(super) fn decades(label: &str, lines: &[Points], limit: Option<f64>) -> Axis {
    let values = || lines.iter().flatten().map(|(_, value)| *value).chain(limit);
    let least = values().fold(f64::INFINITY, f64::min);
    let most = values().fold(0.0, f64::max);
    let (from, to) = if least > 0.0 && least.is_finite() {
        (10_f64.powf(least.log10().floor()), decade_above(most))
    } else {
        (1.0, decade_above(most.max(1.0)))
    };
    Axis::log(label, from, to)
}

/// The power of ten above `value`.
pub(super) fn decade_above(value: f64) -> f64 {
    10_f64.powf((value.log10() + 1e-9).floor() + 1.0)
}
