//! The keys and values that replace placeholders of commands.

use std::sync::Arc;

use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;

use super::distribution::{KeyDistribution, KeyDraws};
use super::sizes::Sizes;

/// Most keys.
const KEYS_MAX: u64 = 10_u64.pow(12);

/// Longest key.
const KEY_BYTES_MAX: usize = 1024;

/// Longest key of a distribution without an upper end: the longest that memcached accepts.
const TAIL_KEY_BYTES_MAX: usize = 250;

/// The keys and values that placeholders are drawn from.
#[derive(Debug, Clone)]
pub struct Keyspace {
    keys: u64,
    format: KeyFormat,
    distribution: KeyDistribution,
    value_sizes: Sizes,
    /// As long as the largest value. Every value is a prefix of this one.
    value: Arc<[u8]>,
}

/// The form of keys: a prefix, then the key's number, padded with zeros to the key's length.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyFormat {
    /// The prefix of all keys.
    pub prefix: String,
    /// Bytes of whole keys. The key's number decides its length, so a key always has the same
    /// length. A length too short for the number is made longer.
    pub sizes: Sizes,
}

impl Default for KeyFormat {
    /// `key:%012d`.
    fn default() -> Self {
        Self { prefix: "key:".to_owned(), sizes: Sizes::fixed(16) }
    }
}

/// Why a keyspace cannot exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyspaceError {
    /// No keys, or too many.
    #[error("there are {keys} keys, it must be from 1 to {KEYS_MAX}")]
    Count {
        /// The number of keys.
        keys: u64,
    },
    /// Keys of this length cannot differ.
    #[error("keys of {bytes} bytes are too short: prefix `{prefix}` and {digits} digits take more")]
    Short {
        /// The length.
        bytes: usize,
        /// The prefix.
        prefix: String,
        /// Digits of the last key's number.
        digits: usize,
    },
    /// Keys are too long.
    #[error("keys may have {KEY_BYTES_MAX} bytes")]
    Long,
}

impl Default for Keyspace {
    /// A hundred thousand keys with values of 64 bytes.
    fn default() -> Self {
        Self::new(100_000, 64)
    }
}

impl Keyspace {
    /// `keys` keys like `key:000000000000`, used uniformly, with values of `value_bytes` bytes.
    #[must_use]
    pub fn new(keys: u64, value_bytes: usize) -> Self {
        let keys = keys.clamp(1, KEYS_MAX);
        let uniform = KeyDistribution::Uniform;
        Self::with(keys, KeyFormat::default(), uniform, Sizes::fixed(value_bytes)).expect("twelve digits are enough")
    }

    /// `keys` keys of the form `format`, used as often as `distribution` says, with values of
    /// `value_sizes` printable bytes.
    ///
    /// # Errors
    /// [`KeyspaceError`] when there are no keys, too many, or too many for their length.
    pub fn with(
        keys: u64,
        format: KeyFormat,
        distribution: KeyDistribution,
        value_sizes: Sizes,
    ) -> Result<Self, KeyspaceError> {
        if !(1..=KEYS_MAX).contains(&keys) {
            return Err(KeyspaceError::Count { keys });
        }
        let digits = digits_of(keys - 1);
        let bytes_min = format.prefix.len() + digits;
        let fixed = format.sizes.as_fixed();
        if let Some(bytes) = fixed.filter(|bytes| *bytes < bytes_min) {
            let prefix = format.prefix;
            return Err(KeyspaceError::Short { bytes, prefix, digits });
        }
        if bytes_min.max(fixed.unwrap_or(0)) > KEY_BYTES_MAX {
            return Err(KeyspaceError::Long);
        }
        let letters = (b'a'..=b'z').cycle();
        Ok(Self {
            keys,
            format,
            distribution,
            value: letters.take(value_sizes.bytes_max()).collect(),
            value_sizes,
        })
    }

    /// Number of keys. At least 1.
    #[must_use]
    pub fn keys(&self) -> u64 {
        self.keys
    }

    /// Appends key number `index`.
    pub fn push_key(&self, index: u64, out: &mut Vec<u8>) {
        let digits = digits_of(index);
        let prefix = self.format.prefix.as_bytes();
        let bytes = match self.format.sizes.as_fixed() {
            Some(bytes) => bytes,
            None => {
                let bytes = self.format.sizes.at(unit_of(index, 0));
                let bytes_min = prefix.len() + digits_of(self.keys - 1);
                bytes.min(TAIL_KEY_BYTES_MAX).max(bytes_min)
            }
        };
        out.extend_from_slice(prefix);
        let zeros = bytes.saturating_sub(prefix.len() + digits);
        out.resize(out.len() + zeros, b'0');
        out.extend_from_slice(itoa::Buffer::new().format(index).as_bytes());
    }

    /// The number of a key that does not exist. As many numbers are reserved behind the last key as
    /// there are keys.
    #[must_use]
    pub fn draw_missing(&self, rng: &mut Xoshiro256PlusPlus) -> u64 {
        rng.random_range(self.keys..self.keys * 2)
    }

    /// The first value of key number `index`.
    #[must_use]
    pub fn first_value(&self, index: u64) -> &[u8] {
        &self.value[..self.value_sizes.at(unit_of(index, 1))]
    }

    /// A value of a random size.
    #[must_use]
    pub fn draw_value(&self, rng: &mut Xoshiro256PlusPlus) -> &[u8] {
        let bytes = match self.value_sizes.as_fixed() {
            Some(bytes) => bytes,
            None => self.value_sizes.at(rng.random()),
        };
        &self.value[..bytes]
    }

