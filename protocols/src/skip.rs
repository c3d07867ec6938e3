//! The client's side of a reply stream: where does each reply end, and what is its outcome?
//!
//! A skipper keeps only the text of an error, so that a reply of two megabytes passes through the
//! same small read buffer as a reply of five bytes.
//!
//! ```text
//!                     ┌───────────────── LineSkipper ──────────────────┐
//!   bytes, in any ──► │ line ──► ReplyGrammar::line ──► payload to skip │ ──► Skipped::Reply
//!   pieces            │   ▲                              │         end?─┼─►    { len, outcome }
//!                     │   └──────────────────────────────┘              │
//!                     └────────────────────────────────────────────────┘
//! ```

/// Longest line of a reply in bytes.
pub const LINE_LEN_MAX: usize = 64 * 1024;

/// Most bytes of a line that a grammar sees. Lines that announce a payload are shorter.
const LINE_KEPT: usize = 512;

/// Length of a payload that ends with its connection.
const UNTIL_END: u64 = u64::MAX;

/// What a reply says about its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Done, without a lookup: `STORED`, `HD`, `+OK`, a number.
    Done,
    /// The request found at least one value.
    Hit {
        /// Number of values in the reply, at least 1.
        values: u64,
    },
    /// The request found nothing: `END` without a value, `NOT_FOUND`, `EN`, null.
    Miss,
    /// The state of the item did not allow the request: `NOT_STORED`, `EXISTS`, `NS`, `EX`.
    NotStored,
    /// An error; [`ReplySkipper::error_text`] has its text.
    Error,
    /// The server had no room for the request in its queues; [`ReplySkipper::error_text`] has the
    /// text.
    Busy,
}

/// What [`ReplySkipper::skip`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Skipped {
    /// A reply ended `len` bytes into the input.
    Reply {
        /// Bytes of the input that belong to the reply.
        len: usize,
        /// What the reply says.
        outcome: Outcome,
    },
    /// The whole input belongs to a reply that is not complete.
    NeedMore,
}

/// Bytes that are not a reply of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a reply: {0}")]
pub struct NotAReply(pub &'static str);

/// The position in the reply stream of one connection.
pub trait ReplySkipper {
    /// Consumes the next bytes of the stream, at most up to the end of the current reply.
    ///
    /// # Errors
    /// [`NotAReply`]; the stream cannot be used after that.
    fn skip(&mut self, input: &[u8]) -> Result<Skipped, NotAReply>;

    /// The outcome of a reply that ends with its connection, once that has ended. `None` if the connection
    /// ended between replies, or within a reply of another kind.
    fn finish(&mut self) -> Option<Outcome> {
        None
    }

    /// Whether the last reply says that the server takes no more requests on this connection.
    fn closes(&self) -> bool {
        false
    }

    /// The text of the last [`Outcome::Error`] or [`Outcome::Busy`], cut after some hundred bytes.
    fn error_text(&self) -> &str;

    /// The first word of [`error_text`](Self::error_text), e.g. `CLIENT_ERROR`.
    fn error_kind(&self) -> &str {
        self.error_text().split(' ').next().unwrap_or_default()
    }
}

/// Reads the lines of one reply of a protocol. Each reply starts with a new grammar.
pub trait ReplyGrammar: Default {
    /// Reads the next line of the reply, without its line end, cut after 512 bytes.
    ///
    /// # Errors
    /// [`NotAReply`] when no reply can have this line here.
    fn line(&mut self, line: &[u8]) -> Result<LineStep, NotAReply>;

    /// Whether the reply says that the server takes no more requests on this connection.
    fn closes(&self) -> bool {
        false
    }

    /// The text of the error in a reply that `line` ended with an error.
    fn error_text<'a>(&'a self, line: &'a [u8]) -> &'a [u8];
}

/// What follows a line of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineStep {
    /// Bytes to skip before the next line, including their line end.
    pub payload_len: u64,
    /// The outcome, if the reply ends after these bytes.
    pub end: Option<Outcome>,
}

