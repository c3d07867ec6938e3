//! Random numbers that a seed fixes.

use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

/// The random numbers of one purpose. The same `seed` and `stream` give the same numbers on every
/// platform.
#[must_use]
pub fn stream_rng(seed: u64, stream: u64) -> Xoshiro256PlusPlus {
    // Any odd constant keeps distinct streams distinct; the generator mixes the bits of its seed.
    Xoshiro256PlusPlus::seed_from_u64(seed ^ stream.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}