    /// Draws the numbers of keys as the distribution says, from its beginning.
    #[must_use]
    pub fn draws(&self) -> KeyDraws {
        KeyDraws::new(self.distribution, self.keys)
    }
}

fn digits_of(number: u64) -> usize {
    number.checked_ilog10().unwrap_or(0) as usize + 1
}

/// A number from 0 to 1 that looks random and is always the same for a key. `purpose` separates
/// several such numbers.
fn unit_of(index: u64, purpose: u64) -> f64 {
    // The finalizer of SplitMix64.
    let mut bits = (index * 2 + purpose).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((bits ^ (bits >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::stream_rng;

    fn keyspace(keys: u64, key_bytes: &str, keys_are: &str) -> Result<Keyspace, String> {
        let format = KeyFormat { sizes: key_bytes.parse().unwrap(), ..KeyFormat::default() };
        let distribution = keys_are.parse().unwrap();
        Keyspace::with(keys, format, distribution, "1-100".parse().unwrap()).map_err(|error| error.to_string())
    }

    fn key(keyspace: &Keyspace, index: u64) -> String {
        let mut key = Vec::new();
        keyspace.push_key(index, &mut key);
        String::from_utf8(key).unwrap()
    }

    /// How often each of `keys` keys is drawn.
    fn counts(keys: u64, distribution: &str, draws: usize) -> Vec<f64> {
        let mut source = keyspace(keys, "16", distribution).unwrap().draws();
        let mut rng = stream_rng(3, 0);
        let mut counts = vec![0.0; keys as usize];
        for _ in 0..draws {
            counts[source.draw(&mut rng) as usize] += 1.0;
        }
        counts
    }

    #[test]
    fn keys_are_padded_to_their_length() {
        let keyspace = Keyspace::default();
        assert_eq!(key(&keyspace, 0), "key:000000000000");
        assert_eq!(key(&keyspace, 1_234_567), "key:000001234567");
        let format = KeyFormat { prefix: "user".to_owned(), sizes: Sizes::fixed(6) };
        let uniform = KeyDistribution::Uniform;
        let short = Keyspace::with(100, format, uniform, Sizes::fixed(0)).unwrap();
        assert_eq!(key(&short, 99), "user99");
    }

    #[test]
    fn a_key_keeps_its_length_and_its_first_value() {
        let keyspace = keyspace(1_000, "16@1,21@1", "uniform").unwrap();
        let lengths: Vec<usize> = (0..1_000).map(|it| key(&keyspace, it).len()).collect();
        let again: Vec<usize> = (0..1_000).map(|it| key(&keyspace, it).len()).collect();
        assert_eq!(lengths, again);
        let long = lengths.iter().filter(|length| **length == 21).count();
        assert!((400..600).contains(&long), "{long}");
        assert!(lengths.iter().all(|length| [16, 21].contains(length)));
        let values = (0..1_000).map(|it| keyspace.first_value(it).len());
        let mean = values.sum::<usize>() as f64 / 1e3;
        assert!((mean / 50.5 - 1.0).abs() < 0.1, "{mean}");
    }

    #[test]
    fn keys_of_short_drawn_lengths_stay_distinct() {
        let keyspace = keyspace(2_000, "1-20", "uniform").unwrap();
        let distinct: std::collections::BTreeSet<_> = (0..2_000).map(|index| key(&keyspace, index)).collect();
        assert_eq!(distinct.len(), 2_000);
        assert!(distinct.iter().all(|key| (8..=20).contains(&key.len())));
    }

    #[test]
    fn zipf_falls_with_the_power_of_the_rank() {
        let counts = counts(1_000, "zipf:1", 400_000);
        let harmonic: f64 = (1..=1_000).map(|rank| 1.0 / f64::from(rank)).sum();
        for rank in [1_usize, 2, 10, 100] {
            let expected = 400_000.0 / harmonic / rank as f64;
            let found = counts[rank - 1];
            assert!((found / expected - 1.0).abs() < 0.15, "{rank}: {found}");
        }
    }

    #[test]
    fn sequential_keys_come_in_order_and_again() {
        let mut draws = keyspace(3, "16", "sequential").unwrap().draws();
        let mut rng = stream_rng(3, 0);
        let drawn: Vec<u64> = (0..7).map(|_| draws.draw(&mut rng)).collect();
        assert_eq!(drawn, [0, 1, 2, 0, 1, 2, 0]);
    }

    #[test]
    fn hot_keys_get_their_share() {
        let counts = counts(100, "hot:0.2:0.7", 100_000);
        let hot: f64 = counts[..20].iter().sum();
        assert!((hot / 70_000.0 - 1.0).abs() < 0.02, "{hot}");
        assert!(counts.iter().all(|&count| count > 200.0));
        let of_one = self::counts(1, "hot", 10);
        assert_eq!(of_one, [10.0]);
    }

    #[test]
    fn what_does_not_work_is_refused() {
        for (keys, bytes, reason) in [
            (0, "16", "from 1 to"),
            (10_u64.pow(13), "100", "from 1 to"),
            (101, "6", "prefix `key:` and 3 digits"),
            (1, "2000", "may have 1024"),
        ] {
            let error = keyspace(keys, bytes, "uniform").unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
        for text in ["", "zip", "zipf:-1", "zipf:x", "hot:0.1", "hot:1:1", "hot:0.5:2", "uniform:1"] {
            let error = text.parse::<KeyDistribution>().unwrap_err().to_string();
            assert!(error.contains("zipf[:THETA]"), "{text}: {error}");
        }
        for text in ["uniform", "zipf:0.5", "sequential", "hot:0.2:0.7"] {
            assert_eq!(text.parse::<KeyDistribution>().unwrap().to_string(), text);
        }
    }
}