impl LineStep {
    /// Another line follows at once.
    pub const NEXT: Self = Self { payload_len: 0, end: None };

    /// The rest of the connection belongs to the reply.
    #[must_use]
    pub const fn until_end(outcome: Outcome) -> Self {
        Self { payload_len: UNTIL_END, end: Some(outcome) }
    }

    /// The reply ends here.
    #[must_use]
    pub const fn end(outcome: Outcome) -> Self {
        Self { payload_len: 0, end: Some(outcome) }
    }
}

/// [`ReplySkipper`] of a protocol whose replies are lines and payloads of announced length.
#[derive(Debug, Clone, Default)]
pub struct LineSkipper<G> {
    grammar: G,
    /// Remaining bytes of a payload.
    payload_left: u64,
    /// The outcome of a reply of which only the payload remains.
    end: Option<Outcome>,
    /// Whether that payload ends with the connection.
    is_until_end: bool,
    line: PartialLine,
    closes: bool,
    error: String,
}

/// The start of an incomplete line.
#[derive(Debug, Clone, Default)]
struct PartialLine {
    kept: Vec<u8>,
    len: usize,
}

impl PartialLine {
    fn push(&mut self, bytes: &[u8]) -> Result<(), NotAReply> {
        self.len += bytes.len();
        if self.len > LINE_LEN_MAX {
            return Err(NotAReply("a line is too long"));
        }
        let free = LINE_KEPT - self.kept.len();
        self.kept.extend_from_slice(&bytes[..bytes.len().min(free)]);
        Ok(())
    }

    fn clear(&mut self) {
        self.kept.clear();
        self.len = 0;
    }
}

impl<G: ReplyGrammar> LineSkipper<G> {
    fn read_line(&mut self, line: &[u8]) -> Result<(), NotAReply> {
        let line = &line[..line.len().min(LINE_KEPT)];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let step = self.grammar.line(line)?;
        if let Some(Outcome::Error | Outcome::Busy) = step.end {
            let words = String::from_utf8_lossy(self.grammar.error_text(line));
            self.error.clear();
            self.error.push_str(&words);
        }
        self.payload_left = step.payload_len;
        self.is_until_end = step.payload_len == UNTIL_END;
        self.end = step.end;
        Ok(())
    }
}

impl<G: ReplyGrammar> ReplySkipper for LineSkipper<G> {
    fn skip(&mut self, input: &[u8]) -> Result<Skipped, NotAReply> {
        let mut at = 0;
        while at < input.len() {
            let rest = &input[at..];
            if self.payload_left > 0 {
                let count = usize::try_from(self.payload_left).map_or(rest.len(), |left| left.min(rest.len()));
                self.payload_left -= count as u64;
                at += count;
            } else {
                let Some(end) = memchr::memchr(b'\n', rest) else {
                    self.line.push(rest)?;
                    break;
                };
                at += end + 1;
                if self.line.len == 0 && end <= LINE_LEN_MAX {
                    self.read_line(&rest[..end])?;
                } else {
                    let mut line = std::mem::take(&mut self.line);
                    line.push(&rest[..end])?;
                    self.read_line(&line.kept)?;
                    line.clear();
                    self.line = line;
                }
            }
            if self.payload_left == 0
                && let Some(outcome) = self.end.take()
            {
                self.closes = self.grammar.closes();
                self.grammar = G::default();
                return Ok(Skipped::Reply { len: at, outcome });
            }
        }
        Ok(Skipped::NeedMore)
    }

    fn finish(&mut self) -> Option<Outcome> {
        if !std::mem::take(&mut self.is_until_end) {
            return None;
        }
        self.closes = true;
        self.payload_left = 0;
        self.grammar = G::default();
        self.end.take()
    }

    fn closes(&self) -> bool {
        self.closes
    }

    fn error_text(&self) -> &str {
        &self.error
    }
}
