//! The range and precision of all histograms.

use hdrhistogram::Histogram;

/// Longest latency that a histogram tells apart, in nanoseconds: an hour.
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;

/// Significant decimal digits of every histogram.
const DIGITS: u8 = 3;

/// Steps per unit in histograms of slowdown.
pub const SLOWDOWN_STEPS: f64 = 1e3;

/// An empty histogram with the range and precision of all others.
#[must_use]
pub fn new_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_NS_MAX, DIGITS).expect("the bounds are constants")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_keep_three_digits_up_to_an_hour() {
        let mut histogram = new_histogram();
        for value in [1, 1_234, 56_789_000, LATENCY_NS_MAX, u64::MAX] {
            histogram.reset();
            histogram.saturating_record(value);
            let read = histogram.value_at_quantile(1.0) as f64;
            let expected = value.min(LATENCY_NS_MAX) as f64;
            assert!((read / expected - 1.0).abs() <= 1e-3, "{value}: {read}");
        }
    }
}
