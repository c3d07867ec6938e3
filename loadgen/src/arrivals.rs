//! When requests shall be sent: arrival processes and the schedules drawn from them.
//!
//! A schedule is fixed by its seed alone. Nothing that the server or the generator does moves a
//! later arrival, which is what makes the loop open.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp1};
use serde::{Deserialize, Serialize};

const NS_PER_S: f64 = 1e9;

/// How the gaps between arrivals are distributed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ArrivalProcess {
    /// Independent, exponentially distributed gaps: many independent clients.
    #[default]
    Poisson,
    /// Equal gaps, from a random offset within the first.
    Uniform,
}

/// The endless sequence of one type's arrival times, in nanoseconds from the start, ascending.
#[derive(Debug, Clone)]
pub struct Schedule {
    process: ArrivalProcess,
    gap_mean_ns: f64,
    // A float keeps fractions of a nanosecond, so that the rate has no rounding bias; it is exact
    // to a nanosecond for the first hundred days.
    next_ns: f64,
    rng: Xoshiro256PlusPlus,
}

impl Schedule {
    /// Arrivals at `rate_rps` per second on average. A rate of 0 has no arrivals: all lie at the
    /// end of time.
    ///
    /// `stream` separates the schedules of several types that share one seed.
    #[must_use]
    pub fn new(process: ArrivalProcess, rate_rps: f64, seed: u64, stream: u64) -> Self {
        let mut schedule = Self {
            process,
            gap_mean_ns: NS_PER_S / rate_rps,
            next_ns: 0.0,
            rng: stream_rng(seed, stream),
        };
        schedule.next_ns = match process {
            ArrivalProcess::Poisson => schedule.gap_ns(),
            ArrivalProcess::Uniform => schedule.rng.random::<f64>() * schedule.gap_mean_ns,
        };
        schedule
    }

    /// The next arrival, in nanoseconds from the start, without consuming it.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the conversion saturates, and the end of time is what infinity means"
    )]
    pub fn next_ns(&self) -> u64 {
        self.next_ns as u64
    }

    fn gap_ns(&mut self) -> f64 {
        match self.process {
            ArrivalProcess::Poisson => {
                let gap: f64 = Exp1.sample(&mut self.rng);
                gap * self.gap_mean_ns
            }
            ArrivalProcess::Uniform => self.gap_mean_ns,
        }
    }
}

impl Iterator for Schedule {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let arrival_ns = self.next_ns();
        self.next_ns += self.gap_ns();
        Some(arrival_ns)
    }
}

/// The random numbers of one purpose: the same `seed` and `stream` give the same numbers on every
/// platform.
#[must_use]
pub(crate) fn stream_rng(seed: u64, stream: u64) -> Xoshiro256PlusPlus {
    // Any odd constant keeps distinct streams distinct; the generator mixes the bits of its seed.
    Xoshiro256PlusPlus::seed_from_u64(seed ^ stream.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gaps_us(process: ArrivalProcess, rate_rps: f64, count: usize) -> Vec<f64> {
        let arrivals: Vec<u64> = Schedule::new(process, rate_rps, 7, 1)
            .take(count + 1)
            .collect();
        arrivals
            .windows(2)
            .map(|pair| (pair[1] - pair[0]) as f64 / 1e3)
            .collect()
    }

    fn mean_and_variance(samples: &[f64]) -> (f64, f64) {
        let mean = samples.iter().sum::<f64>() / samples.len() as f64;
        let squares: f64 = samples.iter().map(|sample| (sample - mean).powi(2)).sum();
        (mean, squares / samples.len() as f64)
    }

    #[test]
    fn poisson_gaps_have_the_mean_and_variance_of_an_exponential() {
        let (mean, variance) = mean_and_variance(&gaps_us(ArrivalProcess::Poisson, 1e4, 200_000));
        assert!((mean / 100.0 - 1.0).abs() < 0.01, "mean {mean}");
        assert!((variance / 1e4 - 1.0).abs() < 0.03, "variance {variance}");
    }

    #[test]
    fn poisson_counts_per_interval_have_equal_mean_and_variance() {
        let mut counts = vec![0.0; 5_000];
        for arrival_ns in Schedule::new(ArrivalProcess::Poisson, 1e4, 3, 0) {
            let Some(count) = counts.get_mut(arrival_ns as usize / 1_000_000) else {
                break;
            };
            *count += 1.0;
        }
        let (mean, variance) = mean_and_variance(&counts);
        assert!((mean / 10.0 - 1.0).abs() < 0.03, "mean {mean}");
        assert!((variance / mean - 1.0).abs() < 0.1, "variance {variance}");
    }

    #[test]
    fn uniform_gaps_are_equal_and_do_not_drift() {
        let arrivals: Vec<u64> = Schedule::new(ArrivalProcess::Uniform, 3.0, 1, 0)
            .take(3_001)
            .collect();
        assert!(arrivals[0] < 333_333_334);
        let span_ns = arrivals[3_000] - arrivals[0];
        assert!(span_ns.abs_diff(1_000_000_000_000) <= 1, "{span_ns}");
    }

    #[test]
    fn the_seed_fixes_the_schedule_and_streams_differ() {
        let draw = |seed, stream| -> Vec<u64> {
            Schedule::new(ArrivalProcess::Poisson, 1e6, seed, stream)
                .take(100)
                .collect()
        };
        assert_eq!(draw(1, 0), draw(1, 0));
        assert_ne!(draw(1, 0), draw(2, 0));
        assert_ne!(draw(1, 0), draw(1, 1));
    }

    #[test]
    fn a_rate_of_zero_never_arrives() {
        for process in [ArrivalProcess::Poisson, ArrivalProcess::Uniform] {
            assert_eq!(Schedule::new(process, 0.0, 1, 0).next_ns(), u64::MAX);
        }
    }
}
