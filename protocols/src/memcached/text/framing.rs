//! Where a text or meta request ends.

use crate::framing::{FrameError, Framing, Rejection, Step};
use crate::memcached::item::block_len_max;
use crate::sink::Sink;

use super::encoder::text_line;
use super::error::{BAD_FORMAT_TEXT, ERROR};
use super::line::{Words, split_line};
use super::request::Request;
use super::storage::{Announced, announced};

/// [`Framing`] of the text protocol and the meta commands.
///
/// A frame is a line, or the line and the data block of a storage command. A line may end with LF
/// alone. [`Request::parse`] has the error for these storage commands:
///
/// - The line is malformed, or the item is too large: the frame is the line alone, and
///   [`discard_after`](Framing::discard_after) is the length of the data. In memcached, the data of most
///   malformed lines run as commands.
/// - The line is malformed and has no length: the frame is the line alone, as in memcached.
/// - The data block does not end with CRLF: the frame has the announced length.
///
/// A line that announces 2 GiB or more is an error of the stream, and so is a line of HTTP: a request line,
/// or the field `Host`. A web page can make a browser send HTTP requests, whose bodies would be commands.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TextFraming {
    /// Longest line in bytes, including its line end; 2048 by default, as in memcached.
    pub line_len_max: usize,
    /// Longest line of `get`, `gets`, `gat` and `gats` in bytes; 1 MiB by default. In memcached, only
    /// memory bounds it.
    pub get_line_len_max: usize,
    /// Most words of such a line, including the command; 32 768 by default.
    pub get_words_max: usize,
    /// Longest item in bytes, including key, data and what memcached adds; 1 MiB by default.
    pub item_len_max: usize,
}

impl Default for TextFraming {
    fn default() -> Self {
        Self {
            line_len_max: 2048,
            get_line_len_max: 1 << 20,
            get_words_max: 32 << 10,
            item_len_max: 1 << 20,
        }
    }
}

limits! {
    TextFraming: line_len_max: usize, get_line_len_max: usize, get_words_max: usize, item_len_max: usize,
}

/// How much of an incomplete request has been read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TextCursor {
    /// Number of bytes that are known to hold no line end; 0 once the line is read.
    scanned: usize,
    /// Length of the frame, once its line is read.
    frame_len: usize,
}

const LINE_TOO_LONG: FrameError = FrameError::new("CLIENT_ERROR line too long");
const ENDLESS: FrameError = FrameError::new(BAD_FORMAT_TEXT);
const HTTP: FrameError = FrameError::new("CLIENT_ERROR this is not an HTTP server");
const TOO_MANY_KEYS: FrameError = FrameError::new("CLIENT_ERROR too many keys");

impl Framing for TextFraming {
    type Cursor = TextCursor;
    type Head = ();

    #[inline]
    fn next_frame(&self, cursor: &mut TextCursor, input: &[u8]) -> Result<Step, FrameError> {
        if cursor.frame_len == 0 {
            let Some(line_len) = self.line(cursor.scanned, input)? else {
                cursor.scanned = input.len();
                return Ok(Step::NeedMore { len_min: input.len() + 1 });
            };
            let line = &input[..line_len];
            let block_len = match announced(Words::of_frame(line)) {
                Some(Announced::Item { key_len, block_len }) if self.fits(key_len, block_len) => block_len,
                Some(Announced::Item { .. } | Announced::Refused { .. }) => 0,
                Some(Announced::Endless) => return Err(ENDLESS),
                None if is_http(line) => return Err(HTTP),
                None => 0,
            };
            cursor.frame_len = line_len + block_len;
        }
        let len = cursor.frame_len;
        if input.len() < len {
            return Ok(Step::NeedMore { len_min: len });
        }
        *cursor = TextCursor::default();
        Ok(Step::Frame { len, head: () })
    }

