//! Numbers in command lines.

use std::str::FromStr;

/// Parses a decimal number, which may have a sign and leading zeros.
///
/// Refuses numbers out of range, while memcached 1.6 wraps numbers beyond 32 bits.
#[inline]
pub(crate) fn parse_number<T: FromStr>(word: &[u8]) -> Option<T> {
    str::from_utf8(word).ok()?.parse().ok()
}
