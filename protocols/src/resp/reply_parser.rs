//! The client's side of a reply: where does it end, and of what kind is it?

use smallvec::SmallVec;

use crate::framing::FrameError;

use super::header::read_header;

/// The kind of a reply, by its first byte. Null bulk strings and null arrays are [`Self::Null`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReplyKind {
    /// `+`
    Simple,
    /// `-`, or `!` of RESP3.
    Error,
    /// `:`
    Integer,
    /// `$`
    Bulk,
    /// `*`
    Array,
    /// `_`, `$-1` or `*-1`
    Null,
    /// `,`
    Double,
    /// `#`
    Boolean,
    /// `(`
    BigNumber,
    /// `=`
    Verbatim,
    /// `%`
    Map,
    /// `~`
    Set,
    /// `>`: not the reply to a request.
    Push,
}

/// What [`ReplyParser::next_reply`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyStep {
    /// The first `len` bytes are one reply.
    Reply {
        /// Bytes of the reply, including nested values and attributes.
        len: usize,
        /// The kind of the value behind any attributes.
        kind: ReplyKind,
    },
    /// The reply is not complete.
    NeedMore,
}

/// Measures replies of RESP2 and RESP3 without building them.
///
/// Like the cursor of a [`Framing`](crate::Framing), the parser remembers how far it has read an
/// incomplete reply: until it finds a reply, each call must see the same bytes with more appended.
/// Streamed strings and aggregates (`$?`) are refused; servers do not send them.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ReplyParser {
    /// Deepest nesting of aggregates that is accepted; 32 by default.
    pub depth_max: usize,
    /// Longest bulk string in bytes; 512 MiB by default.
    pub bulk_len_max: usize,
    /// Longest line (simple strings, errors, numbers) in bytes; 64 KiB by default.
    pub line_len_max: usize,
    progress: Progress,
}

#[derive(Debug, Clone, Default)]
struct Progress {
    /// Where the next value starts.
    offset: usize,
    /// Number of bytes from `offset` on that are known to hold no line end.
    scanned: usize,
    kind: Option<ReplyKind>,
    /// Incomplete aggregates, outermost first.
    open: SmallVec<[Open; 8]>,
}

#[derive(Debug, Clone, Copy)]
struct Open {
    values_left: u64,
    is_attribute: bool,
}

impl Default for ReplyParser {
    fn default() -> Self {
        Self {
            depth_max: 32,
            bulk_len_max: 512 << 20,
            line_len_max: 64 << 10,
            progress: Progress::default(),
        }
    }
}

limits! {
    ReplyParser: depth_max: usize, bulk_len_max: usize, line_len_max: usize,
}

/// A value without the values nested in it.
enum Value {
    Leaf {
        len: usize,
        kind: ReplyKind,
    },
    /// Attributes have no kind: they precede a value and are none themselves.
    Aggregate {
        len: usize,
        kind: Option<ReplyKind>,
        values: u64,
    },
    Incomplete,
}

impl ReplyParser {
    /// A parser with the default limits.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Looks for one complete reply at the start of `input`.
    ///
    /// # Errors
    /// When `input` does not start with a reply or exceeds a limit. Do not use the parser after that.
    pub fn next_reply(&mut self, input: &[u8]) -> Result<ReplyStep, FrameError> {
        loop {
            let unread = &input[self.progress.offset..];
            match self.value(unread)? {
                Value::Incomplete => return Ok(ReplyStep::NeedMore),
                Value::Leaf { len, kind } => {
                    self.advance(len, Some(kind));
                    self.close_value();
                }
                Value::Aggregate { len, kind, values } => {
                    self.advance(len, kind);
                    if self.progress.open.len() >= self.depth_max {
                        return Err(FrameError::new("reply is nested too deeply"));
                    }
                    let is_attribute = kind.is_none();
                    if values > 0 {
                        self.progress.open.push(Open { values_left: values, is_attribute });
                    } else if !is_attribute {
                        self.close_value();
                    }
                }
            }
            if self.progress.open.is_empty()
                && let Some(kind) = self.progress.kind
            {
                let len = self.progress.offset;
                self.progress = Progress::default();
                return Ok(ReplyStep::Reply { len, kind });
            }
        }
    }

