//! IDs of entries in arguments and replies.

use std::io::Write;
use std::ops::RangeInclusive;

use psp_protocols::Sink;
use psp_protocols::resp::Encoder;
use psp_store::StreamId;

use crate::error::CommandError;
use crate::parse::Result;

/// Longest text of an ID in an argument.
const TEXT_LEN_MAX: usize = 127;
/// Longest text of an ID in a reply: two numbers of 20 digits.
const REPLY_LEN_MAX: usize = 41;

const INVALID: CommandError = CommandError::line("ERR Invalid stream ID specified as stream command argument");

/// One number of an ID. Redis reads it as C does.
fn number(text: &[u8]) -> Result<u64> {
    let text = std::str::from_utf8(text.trim_ascii_start()).map_err(|_binary| INVALID)?;
    text.parse().map_err(|_text| INVALID)
}

/// An ID in the form `ms-seq`. Without the second number, it is `missing_seq`.
///
/// # Errors
/// It has another form.
pub(super) fn strict(arg: &[u8], missing_seq: u64) -> Result<StreamId> {
    match with_any_seq(arg, missing_seq)? {
        (id, false) => Ok(id),
        (_, true) => Err(INVALID),
    }
}

/// The text of an ID.
pub(super) fn text(id: StreamId) -> String {
    format!("{}-{}", id.ms, id.seq)
}

/// Like [`strict`], and whether the second number is `*`.
pub(super) fn with_any_seq(arg: &[u8], missing_seq: u64) -> Result<(StreamId, bool)> {
    if arg.len() > TEXT_LEN_MAX {
        return Err(INVALID);
    }
    let Some(dash) = memchr::memchr(b'-', arg) else {
        let ms = number(arg)?;
        return Ok((StreamId { ms, seq: missing_seq }, false));
    };
    let ms = number(&arg[..dash])?;
    match &arg[dash + 1..] {
        b"*" => Ok((StreamId { ms, seq: 0 }, true)),
        seq => Ok((StreamId { ms, seq: number(seq)? }, false)),
    }
}

/// Like [`strict`], or `-` or `+` for the lowest and the highest ID.
pub(super) fn any(arg: &[u8], missing_seq: u64) -> Result<StreamId> {
    match arg {
        b"-" => Ok(StreamId::MIN),
        b"+" => Ok(StreamId::MAX),
        _ => strict(arg, missing_seq),
    }
}

/// The lower end of a range, which `(` excludes.
pub(super) fn start(arg: &[u8]) -> Result<StreamId> {
    const NONE: CommandError = CommandError::line("ERR invalid start ID for the interval");
    match arg {
        [b'(', id @ ..] if !id.is_empty() => strict(id, 0)?.next().ok_or(NONE),
        id => any(id, 0),
    }
}

/// The upper end of a range, which `(` excludes.
pub(super) fn end(arg: &[u8]) -> Result<StreamId> {
    const NONE: CommandError = CommandError::line("ERR invalid end ID for the interval");
    match arg {
        [b'(', id @ ..] if !id.is_empty() => strict(id, u64::MAX)?.previous().ok_or(NONE),
        id => any(id, u64::MAX),
    }
}

/// The IDs above `id`; an empty range if there are none.
pub(super) fn above(id: StreamId) -> RangeInclusive<StreamId> {
    match id.next() {
        Some(next) => next..=StreamId::MAX,
        None => StreamId::MAX..=StreamId::MIN,
    }
}

/// An ID as a bulk string.
pub(super) fn write<S: Sink + ?Sized>(out: &mut Encoder<'_, S>, id: StreamId) {
    let mut text = [0; REPLY_LEN_MAX];
    let mut rest = &mut text[..];
    // The longest ID fits.
    let _ = write!(rest, "{id}");
    let len = REPLY_LEN_MAX - rest.len();
    out.bulk(&text[..len]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(ms: u64, seq: u64) -> StreamId {
        StreamId { ms, seq }
    }

    #[test]
    fn ids_have_one_number_or_two() {
        assert_eq!(strict(b"5", 7), Ok(id(5, 7)));
        assert_eq!(strict(b"5-3", 7), Ok(id(5, 3)));
        assert_eq!(strict(b"18446744073709551615-18446744073709551615", 0), Ok(StreamId::MAX));
        assert_eq!(with_any_seq(b"5-*", 0), Ok((id(5, 0), true)));
        let long = "0".repeat(200);
        for bad in [
            "",
            "-",
            "+",
            "x",
            "5-",
            "-5",
            "5-*",
            "5-x",
            "1-2-3",
            "-1-2",
            "18446744073709551616",
            &long,
        ] {
            assert_eq!(strict(bad.as_bytes(), 0), Err(INVALID), "{bad}");
        }
    }

    #[test]
    fn ranges_have_open_and_closed_ends() {
        assert_eq!((start(b"-"), end(b"+")), (Ok(StreamId::MIN), Ok(StreamId::MAX)));
        assert_eq!((start(b"5"), end(b"5")), (Ok(id(5, 0)), Ok(id(5, u64::MAX))));
        assert_eq!((start(b"(5-1"), end(b"(5-1")), (Ok(id(5, 2)), Ok(id(5, 0))));
        assert_eq!((start(b"(5"), end(b"(5")), (Ok(id(5, 1)), Ok(id(5, u64::MAX - 1))));
        for bad in ["(", "(-", "(+"] {
            assert_eq!(start(bad.as_bytes()), Err(INVALID), "{bad}");
        }
        assert!(end(b"(0-0").unwrap_err().to_string().contains("invalid end ID"));
        let last = b"(18446744073709551615-18446744073709551615";
        assert!(start(last).unwrap_err().to_string().contains("invalid start ID"));
    }

    #[test]
    fn an_id_is_written_whole() {
        let mut text = Vec::new();
        write(&mut Encoder::new(&mut text, psp_protocols::resp::Version::Resp2), StreamId::MAX);
        assert_eq!(text, b"$41\r\n18446744073709551615-18446744073709551615\r\n");
    }
}
