//! The client's side of a reply stream: where does each reply end, and how did its request fare?
//!
//! Nothing of a reply is kept but the text of an error, so that one of two megabytes passes through
//! the same small read buffer as one of five bytes.
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

/// Bytes of a line that a grammar sees; longer than any line that announces a payload.
const LINE_KEPT: usize = 512;

/// How the request fared that a reply answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Done as asked, nothing was looked up: `STORED`, `HD`, `+OK`, a number.
    Done,
    /// What was asked for was there.
    Hit {
        /// How many values came back, at least 1.
        values: u64,
    },
    /// Nothing of what was asked for was there: `END` without a value, `NOT_FOUND`, `EN`, null.
    Miss,
    /// The state of the item did not allow it: `NOT_STORED`, `EXISTS`, `NS`, `EX`.
    NotStored,
    /// An error; [`ReplySkipper::error_text`] has its words.
    Error,
    /// The server had no room for the request in its queues; [`ReplySkipper::error_text`] has its
    /// words.
    Busy,
}

/// What [`ReplySkipper::skip`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Skipped {
    /// A reply ended `len` bytes into the input.
    Reply {
        /// Bytes of the input that belong to it.
        len: usize,
        /// What it says.
        outcome: Outcome,
    },
    /// The whole input belongs to a reply that goes on.
    NeedMore,
}

/// Bytes that are not a reply of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a reply: {0}")]
pub struct NotAReply(pub &'static str);

/// The place in the reply stream of one connection.
pub trait ReplySkipper {
    /// Takes the next bytes of the stream, up to the end of the reply that they belong to.
    ///
    /// # Errors
    /// [`NotAReply`]; the stream cannot be used further.
    fn skip(&mut self, input: &[u8]) -> Result<Skipped, NotAReply>;

    /// The words of the last [`Outcome::Error`] or [`Outcome::Busy`], cut after some hundred bytes.
    fn error_text(&self) -> &str;

    /// The first word of [`error_text`](Self::error_text), e.g. `CLIENT_ERROR`.
    fn error_kind(&self) -> &str {
        self.error_text().split(' ').next().unwrap_or_default()
    }
}

/// What the lines of a protocol's replies mean. Made anew for each reply.
pub trait ReplyGrammar: Default {
    /// Reads the next line of the reply, its line end taken off and cut after 512 bytes.
    ///
    /// # Errors
    /// [`NotAReply`] when no reply has such a line there.
    fn line(&mut self, line: &[u8]) -> Result<LineStep, NotAReply>;

    /// The words of the error in a line that ended a reply as one.
    fn error_text(line: &[u8]) -> &[u8];
}

/// What follows a line of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineStep {
    /// Bytes that come before the next line and are not looked at, their line end included.
    pub payload_len: u64,
    /// Set when the reply ends after them.
    pub end: Option<Outcome>,
}

impl LineStep {
    /// Another line follows at once.
    pub const NEXT: Self = Self {
        payload_len: 0,
        end: None,
    };

    /// The reply ends here.
    #[must_use]
    pub const fn end(outcome: Outcome) -> Self {
        Self {
            payload_len: 0,
            end: Some(outcome),
        }
    }
}

/// [`ReplySkipper`] of a protocol whose replies are lines and payloads of announced length.
#[derive(Debug, Clone, Default)]
pub struct LineSkipper<G> {
    grammar: G,
    /// Bytes of a payload that are still to come.
    payload_left: u64,
    /// The outcome of a reply of which only the payload is left.
    end: Option<Outcome>,
    line: PartialLine,
    error: String,
}

/// The start of a line whose end has not come yet.
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
            self.error.clear();
            self.error
                .push_str(&String::from_utf8_lossy(G::error_text(line)));
        }
        self.payload_left = step.payload_len;
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
                let count = usize::try_from(self.payload_left)
                    .map_or(rest.len(), |left| left.min(rest.len()));
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
                self.grammar = G::default();
                return Ok(Skipped::Reply { len: at, outcome });
            }
        }
        Ok(Skipped::NeedMore)
    }

    fn error_text(&self) -> &str {
        &self.error
    }
}
