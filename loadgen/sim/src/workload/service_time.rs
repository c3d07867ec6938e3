//! How service times of one type are distributed around their mean.

use rand::rngs::Xoshiro256PlusPlus;
use rand_distr::{Distribution as _, Exp1, LogNormal, Pareto};
use serde::{Deserialize, Serialize};

/// Longest service time that is drawn, in nanoseconds: eleven days.
const SERVICE_NS_MAX: f64 = 1e15;

/// How service times of one type are distributed around their mean.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Distribution {
    /// Every service time is the mean.
    #[default]
    Fixed,
    /// Exponential.
    Exponential,
    /// Log-normal: the logarithm is normally distributed.
    Lognormal {
        /// Standard deviation of the logarithm. Above 0. With a coefficient of variation `c` it is
        /// the root of `ln(1 + c^2)`.
        sigma: f64,
    },
    /// Pareto: the tail falls with the power of `shape`.
    Pareto {
        /// Above 1, so that there is a mean. Up to 2 the variance is infinite.
        shape: f64,
    },
}

impl Distribution {
    /// Why the parameters are not valid, if they are not.
    pub(super) fn fault(&self) -> Option<String> {
        match *self {
            Self::Lognormal { sigma } if !(sigma.is_finite() && sigma > 0.0) => {
                Some(format!("sigma is {sigma}, it must be above 0"))
            }
            Self::Pareto { shape } if !(shape.is_finite() && shape > 1.0) => {
                Some(format!("shape is {shape}, it must be above 1"))
            }
            _ => None,
        }
    }
}

/// Draws service times.
#[derive(Debug, Clone, Copy)]
pub struct ServiceTimes(Kind);

#[derive(Debug, Clone, Copy)]
enum Kind {
    Fixed { service_ns: u64 },
    Exponential { mean_ns: f64 },
    Lognormal(LogNormal<f64>),
    Pareto(Pareto<f64>),
}

impl ServiceTimes {
    /// Service times with a mean of `mean_ns`.
    ///
    /// # Panics
    ///
    /// When the parameters of the distribution are out of their ranges; see
    /// [`Workload::validate`](super::Workload::validate).
    #[must_use]
    pub fn new(distribution: Distribution, mean_ns: u64) -> Self {
        let mean = mean_ns as f64;
        let kind = match distribution {
            Distribution::Fixed => Kind::Fixed { service_ns: mean_ns },
            Distribution::Exponential => Kind::Exponential { mean_ns: mean },
            Distribution::Lognormal { sigma } => {
                let location = mean.ln() - sigma * sigma / 2.0;
                Kind::Lognormal(LogNormal::new(location, sigma).expect("sigma is above 0"))
            }
            Distribution::Pareto { shape } => {
                let scale = mean * (shape - 1.0) / shape;
                Kind::Pareto(Pareto::new(scale, shape).expect("mean and shape are above 0"))
            }
        };
        Self(kind)
    }

    /// The next service time in nanoseconds, at least 1.
    pub fn draw(&self, rng: &mut Xoshiro256PlusPlus) -> u64 {
        let drawn = match &self.0 {
            Kind::Fixed { service_ns } => return *service_ns,
            Kind::Exponential { mean_ns } => {
                let unit: f64 = Exp1.sample(rng);
                unit * mean_ns
            }
            Kind::Lognormal(lognormal) => lognormal.sample(rng),
            Kind::Pareto(pareto) => pareto.sample(rng),
        };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is between 1 and the maximum"
        )]
        let service_ns = drawn.round().clamp(1.0, SERVICE_NS_MAX) as u64;
        service_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::stream_rng;

    /// Mean and squared coefficient of variation.
    fn moments(distribution: Distribution, mean_ns: u64) -> (f64, f64) {
        let times = ServiceTimes::new(distribution, mean_ns);
        let mut rng = stream_rng(5, 0);
        let drawn: Vec<f64> = (0..400_000).map(|_| times.draw(&mut rng) as f64).collect();
        let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
        let variance = drawn.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / drawn.len() as f64;
        (mean, variance / mean / mean)
    }

    #[test]
    fn means_and_variances_are_those_of_the_textbook() {
        let sigma = 1.0_f64;
        let shape = 4.0;
        for (distribution, variation) in [
            (Distribution::Fixed, 0.0),
            (Distribution::Exponential, 1.0),
            (Distribution::Lognormal { sigma }, sigma.exp() - 1.0),
            (Distribution::Pareto { shape }, 1.0 / (shape * (shape - 2.0))),
        ] {
            let (mean, measured) = moments(distribution, 10_000);
            assert!((mean / 1e4 - 1.0).abs() < 0.01, "{distribution:?}: {mean}");
            assert!(
                (measured - variation).abs() <= 0.05 * variation,
                "{distribution:?}: {measured}, not {variation}"
            );
        }
    }

    #[test]
    fn nothing_takes_no_time() {
        let times = ServiceTimes::new(Distribution::Exponential, 1);
        let mut rng = stream_rng(5, 0);
        assert!((0..1_000).all(|_| times.draw(&mut rng) >= 1));
    }
}
