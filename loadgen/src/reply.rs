//! Skips RESP replies: finds where each ends and whether it is an error, and keeps nothing of it.
//!
//! A reply of two megabytes passes through the same small read buffer as one of five bytes.

/// Longest line (simple string, error, number, length) in bytes.
const LINE_LEN_MAX: usize = 64 * 1024;

/// Bytes of a line that are kept: all of a number, and the first word of an error.
const LINE_KEPT: usize = 32;

/// What [`ReplySkipper::skip`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Skipped {
    /// A reply ended `len` bytes into the input.
    Reply {
        /// Bytes of the input that belong to it.
        len: usize,
    },
    /// An error reply ended `len` bytes into the input; [`ReplySkipper::error_kind`] names it.
    Error {
        /// Bytes of the input that belong to it.
        len: usize,
    },
    /// The whole input belongs to a reply that goes on.
    NeedMore,
}

/// Bytes that are not a RESP reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the reply is not RESP: {0}")]
pub struct NotResp(&'static str);

/// The place in the reply stream of one connection. Understands RESP2 and RESP3 without streamed
/// aggregates.
#[derive(Debug, Clone)]
pub struct ReplySkipper {
    /// Values until the reply is complete. Nesting need not be remembered: an aggregate adds its
    /// elements, and every value takes one off.
    values_left: u64,
    /// Bytes of a bulk string, its line end included, that are still to come.
    bulk_left: u64,
    line: Line,
    /// Whether the reply's own value is read and further values are inside it.
    inside: bool,
    is_error: bool,
    error: Line,
}

/// The start of a line.
#[derive(Debug, Clone, Copy, Default)]
struct Line {
    kept: [u8; LINE_KEPT],
    len: usize,
}

impl Line {
    fn push(&mut self, bytes: &[u8]) {
        if let Some(free) = self.kept.get_mut(self.len..) {
            let count = bytes.len().min(free.len());
            free[..count].copy_from_slice(&bytes[..count]);
        }
        self.len += bytes.len();
    }

    fn bytes(&self) -> &[u8] {
        &self.kept[..self.len.min(LINE_KEPT)]
    }
}

impl Default for ReplySkipper {
    fn default() -> Self {
        Self {
            values_left: 1,
            bulk_left: 0,
            line: Line::default(),
            inside: false,
            is_error: false,
            error: Line::default(),
        }
    }
}

impl ReplySkipper {
    /// Takes the next bytes of the stream, up to the end of the reply that they belong to.
    ///
    /// # Errors
    /// [`NotResp`]; the stream cannot be used further.
    pub fn skip(&mut self, input: &[u8]) -> Result<Skipped, NotResp> {
        let mut at = 0;
        while at < input.len() {
            let rest = &input[at..];
            if self.bulk_left > 0 {
                let count =
                    usize::try_from(self.bulk_left).map_or(rest.len(), |left| left.min(rest.len()));
                self.bulk_left -= count as u64;
                at += count;
            } else if let Some(end) = memchr::memchr(b'\n', rest) {
                self.line.push(&rest[..end]);
                at += end + 1;
                self.line_read()?;
            } else {
                self.line.push(rest);
                at = input.len();
            }
            if self.line.len > LINE_LEN_MAX {
                return Err(NotResp("a line is too long"));
            }
            if self.values_left == 0 && self.bulk_left == 0 {
                let is_error = std::mem::take(&mut self.is_error);
                self.values_left = 1;
                self.inside = false;
                return Ok(if is_error {
                    Skipped::Error { len: at }
                } else {
                    Skipped::Reply { len: at }
                });
            }
        }
        Ok(Skipped::NeedMore)
    }

    /// The first word of the last error reply, e.g. `BUSY`.
    #[must_use]
    pub fn error_kind(&self) -> &str {
        let text = str::from_utf8(self.error.bytes()).unwrap_or("ERR");
        let word = text.split([' ', '\r']).next().unwrap_or_default();
        if word.is_empty() { "ERR" } else { word }
    }

    fn line_read(&mut self) -> Result<(), NotResp> {
        let line = std::mem::take(&mut self.line);
        let Some((&marker, content)) = line.bytes().split_first() else {
            return Err(NotResp("an empty line"));
        };
        if !self.inside && matches!(marker, b'-' | b'!') {
            self.is_error = true;
            self.error = Line::default();
            // The words of a bulk error are in its bulk, which is not looked at.
            self.error
                .push(if marker == b'-' { content } else { b"ERR" });
        }
        self.inside = true;
        let (values, bulk) = match marker {
            b'+' | b'-' | b':' | b'_' | b',' | b'#' | b'(' => (0, 0),
            b'$' | b'=' | b'!' => (0, count(content)?.map_or(0, |len| len.saturating_add(2))),
            b'*' | b'~' | b'>' => (count(content)?.unwrap_or(0), 0),
            b'%' => (count(content)?.unwrap_or(0).saturating_mul(2), 0),
            // Attributes come before the value that they describe.
            b'|' => (count(content)?.unwrap_or(0).saturating_mul(2) + 1, 0),
            _ => return Err(NotResp("an unknown type")),
        };
        self.bulk_left = bulk;
        self.values_left = (self.values_left - 1).saturating_add(values);
        Ok(())
    }
}

/// A length or a count; `None` for -1.
fn count(content: &[u8]) -> Result<Option<u64>, NotResp> {
    let text = str::from_utf8(content).ok().map(str::trim_ascii_end);
    match text {
        Some("-1") => Ok(None),
        text => text
            .and_then(|digits| digits.parse::<u32>().ok())
            .map(|count| Some(u64::from(count)))
            .ok_or(NotResp("a length is not a number")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const REPLIES: &[&str] = &[
        "+OK\r\n",
        ":-12\r\n",
        "$3\r\nabc\r\n",
        "$2\r\n\r\n\r\n",
        "$0\r\n\r\n",
        "$-1\r\n",
        "*-1\r\n",
        "_\r\n",
        "*0\r\n",
        "*2\r\n:1\r\n*1\r\n$1\r\na\r\n",
        "*1\r\n*1\r\n*0\r\n",
        "*2\r\n-ERR inside\r\n+OK\r\n",
        "%1\r\n+k\r\n:1\r\n",
        "~1\r\n#t\r\n",
        ",1.5\r\n",
        "=6\r\ntxt:hi\r\n",
        "|1\r\n+ttl\r\n:3\r\n:7\r\n",
        "*2\r\n|1\r\n+a\r\n*1\r\n:1\r\n:2\r\n:3\r\n",
    ];

    /// The lengths of the replies in `stream` when it arrives in the given pieces.
    fn lengths(stream: &[u8], pieces: &[usize]) -> Vec<usize> {
        let mut skipper = ReplySkipper::default();
        let mut lengths = Vec::new();
        let (mut at, mut before) = (0, 0);
        let mut pieces = pieces.iter().copied().cycle();
        while at < stream.len() {
            let end = stream.len().min(at + pieces.next().unwrap());
            let mut piece = &stream[at..end];
            at = end;
            while !piece.is_empty() {
                match skipper.skip(piece).unwrap() {
                    Skipped::Reply { len } | Skipped::Error { len } => {
                        lengths.push(before + len);
                        before = 0;
                        piece = &piece[len..];
                    }
                    Skipped::NeedMore => {
                        before += piece.len();
                        piece = &[];
                    }
                }
            }
        }
        assert_eq!(before, 0, "a reply is left open");
        lengths
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_replies(
            picks in proptest::collection::vec(0..REPLIES.len(), 1..20),
            pieces in proptest::collection::vec(1_usize..9, 1..5),
        ) {
            let replies: Vec<&str> = picks.iter().map(|&pick| REPLIES[pick]).collect();
            let expected: Vec<usize> = replies.iter().map(|reply| reply.len()).collect();
            prop_assert_eq!(lengths(replies.concat().as_bytes(), &pieces), expected);
        }

        #[test]
        fn no_bytes_panic(input in proptest::collection::vec(any::<u8>(), 0..64)) {
            let mut skipper = ReplySkipper::default();
            if let Ok(Skipped::Reply { len } | Skipped::Error { len }) = skipper.skip(&input) {
                prop_assert!(len <= input.len());
            }
        }
    }

    #[test]
    fn only_the_outermost_value_makes_an_error() {
        for reply in ["*1\r\n-ERR inside\r\n", "*2\r\n+OK\r\n-ERR inside\r\n"] {
            let len = reply.len();
            let skipped = ReplySkipper::default().skip(reply.as_bytes());
            assert_eq!(skipped, Ok(Skipped::Reply { len }));
        }
    }

    #[test]
    fn errors_are_named_by_their_first_word() {
        for (reply, kind) in [
            ("-BUSY typed queue is full\r\n", "BUSY"),
            ("-ERR\r\n", "ERR"),
            ("-\r\n", "ERR"),
            ("!10\r\nOOM at all\r\n", "ERR"),
        ] {
            let mut skipper = ReplySkipper::default();
            let len = reply.len();
            assert_eq!(skipper.skip(reply.as_bytes()), Ok(Skipped::Error { len }));
            assert_eq!(skipper.error_kind(), kind);
        }
    }

    #[test]
    fn what_is_not_a_reply_is_refused() {
        let endless = [b'+'; LINE_LEN_MAX + 2];
        for input in [&b"x\r\n"[..], b"\n", b"$x\r\n", b"*-2\r\n", &endless] {
            assert!(ReplySkipper::default().skip(input).is_err(), "{input:?}");
        }
    }
}
