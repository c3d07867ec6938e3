//! The Internet checksum (RFC 1071): the one's complement of a one's complement sum of 16-bit words.

/// A sum that is not folded yet. Words may be added in any order. Only the last slice may have an odd
/// length.
///
/// The words are in the machine's byte order: the bytes of the checksum are the same in either order
/// (RFC 1071, 2(B)).
#[derive(Debug, Clone, Copy, Default)]
pub struct Sum(u64);

impl Sum {
    /// Adds `bytes`. An odd last byte is the high half of a word.
    #[inline]
    #[must_use]
    pub fn bytes(self, bytes: &[u8]) -> Self {
        // Wider words give the same sum after folding (RFC 1071, 2(C)).
        let (words, rest) = bytes.as_chunks::<8>();
        let sum = words.iter().fold(self, |sum, word| sum.add(u64::from_ne_bytes(*word)));
        let (words, rest) = rest.as_chunks::<4>();
        let sum = words.iter().fold(sum, |sum, word| sum.add(u64::from(u32::from_ne_bytes(*word))));
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

    /// Adds with an end-around carry: a carry out of the 64 bits is added to the lowest bit.
    #[inline]
    fn add(self, words: u64) -> Self {
        let (sum, carry) = self.0.overflowing_add(words);
        Self(sum + u64::from(carry))
    }

    /// The sum in 16 bits, without complement. A port that computes checksums expects this sum of the
    /// pseudo header in the checksum field.
    #[inline]
    #[must_use]
    pub fn folded(self) -> u16 {
        let fold = |sum: u64, bits: u32| (sum >> bits) + (sum & ((1 << bits) - 1));
        // From 64 bits to 33, 18, 17 and 16: each fold may leave a carry.
        let sum = fold(fold(fold(fold(self.0, 32), 16), 16), 16);
        u16::from_be(sum as u16)
    }

    /// The checksum of the added bytes. It is 0 if they contain their own correct checksum.
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
        fn wide_words_have_the_same_sum_as_narrow_words(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let narrow = bytes.chunks(2).fold(Sum::default(), |sum, word| {
                sum.word(u16::from_be_bytes([word[0], word.get(1).copied().unwrap_or(0)]))
            });
            prop_assert_eq!(Sum::default().bytes(&bytes).folded(), narrow.folded());
        }

        #[test]
        fn bytes_with_their_checksum_have_the_checksum_0(mut bytes in prop::collection::vec(any::<u8>(), 2..100)) {
            bytes[..2].fill(0);
            let checksum = Sum::default().bytes(&bytes).checksum();
            bytes[..2].copy_from_slice(&checksum.to_be_bytes());
            prop_assert_eq!(Sum::default().bytes(&bytes).checksum(), 0);
        }
    }
}
