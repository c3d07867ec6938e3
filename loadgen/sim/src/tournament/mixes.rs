//! Workloads drawn at random: mixes for which no policy was tuned.

use std::fmt;

use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

use crate::random::stream_rng;
use crate::workload::{ArrivalProcess, Bursts, Distribution, Workload, WorkloadType};

/// Mixes of a whole tournament.
pub const MIXES: u32 = 48;

/// Seed of all mixes. Each mix has a stream of its own, so that more mixes leave the first ones as they are.
const SEED: u64 = 0x7079;
/// Types of a mix.
const TYPES: std::ops::RangeInclusive<usize> = 2..=6;
/// Mean service times, in nanoseconds.
const MEAN_NS: [f64; 2] = [500.0, 10e6];
/// Weights of types, before long ones become rarer.
const WEIGHT: [f64; 2] = [1.0, 30.0];
/// Least share of a type. Rarer ones would have too few requests for a percentile.
const SHARE_MIN: f64 = 0.01;
/// Least and largest sigma of log-normal service times.
const SIGMA: [f64; 2] = [0.4, 2.0];
/// Part of the mixes whose arrivals are bursty.
const BURSTY: f64 = 1.0 / 3.0;
/// Rates within bursts, as multiples of the rate between them.
const BURST_FACTOR: [f64; 2] = [2.0, 5.0];

/// Which of the mixes take part. Rules of policies are chosen on one half, and reported on the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Half {
    /// Those of even numbers, to choose rules on.
    Tune,
    /// Those of odd numbers, to report.
    #[default]
    HeldOut,
    /// All.
    All,
}

impl Half {
    /// Whether the mix of that number takes part.
    #[must_use]
    pub const fn has(self, mix: u32) -> bool {
        match self {
            Self::Tune => mix.is_multiple_of(2),
            Self::HeldOut => !mix.is_multiple_of(2),
            Self::All => true,
        }
    }
}

impl fmt::Display for Half {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::Tune => "mixes to tune on",
            Self::HeldOut => "mixes held out",
            Self::All => "all mixes",
        })
    }
}

/// The mix of that number: from 2 to 6 types of 0.5 us to 10 ms, fixed, exponential or log-normal, whose arrivals are
/// Poisson or bursty.
///
/// Means are spread evenly over the orders of magnitude. In some mixes types are as frequent whatever their length, in
/// some they are rarer by the root of their length, and in some by their length.
#[must_use]
pub fn mix(number: u32) -> Workload {
    let mut rng = stream_rng(SEED, u64::from(number));
    let types = rng.random_range(TYPES);
    let rarer = [0.0, 0.5, 1.0][rng.random_range(0..3)];
    let mut means_ns: Vec<f64> = (0..types).map(|_| log_uniform(MEAN_NS, &mut rng)).collect();
    means_ns.sort_by(f64::total_cmp);
    let weights: Vec<f64> = means_ns
        .iter()
        .map(|mean_ns| log_uniform(WEIGHT, &mut rng) / mean_ns.powf(rarer))
        .collect();
    let shares = shares(&weights);
    let types = means_ns.iter().zip(shares).enumerate();
    let types = types.map(|(index, (mean_ns, share))| WorkloadType {
        name: format!("type-{}", index + 1),
        share,
        service_ns: mean_ns.round() as u64,
        distribution: distribution(&mut rng),
        wait_ns: 0,
        slo_ns: None,
        weight: None,
    });
    let mut workload = Workload::of_types(format!("mix-{number}"), types.collect());
    if rng.random::<f64>() < BURSTY {
        workload.arrivals = ArrivalProcess::Bursty(Bursts {
            factor: log_uniform(BURST_FACTOR, &mut rng),
            ..Bursts::default()
        });
    }
    workload
}

fn log_uniform([least, most]: [f64; 2], rng: &mut Xoshiro256PlusPlus) -> f64 {
    least * (most / least).powf(rng.random::<f64>())
}

/// Parts of 1 by weight, none of them far below [`SHARE_MIN`].
fn shares(weights: &[f64]) -> Vec<f64> {
    let total: f64 = weights.iter().sum();
    let raised: Vec<f64> = weights.iter().map(|weight| (weight / total).max(SHARE_MIN)).collect();
    let total: f64 = raised.iter().sum();
    raised.iter().map(|share| share / total).collect()
}

fn distribution(rng: &mut Xoshiro256PlusPlus) -> Distribution {
    match rng.random_range(0..3) {
        0 => Distribution::Fixed,
        1 => Distribution::Exponential,
        _ => Distribution::Lognormal { sigma: rng.random_range(SIGMA[0]..SIGMA[1]) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixes_are_valid_and_of_all_kinds() {
        let mixes: Vec<Workload> = (0..MIXES).map(mix).collect();
        for mix in &mixes {
            mix.validate().unwrap();
            assert!(TYPES.contains(&mix.types.len()));
            let of_range = |ty: &WorkloadType| {
                (MEAN_NS[0]..=MEAN_NS[1]).contains(&(ty.service_ns as f64)) && ty.share >= SHARE_MIN / 1.1
            };
            assert!(mix.types.iter().all(of_range), "{mix:?}");
        }
        for half in [Half::Tune, Half::HeldOut] {
            let of_half: Vec<&Workload> = (0..MIXES)
                .zip(&mixes)
                .filter_map(|(number, mix)| half.has(number).then_some(mix))
                .collect();
            let bursty = |mix: &&&Workload| matches!(mix.arrivals, ArrivalProcess::Bursty(_));
            let bursty = of_half.iter().filter(bursty).count();
            assert!((1..of_half.len()).contains(&bursty), "{half}: {bursty}");
            let types = || of_half.iter().flat_map(|mix| &mix.types);
            let fixed = types().filter(|ty| ty.distribution == Distribution::Fixed);
            let exponential = types().filter(|ty| ty.distribution == Distribution::Exponential);
            let (fixed, exponential, all) = (fixed.count(), exponential.count(), types().count());
            assert!(fixed.min(exponential).min(all - fixed - exponential) > all / 6);
        }
    }

    #[test]
    fn a_number_has_one_mix() {
        assert_eq!(mix(7), mix(7));
        assert_ne!(mix(7).types, mix(8).types);
    }
}
