//! Numbers in command lines.

use std::str::FromStr;

/// Parses a decimal number, which may have a sign and leading zeros.
///
/// Unlike memcached 1.6, which wraps what exceeds 32 bits, numbers out of range are refused.
#[inline]
pub(crate) fn parse_number<T: FromStr>(word: &[u8]) -> Option<T> {
    str::from_utf8(word).ok()?.parse().ok()
}
