//! How often each key is used.

use std::fmt;
use std::str::FromStr;

use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;
use rand_distr::{Distribution, Zipf};

/// Exponent of a Zipf distribution unless set: that of YCSB.
const THETA: f64 = 0.99;

/// How often each key is used. Keys are numbered from 0.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum KeyDistribution {
    /// All keys equally often.
    #[default]
    Uniform,
    /// Key `i` in proportion to `(i + 1)^-theta`.
    Zipf {
        /// From 0 to 10. 0.99 unless set.
        theta: f64,
    },
    /// One after the other. Each type starts at key 0, and again after the last key.
    Sequential,
    /// Some keys, the first ones, are hot: they get a share of all uses. Uses are uniform within
    /// both parts.
    Hot {
        /// Fraction of the keys that are hot. Above 0 and below 1; 0.1 unless set.
        fraction: f64,
        /// Share of the uses that hot keys get. From 0 to 1; 0.9 unless set.
        share: f64,
    },
}

/// The text is not a key distribution.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}`: keys are uniform, zipf[:THETA], sequential or hot[:FRACTION:SHARE]")]
pub struct KeyDistributionError {
    text: String,
}

impl FromStr for KeyDistribution {
    type Err = KeyDistributionError;

    fn from_str(text: &str) -> Result<Self, KeyDistributionError> {
        let error = || KeyDistributionError { text: text.to_owned() };
        let mut words = text.split(':');
        let name = words.next().unwrap_or_default();
        let numbers: Vec<f64> = words.map(|number| number.parse().map_err(|_| error())).collect::<Result<_, _>>()?;
        let hot = |fraction, share| Self::Hot { fraction, share };
        let distribution = match (name, &numbers[..]) {
            ("uniform", []) => Self::Uniform,
            ("zipf", []) => Self::Zipf { theta: THETA },
            ("zipf", &[theta]) if (0.0..=10.0).contains(&theta) => Self::Zipf { theta },
            ("sequential", []) => Self::Sequential,
            ("hot", []) => hot(0.1, 0.9),
            ("hot", &[fraction, share]) if fraction > 0.0 && fraction < 1.0 && (0.0..=1.0).contains(&share) => {
                hot(fraction, share)
            }
            _ => return Err(error()),
        };
        Ok(distribution)
    }
}

impl fmt::Display for KeyDistribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform => f.write_str("uniform"),
            Self::Zipf { theta } => write!(f, "zipf:{theta}"),
            Self::Sequential => f.write_str("sequential"),
            Self::Hot { fraction, share } => write!(f, "hot:{fraction}:{share}"),
        }
    }
}

/// Draws the numbers of keys.
#[derive(Debug, Clone)]
pub struct KeyDraws(Kind);

#[derive(Debug, Clone)]
enum Kind {
    Uniform { keys: u64 },
    Zipf { keys: u64, ranks: Zipf<f64> },
    Sequential { keys: u64, next: u64 },
    Hot { keys: u64, hot: u64, share: f64 },
}

impl KeyDraws {
    /// Draws from `keys` keys.
    pub(super) fn new(distribution: KeyDistribution, keys: u64) -> Self {
        let kind = match distribution {
            KeyDistribution::Uniform => Kind::Uniform { keys },
            KeyDistribution::Zipf { theta } => {
                let ranks = Zipf::new(keys as f64, theta).expect("theta and keys are in range");
                Kind::Zipf { keys, ranks }
            }
            KeyDistribution::Sequential => Kind::Sequential { keys, next: 0 },
            KeyDistribution::Hot { fraction, share } => {
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "it is a part of a number that fits"
                )]
                let hot = ((keys as f64 * fraction).round() as u64).clamp(1, keys);
                Kind::Hot { keys, hot, share }
            }
        };
        Self(kind)
    }

    /// The number of the next key.
    pub fn draw(&mut self, rng: &mut Xoshiro256PlusPlus) -> u64 {
        match &mut self.0 {
            Kind::Uniform { keys } => rng.random_range(0..*keys),
            Kind::Zipf { keys, ranks } => {
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "ranks are whole numbers from 1"
                )]
                let rank = ranks.sample(rng) as u64;
                rank.saturating_sub(1).min(*keys - 1)
            }
            Kind::Sequential { keys, next } => {
                let key = *next;
                *next = (key + 1) % *keys;
                key
            }
            Kind::Hot { keys, hot, share } => {
                if hot == keys || rng.random::<f64>() < *share {
                    rng.random_range(0..*hot)
                } else {
                    rng.random_range(*hot..*keys)
                }
            }
        }
    }
}
