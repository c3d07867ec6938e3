//! Arrival times of requests: arrival processes and the schedules drawn from them.
//!
//! The seed alone fixes a schedule. Neither the server nor the generator can move a later arrival,
//! so the loop is open.

use std::fmt;

use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;
use rand_distr::{Distribution, Exp1};
use serde::{Deserialize, Serialize};

use crate::random::stream_rng;

const NS_PER_S: f64 = 1e9;

/// How the gaps between arrivals are distributed.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ArrivalProcess {
    /// Independent, exponentially distributed gaps: many independent clients.
    #[default]
    Poisson,
    /// Equal gaps, from a random offset within the first.
    Uniform,
    /// Poisson arrivals whose rate alternates between a lower and a higher one.
    Bursty(Bursts),
}

/// How bursts differ from the time between them. Arrivals are a Markov-modulated Poisson process
/// with two states; the given rate is the average over both.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Bursts {
    /// Rate within a burst, as a multiple of the rate between bursts. At least 1; 5 unless set.
    pub factor: f64,
    /// Share of the time that bursts take. Above 0 and below 1; 0.1 unless set.
    pub share: f64,
    /// Requests in a burst, on average. Above 0; 100 unless set.
    pub requests: f64,
}

impl Default for Bursts {
    fn default() -> Self {
        Self { factor: 5.0, share: 0.1, requests: 100.0 }
    }
}

impl Bursts {
    /// Whether all settings are in their ranges.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let Self { factor, share, requests } = *self;
        factor.is_finite() && factor >= 1.0 && share > 0.0 && share < 1.0 && requests.is_finite() && requests > 0.0
    }
}

impl fmt::Display for ArrivalProcess {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::Poisson => "Poisson",
            Self::Uniform => "uniform",
            Self::Bursty(_) => "bursty",
        })
    }
}

/// The gaps of an arrival process in units of their mean.
#[derive(Debug, Clone)]
pub struct Gaps {
    kind: Kind,
    rng: Xoshiro256PlusPlus,
}

#[derive(Debug, Clone)]
enum Kind {
    Poisson,
    Uniform { first: bool },
    Bursty(Modulation),
}

/// A state of the modulated process: its rates in events per mean gap.
#[derive(Debug, Clone, Copy)]
struct State {
    /// Arrivals and ends of the state, per mean gap.
    events: f64,
    /// Fraction of these events that are arrivals.
    arrivals: f64,
}

#[derive(Debug, Clone)]
struct Modulation {
    /// Between bursts, and within.
    states: [State; 2],
    current: usize,
}

impl Modulation {
    /// Starts in a burst with the probability `share`.
    fn new(bursts: Bursts, rng: &mut Xoshiro256PlusPlus) -> Self {
        let Bursts { factor, share, requests } = bursts;
        let calm = 1.0 / (1.0 + share * (factor - 1.0));
        let burst = factor * calm;
        let burst_ends = burst / requests;
        let calm_ends = burst_ends * share / (1.0 - share);
        let state = |arrivals, ends| State {
            events: arrivals + ends,
            arrivals: arrivals / (arrivals + ends),
        };
        Self {
            states: [state(calm, calm_ends), state(burst, burst_ends)],
            current: usize::from(rng.random::<f64>() < share),
        }
    }

    fn gap(&mut self, rng: &mut Xoshiro256PlusPlus) -> f64 {
        let mut gap = 0.0;
        loop {
            let state = self.states[self.current];
            let until_event: f64 = Exp1.sample(rng);
            gap += until_event / state.events;
            if rng.random::<f64>() < state.arrivals {
                return gap;
            }
            self.current ^= 1;
        }
    }
}

impl Gaps {
    /// The gaps of `seed` and `stream`; see [`stream_rng`].
    pub fn new(process: ArrivalProcess, seed: u64, stream: u64) -> Self {
        let mut rng = stream_rng(seed, stream);
        let kind = match process {
            ArrivalProcess::Poisson => Kind::Poisson,
            ArrivalProcess::Uniform => Kind::Uniform { first: true },
            ArrivalProcess::Bursty(bursts) => Kind::Bursty(Modulation::new(bursts, &mut rng)),
        };
        Self { kind, rng }
    }

    /// The next gap. The first gap precedes the first arrival.
    pub fn draw(&mut self) -> f64 {
        match &mut self.kind {
            Kind::Poisson => Exp1.sample(&mut self.rng),
            Kind::Uniform { first: false } => 1.0,
            Kind::Uniform { first } => {
                *first = false;
                self.rng.random()
            }
            Kind::Bursty(modulation) => modulation.gap(&mut self.rng),
        }
    }
}

/// The endless sequence of one type's arrival times, in nanoseconds from the start, ascending.
#[derive(Debug, Clone)]
pub struct Schedule {
    gaps: Gaps,
    /// Time at one rate each, in order; never empty.
    stretches: Vec<Stretch>,
    current: usize,
    // A float keeps fractions of a nanosecond, so rounding does not bias the rate. It is exact to a
    // nanosecond for the first hundred days.
    next_ns: f64,
}

/// Time at one rate.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    starts_ns: f64,
    gap_mean_ns: f64,
}

impl Schedule {
    /// Arrivals at `rate_rps` per second on average. At a rate of 0 the first arrival is at the end
    /// of time.
    ///
    /// `stream` separates the schedules of several types that share one seed.
    #[must_use]
    pub fn new(process: ArrivalProcess, rate_rps: f64, seed: u64, stream: u64) -> Self {
        Self::changing(process, rate_rps, &[], seed, stream)
    }