    fn discard_after(&self, frame: &[u8], _head: &()) -> u64 {
        // Only a frame that is a line alone can lack its data.
        if !split_line(frame).1.is_empty() {
            return 0;
        }
        match announced(Words::of_frame(frame)) {
            Some(Announced::Item { key_len, block_len }) if !self.fits(key_len, block_len) => block_len as u64,
            Some(Announced::Refused { block_len }) => block_len as u64,
            _ => 0,
        }
    }

    fn encode_rejection(&self, rejection: &Rejection<'_>, request: &[u8], out: &mut dyn Sink) {
        let noreply = match Request::parse(request) {
            Ok(request) => request.noreply(),
            Err(error) => error.noreply,
        };
        if !noreply {
            encode_rejection(rejection, out);
        }
    }
}

impl TextFraming {
    /// Length of the line at the start of `input`, whose first `scanned` bytes hold no line end.
    fn line(&self, scanned: usize, input: &[u8]) -> Result<Option<usize>, FrameError> {
        let len_max = self.get_line_len_max.max(self.line_len_max);
        let window = &input[..input.len().min(len_max)];
        let line_end = memchr::memchr(b'\n', &window[scanned..]);
        let line_len = line_end.map(|end| scanned + end + 1);
        let seen = line_len.unwrap_or(input.len() + 1);
        if seen <= self.line_len_max {
            return Ok(line_len);
        }
        if seen > self.get_line_len_max || !is_get(&input[..self.line_len_max]) {
            return Err(LINE_TOO_LONG);
        }
        // A word takes at least two bytes: only the words of long lines need counting.
        if let Some(len) = line_len
            && len > self.get_words_max * 2
            && Words::of_frame(&input[..len]).count() > self.get_words_max
        {
            return Err(TOO_MANY_KEYS);
        }
        Ok(line_len)
    }

    fn fits(&self, key_len: usize, block_len: usize) -> bool {
        block_len <= block_len_max(self.item_len_max, key_len)
    }
}

/// Whether a line with this start may have many keys.
fn is_get(line_start: &[u8]) -> bool {
    matches!(Words::new(line_start).next(), Some(b"get" | b"gets" | b"gat" | b"gats"))
}

/// Whether a line that announces no data is one of an HTTP request. As in memcached, any line that is no
/// command and ends with a version of HTTP is one. As in Redis, `POST` and `Host:` alone are enough.
#[inline]
fn is_http(line: &[u8]) -> bool {
    let mut words = Words::of_frame(line);
    let name = words.next().unwrap_or_default();
    let starts_with = |start: &[u8]| name.get(..start.len()).is_some_and(|name| name.eq_ignore_ascii_case(start));
    name.eq_ignore_ascii_case(b"post")
        || starts_with(b"host:")
        || words.last_word().is_some_and(|word| word.starts_with(b"HTTP/")) && Request::parse(line) == Err(ERROR)
}