    fn advance(&mut self, len: usize, kind: Option<ReplyKind>) {
        let progress = &mut self.progress;
        progress.offset += len;
        progress.scanned = 0;
        if progress.open.is_empty() {
            progress.kind = kind;
        }
    }

    /// Counts a finished value as an element of the aggregate around it. If that completes the
    /// aggregate, counts it in turn, and so on outwards. Complete attributes do not count: the value
    /// that they describe follows.
    fn close_value(&mut self) {
        while let Some(open) = self.progress.open.last_mut() {
            open.values_left -= 1;
            if open.values_left > 0 {
                return;
            }
            let is_attribute = open.is_attribute;
            self.progress.open.pop();
            if is_attribute {
                return;
            }
        }
    }

    fn value(&mut self, unread: &[u8]) -> Result<Value, FrameError> {
        let Some(&marker) = unread.first() else {
            return Ok(Value::Incomplete);
        };
        match marker {
            b'+' => self.line(unread, ReplyKind::Simple),
            b'-' => self.line(unread, ReplyKind::Error),
            b'_' => self.line(unread, ReplyKind::Null),
            b',' => self.line(unread, ReplyKind::Double),
            b'#' => self.line(unread, ReplyKind::Boolean),
            b'(' => self.line(unread, ReplyKind::BigNumber),
            b':' => integer(unread),
            b'$' => self.bulk(unread, ReplyKind::Bulk),
            b'=' => self.bulk(unread, ReplyKind::Verbatim),
            b'!' => self.bulk(unread, ReplyKind::Error),
            b'*' => aggregate(unread, Some(ReplyKind::Array), 1),
            b'~' => aggregate(unread, Some(ReplyKind::Set), 1),
            b'>' => aggregate(unread, Some(ReplyKind::Push), 1),
            b'%' => aggregate(unread, Some(ReplyKind::Map), 2),
            b'|' => aggregate(unread, None, 2),
            _ => Err(FrameError::new("reply starts with an unknown type")),
        }
    }

    fn line(&mut self, unread: &[u8], kind: ReplyKind) -> Result<Value, FrameError> {
        let window = &unread[..unread.len().min(self.line_len_max)];
        let scanned = self.progress.scanned;
        match memchr::memchr(b'\n', &window[scanned..]) {
            Some(line_end) => {
                let len = scanned + line_end + 1;
                if unread[..len].ends_with(b"\r\n") {
                    Ok(Value::Leaf { len, kind })
                } else {
                    Err(FrameError::new("reply line does not end with CRLF"))
                }
            }
            None if unread.len() >= self.line_len_max => Err(FrameError::new("reply line is too long")),
            None => {
                self.progress.scanned = unread.len();
                Ok(Value::Incomplete)
            }
        }
    }

    fn bulk(&self, unread: &[u8], kind: ReplyKind) -> Result<Value, FrameError> {
        let Some((value, head_len)) = head(unread)? else {
            return Ok(Value::Incomplete);
        };
        if value == -1 {
            return Ok(Value::Leaf { len: head_len, kind: ReplyKind::Null });
        }
        let len = usize::try_from(value)
            .ok()
            .filter(|len| *len <= self.bulk_len_max)
            .ok_or(FrameError::new("reply has an invalid bulk length"))?;
        let end = head_len + len;
        match unread.get(end..end + 2) {
            None => Ok(Value::Incomplete),
            Some(b"\r\n") => Ok(Value::Leaf { len: end + 2, kind }),
            Some(_) => Err(FrameError::new("reply bulk does not end with CRLF")),
        }
    }
}

fn integer(unread: &[u8]) -> Result<Value, FrameError> {
    Ok(match head(unread)? {
        None => Value::Incomplete,
        Some((_, len)) => Value::Leaf { len, kind: ReplyKind::Integer },
    })
}

/// An aggregate with `values_per_count` values for each unit of its count: 2 for maps.
fn aggregate(unread: &[u8], kind: Option<ReplyKind>, values_per_count: u64) -> Result<Value, FrameError> {
    Ok(match head(unread)? {
        None => Value::Incomplete,
        Some((-1, len)) if kind == Some(ReplyKind::Array) => Value::Leaf { len, kind: ReplyKind::Null },
        Some((count, len)) => {
            let count = u64::try_from(count).map_err(|_| FrameError::new("reply has an invalid count"))?;
            // The count fits i64, so twice the count fits u64.
            let values = count * values_per_count;
            Value::Aggregate { len, kind, values }
        }
    })
}

