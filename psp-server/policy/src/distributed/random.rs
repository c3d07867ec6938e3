//! Chance is an argument of decisions, as time is: whoever drives a worker draws for it.

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

/// A stream of random numbers.
#[derive(Debug)]
pub struct Random(SmallRng);

impl Random {
    /// The stream of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(SmallRng::seed_from_u64(seed))
    }

    /// A number below `end`, which is above 0.
    pub fn below(&mut self, end: u32) -> u32 {
        self.0.random_range(0..end)
    }
}
