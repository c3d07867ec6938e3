//! Inline commands: words on a line, with the quoting rules of Redis.
//!
//! Words are separated by white space. `"..."` may hold the escapes `\xHH`, `\n`, `\r`, `\t`, `\b`
//! and `\a`; a backslash before any other byte stands for that byte. `'...'` has the single escape
//! `\'`. A closing quote ends its word: a space or the end of the line must follow.

use super::violation::Violation;

/// A word of an inline command, as a range of its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) start: usize,
    pub(super) end: usize,
    /// Whether the word must go through [`unescape`]. Another word stands for itself. Its quotes, if it
    /// had any, are outside of the range.
    pub(super) escaped: bool,
}

/// The words of a line, which may still carry its line end.
#[derive(Debug, Clone)]
pub(super) struct Words<'a> {
    line: &'a [u8],
    /// Where the next word is looked for.
    offset: usize,
}

impl<'a> Words<'a> {
    #[inline]
    pub(super) fn new(line: &'a [u8]) -> Self {
        Self { line, offset: 0 }
    }

    /// The words after one that ends at `end`, without its quotes if it is not escaped.
    pub(super) fn after(line: &'a [u8], end: usize) -> Self {
        // No word that stands for itself has a quote behind it but the one that closes it.
        let quoted = matches!(line.get(end), Some(b'"' | b'\''));
        let offset = end + usize::from(quoted);
        Self { line, offset }
    }
}

impl Iterator for Words<'_> {
    type Item = Result<Word, Violation>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.line.get(self.offset..)?;
        let start = self.offset + rest.iter().position(|&byte| !is_space(byte))?;
        let from_word = &self.line[start..];
        let mut text_len = 0;
        let word_len = match scan_word(from_word, |_| text_len += 1) {
            Ok(len) => len,
            Err(violation) => {
                self.offset = self.line.len();
                return Some(Err(violation));
            }
        };
        let end = start + word_len;
        self.offset = end;
        let quoted = matches!(from_word, [b'"' | b'\'', ..]);
        let in_quotes = quoted && text_len + 2 == word_len;
        let quote_len = usize::from(in_quotes);
        Some(Ok(Word {
            start: start + quote_len,
            end: end - quote_len,
            escaped: text_len != word_len && !in_quotes,
        }))
    }
}

/// Gives `emit` the bytes that an [escaped](Word::escaped) word stands for.
pub(super) fn unescape(word: &[u8], emit: impl FnMut(u8)) {
    // The word was scanned before, so it is well formed.
    let _ = scan_word(word, emit);
}

/// The words of a line, which may carry its line end; `None` if its quotes are unbalanced. Lines of `redis.conf` follow
/// the same rules.
#[must_use]
pub fn split_words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let words = Words::new(line).map(|word| {
        let Word { start, end, escaped } = word.ok()?;
        let text = &line[start..end];
        if !escaped {
            return Some(text.to_vec());
        }
        let mut plain = Vec::with_capacity(text.len());
        unescape(text, |byte| plain.push(byte));
        Some(plain)
    });
    words.collect()
}

/// White space between words, as C's `isspace`.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// Reads the word at the start of `input`, passes the bytes that it stands for to `emit`, and returns
/// the length of the word as written.
fn scan_word(input: &[u8], mut emit: impl FnMut(u8)) -> Result<usize, Violation> {
    let mut index = 0;
    while let Some(&byte) = input.get(index) {
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' => break,
            b'"' | b'\'' => {
                index += 1 + scan_quoted(&input[index + 1..], byte, emit)?;
                return match input.get(index) {
                    Some(&after) if !is_space(after) => Err(Violation::UnbalancedQuotes),
                    _ => Ok(index),
                };
            }
            _ => emit(byte),
        }
        index += 1;
    }
    Ok(index)
}

/// Reads up to and including the closing `quote`; returns the number of bytes read.
fn scan_quoted(input: &[u8], quote: u8, mut emit: impl FnMut(u8)) -> Result<usize, Violation> {
    let mut index = 0;
    loop {
        let (byte, len) = match (quote, &input[index..]) {
            (_, []) => return Err(Violation::UnbalancedQuotes),
            (_, [byte, ..]) if *byte == quote => return Ok(index + 1),
            (b'"', [b'\\', b'x', high, low, ..]) if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                (hex_value(*high) << 4 | hex_value(*low), 4)
            }
            (b'"', [b'\\', escaped, ..]) => (escape_value(*escaped), 2),
            (b'\'', [b'\\', b'\'', ..]) => (b'\'', 2),
            (_, [byte, ..]) => (*byte, 1),
        };
        emit(byte);
        index += len;
    }
}

fn escape_value(escaped: u8) -> u8 {
    match escaped {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 0x08,
        b'a' => 0x07,
        other => other,
    }
}

fn hex_value(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_follow_the_quoting_rules_of_redis() {
        let cases: [(&str, &[&[u8]]); 10] = [
            ("", &[]),
            (" \t\r\n", &[]),
            ("PING\r\n", &[b"PING"]),
            ("  set  key\tvalue \n", &[b"set", b"key", b"value"]),
            (r#"echo "a b" 'c d'"#, &[b"echo", b"a b", b"c d"]),
            (r#""\x41\xfF\n\r\t\b\a\q\"""#, &[b"A\xff\n\r\t\x08\x07q\""]),
            (r#""\xzz""#, &[b"xzz"]),
            (r"'it\'s' '\n'", &[b"it's", br"\n"]),
            (r#"foo"bar" "" ''"#, &[b"foobar", b"", b""]),
            ("a\u{b}b", &[b"a\x0bb"]),
        ];
        for (line, words) in cases {
            assert_eq!(
                split_words(line.as_bytes()).as_deref(),
                Some(&words.iter().map(|word| word.to_vec()).collect::<Vec<_>>()[..]),
                "{line:?}"
            );
        }
    }

    #[test]
    fn unbalanced_quotes_are_refused() {
        for line in [r#"""#, r#""a"#, "'a", r#""a"b"#, "'a'b", r#""a\"#, r#""a\""#, "a 'b\r\n"] {
            assert_eq!(split_words(line.as_bytes()), None, "{line:?}");
            let last = Words::new(line.as_bytes()).last();
            assert_eq!(last, Some(Err(Violation::UnbalancedQuotes)), "{line:?}");
        }
    }

    #[test]
    fn quotes_without_escapes_need_no_copy() {
        let line = br#"a "b c" "\x41" '' d"#;
        let places: Vec<_> = Words::new(line).collect();
        let word = |start, end, escaped| Ok(Word { start, end, escaped });
        let expected = [
            word(0, 1, false),
            word(3, 6, false),
            word(8, 14, true),
            word(16, 16, false),
            word(18, 19, false),
        ];
        assert_eq!(places, expected);
        for (index, place) in expected.iter().enumerate() {
            let end = place.expect("a word").end;
            let after: Vec<_> = Words::after(line, end).collect();
            assert_eq!(after, expected[index + 1..]);
        }
    }
}