/// Number and length of the line at the start of `unread`, if it is complete.
fn head(unread: &[u8]) -> Result<Option<(i64, usize)>, FrameError> {
    match read_header(unread) {
        Ok(header) => Ok(header.map(|header| (header.value, header.len))),
        Err(_) => Err(FrameError::new("reply has an invalid number")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measure(input: &[u8]) -> Result<ReplyStep, FrameError> {
        ReplyParser::new().next_reply(input)
    }

    #[test]
    fn each_type_is_measured() {
        let cases: [(&str, ReplyKind); 24] = [
            ("+OK\r\n", ReplyKind::Simple),
            ("-BUSY typed queue\r\n", ReplyKind::Error),
            ("!5\r\nERR a\r\n", ReplyKind::Error),
            (":-12\r\n", ReplyKind::Integer),
            ("$3\r\nabc\r\n", ReplyKind::Bulk),
            ("$2\r\n\r\n\r\n", ReplyKind::Bulk),
            ("$0\r\n\r\n", ReplyKind::Bulk),
            ("$-1\r\n", ReplyKind::Null),
            ("*-1\r\n", ReplyKind::Null),
            ("_\r\n", ReplyKind::Null),
            ("*0\r\n", ReplyKind::Array),
            ("*2\r\n:1\r\n*1\r\n$1\r\na\r\n", ReplyKind::Array),
            ("*1\r\n*1\r\n*0\r\n", ReplyKind::Array),
            ("%1\r\n+k\r\n:1\r\n", ReplyKind::Map),
            ("~1\r\n#t\r\n", ReplyKind::Set),
            (">2\r\n+message\r\n$1\r\na\r\n", ReplyKind::Push),
            (",1.5\r\n", ReplyKind::Double),
            (",inf\r\n", ReplyKind::Double),
            ("#f\r\n", ReplyKind::Boolean),
            ("(12345678901234567890123\r\n", ReplyKind::BigNumber),
            ("=6\r\ntxt:hi\r\n", ReplyKind::Verbatim),
            ("|1\r\n+ttl\r\n:3\r\n:7\r\n", ReplyKind::Integer),
            ("|0\r\n+OK\r\n", ReplyKind::Simple),
            ("*2\r\n|1\r\n+a\r\n*1\r\n:1\r\n:2\r\n:3\r\n", ReplyKind::Array),
        ];
        for (reply, kind) in cases {
            let whole = Ok(ReplyStep::Reply { len: reply.len(), kind });
            assert_eq!(measure(reply.as_bytes()), whole, "{reply:?}");
            assert_eq!(measure(format!("{reply}+OK\r\n").as_bytes()), whole);
            let mut parser = ReplyParser::new();
            for cut in 0..reply.len() {
                let step = parser.next_reply(&reply.as_bytes()[..cut]);
                assert_eq!(step, Ok(ReplyStep::NeedMore), "{reply:?} cut at {cut}");
            }
            assert_eq!(parser.next_reply(reply.as_bytes()), whole);
        }
    }

    #[test]
    fn malformed_replies_are_refused() {
        for input in [
            "x\r\n",
            "\r\n",
            ":x\r\n",
            ":\r\n",
            "+a\n",
            "$-2\r\n",
            "$1\r\nabc",
            "*-2\r\n",
            "%-1\r\n",
            "$536870913\r\n",
            "$?\r\n",
        ] {
            assert!(measure(input.as_bytes()).is_err(), "{input:?}");
        }
    }

    #[test]
    fn nesting_and_lines_are_bounded() {
        let mut parser = ReplyParser { depth_max: 3, line_len_max: 8, ..ReplyParser::default() };
        let nested = b"*1\r\n*1\r\n*1\r\n:1\r\n";
        assert!(matches!(parser.next_reply(nested), Ok(ReplyStep::Reply { len: 16, .. })));
        assert!(matches!(parser.next_reply(b"+12345\r\n"), Ok(ReplyStep::Reply { len: 8, .. })));
        let mut fresh = parser.clone();
        assert!(fresh.next_reply(b"+123456\r\n").is_err());
        let deeper = [&b"*1\r\n"[..], nested].concat();
        assert!(parser.next_reply(&deeper).is_err());
    }
}
