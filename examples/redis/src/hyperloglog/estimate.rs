//! The estimate of the number of members from the values of registers.
//!
//! Otmar Ertl, *New cardinality estimation algorithms for HyperLogLog sketches*, arXiv:1702.01284, algorithm 6.

use super::REGISTERS;

/// Values above this one come from corrupted registers only.
const VALUE_MAX: usize = (u64::BITS - REGISTERS.ilog2()) as usize + 1;
/// All values of 6 bits.
const VALUES: usize = 64;

/// How many registers have each value.
#[derive(Debug)]
pub(super) struct Histogram([u32; VALUES]);

impl Default for Histogram {
    fn default() -> Self {
        Self([0; VALUES])
    }
}

impl Histogram {
    /// Counts `registers` more that have `value`.
    pub(super) fn add(&mut self, value: u8, registers: usize) {
        self.0[usize::from(value) % VALUES] += registers as u32;
    }

    /// The number of members, estimated.
    pub(super) fn count(&self) -> u64 {
        let total = REGISTERS as f64;
        let of_value = |value: usize| f64::from(self.0[value]);
        let mut sum = total * tau((total - of_value(VALUE_MAX)) / total);
        for value in (1..VALUE_MAX).rev() {
            sum = (sum + of_value(value)) * 0.5;
        }
        sum += total * sigma(of_value(0) / total);
        // Half of 1 / ln 2, as Redis writes it.
        const ALPHA: f64 = 0.721_347_520_444_481_7;
        (ALPHA * total * total / sum).round() as u64
    }
}

fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut sum) = (1.0, x);
    loop {
        x *= x;
        let last = sum;
        sum += x * y;
        y += y;
        if sum == last {
            return sum;
        }
    }
}

fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut y, mut sum) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let last = sum;
        y *= 0.5;
        sum -= (1.0 - x) * (1.0 - x) * y;
        if sum == last {
            return sum / 3.0;
        }
    }
}
