//! The name of a script: the SHA-1 of its body.

use std::fmt;

use sha1::{Digest as _, Sha1};

/// Hexadecimal digits of a digest.
const DIGITS: usize = 40;

/// The SHA-1 of a script's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest([u8; DIGITS / 2]);

impl Digest {
    /// The digest of `body`.
    #[must_use]
    pub fn of(body: &[u8]) -> Self {
        Self(Sha1::digest(body).into())
    }

    /// The digest with these 40 hexadecimal digits of either case.
    #[must_use]
    pub fn parse(digits: &[u8]) -> Option<Self> {
        if digits.len() != DIGITS {
            return None;
        }
        let mut bytes = [0; DIGITS / 2];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = value_of(pair[0])? << 4 | value_of(pair[1])?;
        }
        Some(Self(bytes))
    }

    /// Its bytes.
    #[must_use]
    pub const fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Eight of its bytes as a number.
    #[must_use]
    pub fn number(&self) -> u64 {
        let [first, ..] = self.0.as_chunks::<8>().0 else {
            return 0;
        };
        u64::from_le_bytes(*first)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

fn value_of(digit: u8) -> Option<u8> {
    let value = char::from(digit).to_digit(16)?;
    u8::try_from(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_read_as_they_are_written() {
        let digest = Digest::of(b"return 1");
        let text = digest.to_string();
        assert_eq!(text, "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
        assert_eq!(Digest::parse(text.as_bytes()), Some(digest));
        assert_eq!(Digest::parse(text.to_uppercase().as_bytes()), Some(digest));
        for wrong in ["", "e0e1", &"g".repeat(40), &"a".repeat(41)] {
            assert_eq!(Digest::parse(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
