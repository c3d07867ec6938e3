//! A classifier that answers at random, to measure what classification is worth.

use std::sync::atomic::{AtomicU64, Ordering};

use psp_server::{Classifier, RequestType, TypeTable};

/// Answers each of its types equally often, for any request (Perséphone 5.6: with such a classifier,
/// DARC falls back to the behaviour of c-FCFS).
///
/// The answers come from the splitmix64 generator, so that a seed gives one sequence. Net workers that
/// share the classifier share the sequence through an atomic counter.
#[derive(Debug)]
pub struct RandomClassifier {
    types: TypeTable,
    seed: u64,
    classified: AtomicU64,
}

impl RandomClassifier {
    /// A classifier that answers one of `types`, or `UNKNOWN` when `types` is empty.
    #[must_use]
    pub fn new(types: TypeTable, seed: u64) -> Self {
        Self { types, seed, classified: AtomicU64::new(0) }
    }
}

impl<H> Classifier<H> for RandomClassifier {
    #[inline]
    fn classify(&self, _request: &[u8], _head: &H) -> RequestType {
        let position = self.classified.fetch_add(1, Ordering::Relaxed);
        let random = splitmix64(self.seed, position);
        // Multiply and shift: uniform up to len / 2^64, without a division.
        let index = (u128::from(random) * self.types.len() as u128) >> 64;
        match u32::try_from(index) {
            Ok(index) if !self.types.is_empty() => RequestType::new(index),
            _ => RequestType::UNKNOWN,
        }
    }

    fn types(&self) -> TypeTable {
        self.types.clone()
    }
}

/// The output at `position` of the splitmix64 generator (Steele, Lea, Flood: Fast splittable
/// pseudorandom number generators, OOPSLA 2014).
fn splitmix64(seed: u64, position: u64) -> u64 {
    const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;
    let state = seed.wrapping_add(GAMMA.wrapping_mul(position.wrapping_add(1)));
    let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use psp_server::TypeSpec;

    use super::*;

    fn answers(names: &[&str], seed: u64, count: usize) -> Vec<RequestType> {
        let types = names.iter().copied().map(TypeSpec::new).collect();
        let classifier = RandomClassifier::new(types, seed);
        (0..count).map(|_| classifier.classify(b"same", &())).collect()
    }

    #[test]
    fn the_generator_is_splitmix64() {
        // The published first outputs for seed 1234567.
        let outputs = [0, 1].map(|position| splitmix64(1_234_567, position));
        assert_eq!(outputs, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
    }

    #[test]
    fn types_are_equally_frequent() {
        let answers = answers(&["a", "b", "c"], 42, 30_000);
        for index in 0..3 {
            let count = answers.iter().filter(|answer| **answer == RequestType::new(index)).count();
            // Six standard deviations of the binomial distribution are 490.
            assert!(count.abs_diff(10_000) < 490, "{index}: {count}");
        }
    }

    #[test]
    fn a_seed_gives_one_sequence() {
        let types = ["a", "b", "c", "d"];
        assert_eq!(answers(&types, 1, 100), answers(&types, 1, 100));
        assert_ne!(answers(&types, 1, 100), answers(&types, 2, 100));
    }

    #[test]
    fn without_types_every_request_is_unknown() {
        assert_eq!(answers(&[], 1, 3), [RequestType::UNKNOWN; 3]);
    }
}
