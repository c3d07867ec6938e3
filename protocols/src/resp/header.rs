//! The lines that announce a count or a length: a marker, a decimal number, CRLF.

use super::number::{is_number_prefix, parse_integer};
use super::violation::Violation;

/// Longest number that is read, in bytes. This is longer than any valid number (20 bytes), so that a
/// number out of range is reported as invalid rather than as too long.
const NUMBER_LEN_MAX: usize = 64;

/// Any number with this many digits is in the range of `i64`.
const DIGITS_WITHOUT_OVERFLOW: usize = 18;

/// Shortest possible element of an array: `$0\r\n\r\n`.
pub(super) const BULK_LEN_MIN: usize = 6;

/// A header line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    /// The number.
    pub(super) value: i64,
    /// Bytes of the line, its marker and CRLF included.
    pub(super) len: usize,
}

/// Why the bytes after a marker are not a number and CRLF.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NumberError {
    /// Not a number, or not in the range of `i64`.
    Invalid,
    /// No CR among the first [`NUMBER_LEN_MAX`] bytes.
    TooLong,
}

/// Reads the header line at the start of `line`. Ignores its first byte, the marker.
///
/// `Ok(None)` when the line is not complete but may become valid. Numbers are as strict as in
/// [`parse_integer`]. The first wrong byte decides the error, so that the error does not depend on
/// how the line arrives in pieces.
#[inline]
pub(super) fn read_header(line: &[u8]) -> Result<Option<Header>, NumberError> {
    // Most counts and many lengths have one digit.
    if let [_, digit @ b'0'..=b'9', b'\r', b'\n', ..] = line {
        return Ok(Some(Header { value: i64::from(digit - b'0'), len: 4 }));
    }
    // The next common case: a whole line with a positive number that cannot overflow.
    if let [_, first @ b'1'..=b'9', digits @ ..] = line {
        let mut value = i64::from(first - b'0');
        for (index, byte) in digits.iter().take(DIGITS_WITHOUT_OVERFLOW - 1).enumerate() {
            match byte {
                b'0'..=b'9' => value = value * 10 + i64::from(byte - b'0'),
                b'\r' if digits.get(index + 1) == Some(&b'\n') => {
                    return Ok(Some(Header { value, len: index + 4 }));
                }
                _ => break,
            }
        }
    }
    read_any_header(line)
}

/// [`read_header`] for any line: incomplete, negative, zero, out of range or invalid.
#[cold]
fn read_any_header(line: &[u8]) -> Result<Option<Header>, NumberError> {
    let window = line.get(1..line.len().min(1 + NUMBER_LEN_MAX));
    let window = window.unwrap_or_default();
    let Some(number_len) = memchr::memchr(b'\r', window) else {
        return match is_number_prefix(window) {
            false => Err(NumberError::Invalid),
            true if window.len() == NUMBER_LEN_MAX => Err(NumberError::TooLong),
            true => Ok(None),
        };
    };
    let value = parse_integer(&window[..number_len]).ok_or(NumberError::Invalid)?;
    match line.get(number_len + 2) {
        None => Ok(None),
        Some(b'\n') => Ok(Some(Header { value, len: number_len + 3 })),
        Some(_) => Err(NumberError::Invalid),
    }
}

/// Reads `*<count>\r\n` at the start of `input`, which begins with `*`.
#[inline]
pub(super) fn multibulk_header(input: &[u8]) -> Result<Option<Header>, Violation> {
    read_header(input).map_err(|error| match error {
        NumberError::Invalid => Violation::MultibulkLength,
        NumberError::TooLong => Violation::MultibulkCountTooLong,
    })
}

/// Reads `$<length>\r\n` at the start of `input`. The length is not negative.
#[inline]
pub(super) fn bulk_header(input: &[u8]) -> Result<Option<Header>, Violation> {
    // Most lengths have one digit or two.
    match *input {
        [b'$', digit @ b'0'..=b'9', b'\r', b'\n', ..] => Ok(Some(Header { value: i64::from(digit - b'0'), len: 4 })),
        [b'$', tens @ b'1'..=b'9', digit @ b'0'..=b'9', b'\r', b'\n', ..] => {
            let value = 10 * i64::from(tens - b'0') + i64::from(digit - b'0');
            Ok(Some(Header { value, len: 5 }))
        }
        _ => any_bulk_header(input),
    }
}

/// [`bulk_header`] for any line.
#[inline(never)]
fn any_bulk_header(input: &[u8]) -> Result<Option<Header>, Violation> {
    match input.first() {
        None => return Ok(None),
        Some(b'$') => {}
        Some(&found) => return Err(Violation::ExpectedBulk { found }),
    }
    match read_header(input) {
        Ok(Some(header)) if header.value < 0 => Err(Violation::BulkLength),
        Ok(header) => Ok(header),
        Err(NumberError::Invalid) => Err(Violation::BulkLength),
        Err(NumberError::TooLong) => Err(Violation::BulkCountTooLong),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complete_lines_are_read() {
        for (line, value, len) in [
            ("*0\r\n", 0, 4),
            ("*7\r\nrest", 7, 4),
            ("*42\r\n", 42, 5),
            ("*123\r\n", 123, 6),
            ("*-1\r\n", -1, 5),
            ("*9223372036854775807\r\n", i64::MAX, 22),
        ] {
            let header = Header { value, len };
            assert_eq!(read_header(line.as_bytes()), Ok(Some(header)), "{line:?}");
        }
    }

    #[test]
    fn incomplete_lines_wait() {
        for line in ["*", "*-", "*1", "*12", "*12\r", "*123\r"] {
            assert_eq!(read_header(line.as_bytes()), Ok(None), "{line:?}");
        }
    }

    #[test]
    fn the_first_wrong_byte_is_enough() {
        for line in [
            "*\r",
            "*-\r",
            "*-0",
            "*01",
            "*+",
            "*1x",
            "*12x",
            "*1\rx",
            "*123\rx",
            "*--",
            "*9223372036854775808\r",
            "*99999999999999999999999\r",
        ] {
            assert_eq!(read_header(line.as_bytes()), Err(NumberError::Invalid), "{line:?}");
        }
    }

    #[test]
    fn an_endless_number_is_too_long() {
        let line = format!("${}", "1".repeat(NUMBER_LEN_MAX));
        assert_eq!(read_header(line.as_bytes()), Err(NumberError::TooLong));
        assert_eq!(read_header(&line.as_bytes()[..NUMBER_LEN_MAX]), Ok(None));
    }
}
