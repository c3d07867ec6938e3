//! Histograms of latencies and slowdowns, and the percentiles read from them.

mod histogram;
mod percentiles;

pub use histogram::{SLOWDOWN_STEPS, new_histogram};
pub use percentiles::{CurvePoint, PERCENTILE_HEADS, Percentiles, curve};
