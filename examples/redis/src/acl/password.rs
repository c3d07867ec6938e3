//! Passwords: the server keeps their SHA-256 alone.

use std::fmt;

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use super::rule_error::RuleError;

/// Bytes of a SHA-256.
const BYTES: usize = 32;

/// The SHA-256 of a password.
#[derive(Clone, Copy)]
pub(crate) struct PasswordHash([u8; BYTES]);

impl PasswordHash {
    /// The hash of a password.
    pub(crate) fn of(password: &[u8]) -> Self {
        Self(Sha256::digest(password).into())
    }

    /// The hash with these 64 hexadecimal digits in lower case.
    ///
    /// # Errors
    /// [`RuleError::WrongHash`].
    pub(crate) fn parse(digits: &[u8]) -> Result<Self, RuleError> {
        let value_of = |digit: u8| match digit {
            b'0'..=b'9' => Some(digit - b'0'),
            b'a'..=b'f' => Some(digit - b'a' + 10),
            _ => None,
        };
        let (pairs, rest) = digits.as_chunks::<2>();
        let bytes = pairs.iter().map(|[high, low]| Some(value_of(*high)? << 4 | value_of(*low)?));
        let bytes: Option<Vec<u8>> = bytes.collect();
        let bytes = bytes.filter(|_| rest.is_empty());
        let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self).ok_or(RuleError::WrongHash)
    }
}

/// Takes the same time whatever the hashes are.
impl PartialEq for PasswordHash {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for PasswordHash {}

/// The hexadecimal digits.
impl fmt::Display for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordHash(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGITS: &str = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";

    #[test]
    fn hashes_are_those_of_redis() {
        let hash = PasswordHash::of(b"secret");
        assert_eq!(hash.to_string(), DIGITS);
        assert_eq!(PasswordHash::parse(DIGITS.as_bytes()), Ok(hash));
        assert_ne!(hash, PasswordHash::of(b"Secret"));
    }

    #[test]
    fn hashes_have_64_digits_in_lower_case() {
        for wrong in [
            "",
            &DIGITS[1..],
            &format!("{DIGITS}0"),
            &format!("{DIGITS}00"),
            &DIGITS.to_uppercase(),
            &DIGITS.replace('b', "g"),
        ] {
            let parsed = PasswordHash::parse(wrong.as_bytes());
            assert_eq!(parsed, Err(RuleError::WrongHash), "{wrong}");
        }
    }
}