    /// The same with rates that change. Each of `changes` is a time in nanoseconds from the start,
    /// ascending, and the rate from then on. A gap that reaches into the time of the next rate
    /// continues at that rate.
    #[must_use]
    pub fn changing(process: ArrivalProcess, rate_rps: f64, changes: &[(u64, f64)], seed: u64, stream: u64) -> Self {
        let rates = std::iter::once((0, rate_rps)).chain(changes.iter().copied());
        let mut schedule = Self {
            gaps: Gaps::new(process, seed, stream),
            stretches: rates
                .map(|(starts_ns, rate_rps)| Stretch {
                    starts_ns: starts_ns as f64,
                    gap_mean_ns: NS_PER_S / rate_rps,
                })
                .collect(),
            current: 0,
            next_ns: 0.0,
        };
        schedule.advance();
        schedule
    }

    fn advance(&mut self) {
        let mut gap = self.gaps.draw();
        loop {
            let gap_mean_ns = self.stretches[self.current].gap_mean_ns;
            let ends_ns = self.stretches.get(self.current + 1).map_or(f64::INFINITY, |next| next.starts_ns);
            let at_ns = if gap_mean_ns.is_finite() {
                self.next_ns + gap * gap_mean_ns
            } else {
                f64::INFINITY
            };
            if at_ns < ends_ns || self.current + 1 == self.stretches.len() {
                self.next_ns = at_ns;
                return;
            }
            gap -= (ends_ns - self.next_ns) / gap_mean_ns;
            self.next_ns = ends_ns;
            self.current += 1;
        }
    }

    /// The next arrival in nanoseconds from the start. It stays the next one.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the conversion saturates, and the end of time is what infinity means"
    )]
    pub fn next_ns(&self) -> u64 {
        self.next_ns as u64
    }
}

impl Iterator for Schedule {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let arrival_ns = self.next_ns();
        self.advance();
        Some(arrival_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gaps_us(process: ArrivalProcess, rate_rps: f64, count: usize) -> Vec<f64> {
        let arrivals: Vec<u64> = Schedule::new(process, rate_rps, 7, 1).take(count + 1).collect();
        arrivals.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 1e3).collect()
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
        let arrivals: Vec<u64> = Schedule::new(ArrivalProcess::Uniform, 3.0, 1, 0).take(3_001).collect();
        assert!(arrivals[0] < 333_333_334);
        let span_ns = arrivals[3_000] - arrivals[0];
        assert!(span_ns.abs_diff(1_000_000_000_000) <= 1, "{span_ns}");
    }

    #[test]
    fn bursts_keep_the_mean_rate_and_vary_more() {
        let bursts = Bursts { factor: 10.0, share: 0.2, requests: 50.0 };
        let gaps = gaps_us(ArrivalProcess::Bursty(bursts), 1e4, 1_000_000);
        let (mean, variance) = mean_and_variance(&gaps);
        assert!((mean / 100.0 - 1.0).abs() < 0.03, "mean {mean}");
        // In a burst the gaps are a tenth of those between; 10 of 14 arrivals come in bursts.
        assert!(variance > 2.0 * mean * mean, "variance {variance}");
        let calm_us = 100.0 * (1.0 + 0.2 * 9.0);
        let short = gaps.iter().filter(|&&gap| gap < calm_us / 10.0).count() as f64;
        let expected = (10.0 * (1.0 - (-1_f64).exp()) + 4.0 * (1.0 - (-0.1_f64).exp())) / 14.0;
        let short = short / gaps.len() as f64;
        assert!((short / expected - 1.0).abs() < 0.05, "{short} {expected}");
    }

    #[test]
    fn burst_settings_out_of_range_are_noticed() {
        let with = |factor, share, requests| Bursts { factor, share, requests };
        assert!(Bursts::default().is_valid());
        for bursts in [
            with(0.9, 0.1, 10.0),
            with(f64::INFINITY, 0.1, 10.0),
            with(2.0, 0.0, 10.0),
            with(2.0, 1.0, 10.0),
            with(2.0, 0.1, 0.0),
            with(2.0, 0.1, f64::NAN),
        ] {
            assert!(!bursts.is_valid(), "{bursts:?}");
        }
    }

    #[test]
    fn the_seed_fixes_the_schedule_and_streams_differ() {
        let draw = |seed, stream| -> Vec<u64> {
            Schedule::new(ArrivalProcess::Poisson, 1e6, seed, stream).take(100).collect()
        };
        assert_eq!(draw(1, 0), draw(1, 0));
        assert_ne!(draw(1, 0), draw(2, 0));
        assert_ne!(draw(1, 0), draw(1, 1));
    }

    #[test]
    fn rates_change_when_told() {
        let second = 1_000_000_000;
        let changes = [(second, 0.0), (2 * second, 3_000.0)];
        for process in [ArrivalProcess::Uniform, ArrivalProcess::Poisson] {
            let mut counts = [0.0; 3];
            for arrival_ns in Schedule::changing(process, 1_000.0, &changes, 5, 0) {
                let Some(count) = counts.get_mut((arrival_ns / second) as usize) else {
                    break;
                };
                *count += 1.0;
            }
            let [first, second, third] = counts;
            assert!((first / 1e3_f64 - 1.0).abs() < 0.1, "{first}");
            assert_eq!(second, 0.0);
            assert!((third / 3e3_f64 - 1.0).abs() < 0.1, "{third}");
        }
    }

    #[test]
    fn a_rate_of_zero_never_arrives() {
        for process in [
            ArrivalProcess::Poisson,
            ArrivalProcess::Uniform,
            ArrivalProcess::Bursty(Bursts::default()),
        ] {
            assert_eq!(Schedule::new(process, 0.0, 1, 0).next_ns(), u64::MAX);
        }
    }
}
