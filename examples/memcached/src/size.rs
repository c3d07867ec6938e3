//! Sizes with a unit, in the form of memcached's `-I`.

/// Parses a number of bytes, optionally followed by `k` or `m`.
///
/// # Errors
/// `text` has another form, or the size is too large.
pub fn parse_bytes(text: &str) -> Result<usize, String> {
    let (digits, unit) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 1 << 10),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 1 << 20),
        _ => (text, 1),
    };
    let number: usize = digits.parse().map_err(|_| format!("`{text}` is not a size such as 4096, 512k or 2m"))?;
    number.checked_mul(unit).ok_or_else(|| format!("`{text}` is too large"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_kibi_and_mebi() {
        assert_eq!(parse_bytes("4096"), Ok(4096));
        assert_eq!(parse_bytes("512k"), Ok(512 << 10));
        assert_eq!(parse_bytes("2M"), Ok(2 << 20));
        for wrong in ["", "m", "1g", "-1", "1.5m", "99999999999999999999", "99999999999999m"] {
            assert!(parse_bytes(wrong).is_err(), "{wrong}");
        }
    }
}
