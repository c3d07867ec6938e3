//! Inline commands: words on a line, with the quoting rules of Redis.
//!
//! Words are separated by white space. `"..."` may hold the escapes `\xHH`, `\n`, `\r`, `\t`, `\b`
//! and `\a`, a backslash before any other byte stands for that byte; `'...'` knows `\'` alone. A
//! closing quote ends its word: a space or the end of the line must follow.

use super::violation::Violation;

/// A word of an inline command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Word<'a> {
    /// Stands for itself; quotes without escapes are already taken off.
    Plain(&'a [u8]),
    /// Must go through [`unescape`].
    Escaped(&'a [u8]),
}

/// The words of a line, which may still carry its line end.
#[derive(Debug, Clone)]
pub(super) struct Words<'a> {
    rest: &'a [u8],
}

impl<'a> Words<'a> {
    pub(super) fn new(line: &'a [u8]) -> Self {
        Self { rest: line }
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = Result<Word<'a>, Violation>;

    fn next(&mut self) -> Option<Self::Item> {
        let start = self.rest.iter().position(|&byte| !is_space(byte))?;
        let from_word = &self.rest[start..];
        let mut text_len = 0;
        let word_len = match scan_word(from_word, |_| text_len += 1) {
            Ok(len) => len,
            Err(violation) => {
                self.rest = &[];
                return Some(Err(violation));
            }
        };
        let (word, rest) = from_word.split_at(word_len);
        self.rest = rest;
        let quoted = matches!(word, [b'"' | b'\'', ..]);
        Some(Ok(if text_len == word_len {
            Word::Plain(word)
        } else if quoted && text_len + 2 == word_len {
            Word::Plain(&word[1..word_len - 1])
        } else {
            Word::Escaped(word)
        }))
    }
}

/// Whether all words of `line` are well formed.
pub(super) fn check(line: &[u8]) -> Result<(), Violation> {
    if memchr::memchr2(b'"', b'\'', line).is_none() {
        return Ok(());
    }
    Words::new(line).try_for_each(|word| word.map(drop))
}

/// Appends to `out` what an [`Word::Escaped`] stands for.
pub(super) fn unescape(word: &[u8], out: &mut Vec<u8>) {
    // The word was scanned before, so it is well formed.
    let _ = scan_word(word, |byte| out.push(byte));
}

/// White space between words, as C's `isspace`.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// Reads the word at the start of `input`, gives the bytes it stands for to `emit` and returns how
/// many bytes it takes.
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

/// Reads up to and including the closing `quote`; returns how many bytes that takes.
fn scan_quoted(input: &[u8], quote: u8, mut emit: impl FnMut(u8)) -> Result<usize, Violation> {
    let mut index = 0;
    loop {
        let (byte, len) = match (quote, &input[index..]) {
            (_, []) => return Err(Violation::UnbalancedQuotes),
            (_, [byte, ..]) if *byte == quote => return Ok(index + 1),
            (b'"', [b'\\', b'x', high, low, ..])
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
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

    fn split(line: &str) -> Option<Vec<Vec<u8>>> {
        Words::new(line.as_bytes())
            .map(|word| {
                word.ok().map(|word| match word {
                    Word::Plain(text) => text.to_vec(),
                    Word::Escaped(text) => {
                        let mut out = Vec::new();
                        unescape(text, &mut out);
                        out
                    }
                })
            })
            .collect()
    }

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
                split(line).as_deref(),
                Some(&words.iter().map(|word| word.to_vec()).collect::<Vec<_>>()[..]),
                "{line:?}"
            );
        }
    }

    #[test]
    fn unbalanced_quotes_are_refused() {
        for line in [
            r#"""#, r#""a"#, "'a", r#""a"b"#, "'a'b", r#""a\"#, r#""a\""#, "a 'b\r\n",
        ] {
            assert_eq!(split(line), None, "{line:?}");
            assert_eq!(check(line.as_bytes()), Err(Violation::UnbalancedQuotes));
        }
    }

    #[test]
    fn quotes_without_escapes_need_no_copy() {
        let words: Vec<_> = Words::new(br#"a "b c" "\x41""#).collect();
        assert_eq!(
            words,
            [
                Ok(Word::Plain(b"a")),
                Ok(Word::Plain(b"b c")),
                Ok(Word::Escaped(br#""\x41""#)),
            ]
        );
    }
}
