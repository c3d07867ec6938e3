//! The Internet checksum (RFC 1071): the one's complement of a one's complement sum of 16-bit words.

/// A sum that is not folded yet. Words may be added in any order; only the last slice may have an odd
/// length.
///
/// It is that of words in the machine's order: the checksum's bytes are the same in either (RFC 1071, 2(B)).
#[derive(Debug, Clone, Copy, Default)]
pub struct Sum(u64);

impl Sum {
    /// Adds `bytes`; an odd last one is the high half of a word.
    #[inline]
    #[must_use]
    pub fn bytes(self, bytes: &[u8]) -> Self {
        // The sum does not depend on the width of its words, but for folding (RFC 1071, 2(C)).
        let (words, rest) = bytes.as_chunks::<8>();
        let sum = words
            .iter()
            .fold(self, |sum, word| sum.add(u64::from_ne_bytes(*word)));
        let (words, rest) = rest.as_chunks::<4>();
        let sum = words.iter().fold(sum, |sum, word| {
            sum.add(u64::from(u32::from_ne_bytes(*word)))
        });
        let mut last = [0; 4];
        for (to, from) in last.iter_mut().zip(rest) {
            *to = *from;
        }
        sum.add(u64::from(u32::from_ne_bytes(last)))
    }

    /// Adds one word.
    #[inline]
    #[must_use]
    pub fn word(self, word: u16) -> Self {
        self.add(u64::from(word.to_be()))
    }

    /// What does not fit into 64 bits comes round to the lowest.
    #[inline]
    fn add(self, words: u64) -> Self {
        let (sum, carry) = self.0.overflowing_add(words);
        Self(sum + u64::from(carry))
    }

    /// The sum in 16 bits, without complement: what a port that computes checksums finds in their
    /// place for the pseudo header.
    #[inline]
    #[must_use]
    pub fn folded(self) -> u16 {
        let fold = |sum: u64, bits: u32| (sum >> bits) + (sum & ((1 << bits) - 1));
        // 64 bits, 33, 18, 17 and 16: each time a carry may be left.
        let sum = fold(fold(fold(fold(self.0, 32), 16), 16), 16);
        u16::from_be(sum as u16)
    }

    /// The checksum of what was added. Over bytes that contain their own right checksum it is 0.
    #[inline]
    #[must_use]
    pub fn checksum(self) -> u16 {
        !self.folded()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_example_of_the_rfc() {
        // RFC 1071, section 3.
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(Sum::default().bytes(&bytes).folded(), 0xddf2);
        assert_eq!(Sum::default().bytes(&bytes).checksum(), !0xddf2);
    }

    proptest! {
        #[test]
        fn wide_words_have_the_sum_of_narrow_ones(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let narrow = bytes.chunks(2).fold(Sum::default(), |sum, word| {
                sum.word(u16::from_be_bytes([word[0], word.get(1).copied().unwrap_or(0)]))
            });
            prop_assert_eq!(Sum::default().bytes(&bytes).folded(), narrow.folded());
        }

        #[test]
        fn bytes_with_their_checksum_sum_to_nothing(mut bytes in prop::collection::vec(any::<u8>(), 2..100)) {
            bytes[..2].fill(0);
            let checksum = Sum::default().bytes(&bytes).checksum();
            bytes[..2].copy_from_slice(&checksum.to_be_bytes());
            prop_assert_eq!(Sum::default().bytes(&bytes).checksum(), 0);
        }
    }
}
