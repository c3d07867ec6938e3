//! Integers as Redis reads them.

/// Parses a decimal integer as strictly as Redis does: an optional `-`, no `+`, no leading zeros,
/// no spaces, in the range of `i64`.
#[must_use]
pub fn parse_integer(text: &[u8]) -> Option<i64> {
    if !is_number_prefix(text) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Whether `text` is, or can be continued to, a number that [`parse_integer`] accepts. Ignores the
/// range.
pub(super) fn is_number_prefix(text: &[u8]) -> bool {
    match text {
        [] | [b'-'] | [b'0'] => true,
        [b'-', b'1'..=b'9', rest @ ..] | [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_as_strict_as_in_redis() {
        for value in [0, 1, -1, 10, -100, i64::MAX, i64::MIN] {
            assert_eq!(parse_integer(value.to_string().as_bytes()), Some(value));
        }
        for text in [
            "",
            "-",
            "-0",
            "00",
            "01",
            "-01",
            "+1",
            " 1",
            "1 ",
            "1.0",
            "0x1",
            "\u{663}",
            "9223372036854775808",
            "-9223372036854775809",
        ] {
            assert_eq!(parse_integer(text.as_bytes()), None, "{text:?}");
        }
    }
}