/// Writes the error line for `rejection`.
fn encode_rejection(rejection: &Rejection<'_>, out: &mut dyn Sink) {
    let mut digits = itoa::Buffer::new();
    let parts: &[&str] = match rejection {
        Rejection::Busy { type_name } => &["SERVER_ERROR busy: the queue of '", type_name, "' is full"],
        Rejection::Overloaded { .. } => &["SERVER_ERROR overloaded"],
        Rejection::HandlerFailed => &["SERVER_ERROR internal error"],
        Rejection::Failed(text) => &["SERVER_ERROR ", text],
        Rejection::ReplyTooLarge { limit_bytes } => {
            &["SERVER_ERROR reply is larger than the limit of ", digits.format(*limit_bytes), " bytes"]
        }
        Rejection::Malformed(error) => &[&error.reason],
        Rejection::TooManyConnections => &["ERROR Too many open connections"],
        Rejection::Refused(reason) => &["SERVER_ERROR ", reason],
        Rejection::OutOfBuffers => &["SERVER_ERROR out of memory reading request"],
        Rejection::ShuttingDown => &["SERVER_ERROR shutting down"],
        Rejection::Expired => &["SERVER_ERROR the request waited too long"],
    };
    text_line(out, parts);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn step_with(framing: &TextFraming, input: &[u8]) -> Result<Step, String> {
        framing.next_frame(&mut TextCursor::default(), input).map_err(|error| error.to_string())
    }

    fn step(input: &[u8]) -> Result<Step, String> {
        step_with(&TextFraming::default(), input)
    }

    #[test]
    fn whole_frames_are_measured() {
        for frame in [
            &b"get k\r\n"[..],
            b"get k\n",
            b"\r\n",
            b"nonsense\r\n",
            b"set k 0 0 3\r\nabc\r\n",
            b"set k 0 0 3 noreply \r\n\r\n\n\r\n",
            b"cas k 0 0 0 1\n\r\n",
            b"ms k 2 T0\r\nab\r\n",
            b"ms k 2 !\r\nab\r\n",
            // A block without CRLF at its end has the announced length, too.
            b"set k 0 0 1\r\nabc",
            // Lines without a length announce no data.
            b"set k 0 0 -1\r\n",
            b"set k 0 0 1x\r\n",
            b"set k 0 0\r\n",
            b"ms k -1\r\n",
            b"ms k\r\n",
            b"mg k 5\r\n",
            // Commands with keys that look like a version of HTTP.
            b"get / HTTP/1.1\r\n",
            b"delete HTTP/1.1\r\n",
            b"mg HTTP/1.1\r\n",
        ] {
            let whole = Ok(Step::Frame { len: frame.len(), head: () });
            assert_eq!(step(frame), whole, "{}", frame.escape_ascii());
            let followed = [frame, b"get k\r\n"].concat();
            assert_eq!(step(&followed), whole, "{}", frame.escape_ascii());
            assert_eq!(TextFraming::default().discard_after(frame, &()), 0);
        }
    }

    /// The limits are those of memcached 1.6.18.
    #[test]
    fn items_that_are_too_large_are_not_buffered() {
        let framing = TextFraming::default();
        let frame = b"set k 0 0 1048516\r\n";
        let len_min = frame.len() + 1_048_516 + 2;
        assert_eq!(step(frame), Ok(Step::NeedMore { len_min }));
        assert_eq!(framing.discard_after(frame, &()), 0);
        for (line, discard) in [
            ("set k 0 0 1048517", 1_048_519),
            ("set kk 0 0 1048516 noreply", 1_048_518),
            ("cas k 0 0 2147483645 1", 2_147_483_647),
            ("ms k 2000000 q", 2_000_002),
        ] {
            let frame = format!("{line}\r\n");
            let whole = Ok(Step::Frame { len: frame.len(), head: () });
            assert_eq!(step(format!("{frame}data").as_bytes()), whole);
            assert_eq!(framing.discard_after(frame.as_bytes(), &()), discard);
        }
    }

    #[test]
    fn data_of_refused_lines_are_dropped() {
        let long = "k".repeat(251);
        let framing = TextFraming::default();
        for (line, discard) in [
            ("set k 4294967296 0 7", 9),
            ("set k -1 0 7 noreply", 9),
            ("set k x 0 7", 9),
            ("append k 0 99999999999999999999 7", 9),
            ("set k 0 0 7 1 2 3", 9),
            ("cas k 0 0 7", 9),
            ("cas k 0 0 +7 x", 9),
            ("set k x 0 2147483645", 2_147_483_647),
            (&format!("add {long} 0 0 7"), 9),
            (&format!("ms {long} 7 T0"), 9),
            (&format!("ms k 0 {}", "c ".repeat(20)), 2),
            ("set k x 0 -1", 0),
            ("set k x 0", 0),
            ("ms k x", 0),
        ] {
            let frame = format!("{line}\r\n");
            let len = frame.len();
            assert_eq!(step(frame.as_bytes()), Ok(Step::Frame { len, head: () }));
            let found = framing.discard_after(frame.as_bytes(), &());
            assert_eq!(found, discard, "{line}");
            assert!(Request::parse(frame.as_bytes()).is_err(), "{line}");
        }
        for line in [
            "set k 0 0 2147483646",
            "set k x 0 2147483646",
            "set k 0 0 99999999999999999999",
            "ms k 2147483646",
        ] {
            let error = Err("CLIENT_ERROR bad command line format".to_owned());
            assert_eq!(step(format!("{line}\r\n").as_bytes()), error, "{line}");
        }
    }

    #[test]
    fn lines_of_http_end_the_stream() {
        for line in [
            "GET / HTTP/1.1",
            "POST /x HTTP/1.0",
            "PRI * HTTP/2.0 ",
            "patch / HTTP/1.1",
            "POST",
            "post /x",
            "Host: localhost:11211",
            "host:localhost",
            "  HOST: a",
        ] {
            let error = Err("CLIENT_ERROR this is not an HTTP server".to_owned());
            assert_eq!(step(format!("{line}\r\n").as_bytes()), error, "{line}");
        }
    }

    #[test]
    fn limits_hold() {
        let framing = TextFraming {
            line_len_max: 10,
            get_line_len_max: 20,
            get_words_max: 7,
            item_len_max: 100,
        };
        let too_long = Err("CLIENT_ERROR line too long".to_owned());
        for (input, expected) in [
            ("touch k 0\n", Ok(Step::Frame { len: 10, head: () })),
            ("touch k 00\n", too_long.clone()),
            ("touch k 00", too_long.clone()),
            ("touch k 0", Ok(Step::NeedMore { len_min: 10 })),
            (" get 3456789012345\n", Ok(Step::Frame { len: 19, head: () })),
            ("get 56789012345678\r\n", Ok(Step::Frame { len: 20, head: () })),
            ("get 567890123456789\r\n", too_long.clone()),
            ("get 5678901234567890", too_long),
            ("gat 1 2 3 4 5 6\n", Ok(Step::Frame { len: 16, head: () })),
            ("gat 1 2 3 4 5 6 7\n", Err("CLIENT_ERROR too many keys".to_owned())),
        ] {
            assert_eq!(step_with(&framing, input.as_bytes()), expected, "{input:?}");
        }
    }

    fn rejected(rejection: &Rejection<'_>, request: &[u8]) -> String {
        let mut out = Vec::new();
        TextFraming::default().encode_rejection(rejection, request, &mut out);
        String::from_utf8(out).expect("error lines are text")
    }

    #[test]
    fn every_rejection_is_one_line() {
        for (rejection, line) in [
            (
                Rejection::Busy { type_name: "scan" },
                "SERVER_ERROR busy: the queue of 'scan' is full\r\n",
            ),
            (
                Rejection::Overloaded { type_name: "scan", retry_after: Duration::ZERO },
                "SERVER_ERROR overloaded\r\n",
            ),
            (Rejection::HandlerFailed, "SERVER_ERROR internal error\r\n"),
            (Rejection::Failed("no disk\r\nSTORED"), "SERVER_ERROR no disk  STORED\r\n"),
            (
                Rejection::ReplyTooLarge { limit_bytes: 512 },
                "SERVER_ERROR reply is larger than the limit of 512 bytes\r\n",
            ),
            (Rejection::Malformed(&LINE_TOO_LONG), "CLIENT_ERROR line too long\r\n"),
            (Rejection::TooManyConnections, "ERROR Too many open connections\r\n"),
            (Rejection::Refused("not from\r\nthere"), "SERVER_ERROR not from  there\r\n"),
            (Rejection::OutOfBuffers, "SERVER_ERROR out of memory reading request\r\n"),
            (Rejection::ShuttingDown, "SERVER_ERROR shutting down\r\n"),
            (Rejection::Expired, "SERVER_ERROR the request waited too long\r\n"),
        ] {
            for request in [&b""[..], b"get k\r\n", b"set k 0 0 1\r\na\r\n"] {
                assert_eq!(rejected(&rejection, request), line);
            }
            for request in [&b"set k 0 0 1 noreply\r\na\r\n"[..], b"quit\r\n"] {
                assert_eq!(rejected(&rejection, request), "");
            }
        }
    }
}
