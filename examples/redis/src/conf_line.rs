//! Lines as `redis.conf` has them, and the manifest of an append-only file.

use std::fmt::Write as _;

use anyhow::Context as _;
use psp_protocols::resp::split_words;

/// The words of a line; `None` if it has none.
///
/// # Errors
/// Its quotes are unbalanced, or it is not UTF-8.
pub(crate) fn words_of(line: &[u8]) -> anyhow::Result<Option<Vec<String>>> {
    let line = line.trim_ascii();
    if line.is_empty() || line.starts_with(b"#") {
        return Ok(None);
    }
    let words = split_words(line).context("unbalanced quotes")?;
    let words = words.into_iter().map(String::from_utf8).collect::<Result<_, _>>();
    Ok(Some(words.context("not UTF-8")?))
}

/// A value as one word of a line.
pub(crate) fn quoted(value: &str) -> String {
    let is_plain = |char: char| char.is_ascii_graphic() && !matches!(char, '"' | '\'' | '\\' | '#');
    if !value.is_empty() && value.chars().all(is_plain) {
        return value.to_owned();
    }
    let mut text = String::from("\"");
    for byte in value.bytes() {
        let _infallible = match byte {
            b'"' | b'\\' => write!(text, "\\{}", char::from(byte)),
            b' '..=b'~' => write!(text, "{}", char::from(byte)),
            _ => write!(text, "\\x{byte:02x}"),
        };
    }
    text + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_words_read_back_the_same() {
        for value in ["", "a", "a b", "\"'\\", "# no", "\u{e9}\n"] {
            let words = words_of(format!("x {}", quoted(value)).as_bytes()).unwrap().unwrap();
            assert_eq!(words, ["x", value]);
        }
        assert_eq!((quoted("plain-1"), quoted("a b")), ("plain-1".into(), "\"a b\"".into()));
    }
}
