//! Outcomes of RESP replies, for a client that does not keep their contents.

use crate::skip::{LineSkipper, LineStep, NotAReply, Outcome, ReplyGrammar};

/// Skips RESP2 and RESP3 replies; streamed strings and aggregates are not understood.
pub type RespSkipper = LineSkipper<RespReplies>;

/// The grammar of RESP replies.
///
/// | reply                                  | outcome                                   |
/// |----------------------------------------|-------------------------------------------|
/// | bulk string                            | [`Outcome::Hit`]                          |
/// | null                                   | [`Outcome::Miss`]                         |
/// | aggregate with bulk strings            | [`Outcome::Hit`] with their number        |
/// | aggregate that is empty, or only nulls | [`Outcome::Miss`]                         |
/// | error                                  | [`Outcome::Error`] or [`Outcome::Busy`]   |
/// | all others                             | [`Outcome::Done`]                         |
///
/// An error inside an aggregate does not make the aggregate an error.
#[derive(Debug, Clone)]
pub struct RespReplies {
    /// Number of values until the reply is complete. An aggregate adds its elements and every value
    /// subtracts one, so that nesting need not be remembered.
    values_left: u64,
    /// The outermost value, once its line was read.
    outermost: Option<Outermost>,
    bulks: u64,
    /// Number of values that are neither bulk strings, nulls nor aggregates.
    others: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outermost {
    Value,
    Error,
    Busy,
}

impl Default for RespReplies {
    fn default() -> Self {
        Self { values_left: 1, outermost: None, bulks: 0, others: 0 }
    }
}

impl RespReplies {
    fn outcome(&self) -> Outcome {
        match (self.outermost, self.bulks) {
            (Some(Outermost::Error), _) => Outcome::Error,
            (Some(Outermost::Busy), _) => Outcome::Busy,
            (_, 0) if self.others > 0 => Outcome::Done,
            (_, 0) => Outcome::Miss,
            (_, values) => Outcome::Hit { values },
        }
    }
}

impl ReplyGrammar for RespReplies {
    fn line(&mut self, line: &[u8]) -> Result<LineStep, NotAReply> {
        let Some((&marker, content)) = line.split_first() else {
            return Err(NotAReply("an empty line"));
        };
        if self.outermost.is_none() {
            self.outermost = Some(match marker {
                b'-' if content.starts_with(b"BUSY") => Outermost::Busy,
                b'-' | b'!' => Outermost::Error,
                _ => Outermost::Value,
            });
        }
        let (values, payload_len) = match marker {
            b'+' | b'-' | b':' | b',' | b'#' | b'(' => {
                self.others += 1;
                (0, 0)
            }
            b'_' => (0, 0),
            b'$' | b'=' | b'!' => match count(content)? {
                Some(len) => {
                    self.bulks += 1;
                    (0, len + 2)
                }
                None => (0, 0),
            },
            b'*' | b'~' | b'>' => (count(content)?.unwrap_or(0), 0),
            b'%' => (count(content)?.unwrap_or(0) * 2, 0),
            // Attributes precede the value that they describe.
            b'|' => (count(content)?.unwrap_or(0) * 2 + 1, 0),
            _ => return Err(NotAReply("an unknown type")),
        };
        self.values_left = (self.values_left - 1).saturating_add(values);
        Ok(LineStep {
            payload_len,
            end: (self.values_left == 0).then(|| self.outcome()),
        })
    }

    fn error_text<'a>(&'a self, line: &'a [u8]) -> &'a [u8] {
        match line {
            [b'-', text @ ..] if !text.is_empty() => text,
            // The text of a bulk error is in its bulk, which is skipped.
            _ => b"ERR",
        }
    }
}

/// A length or a count; `None` for -1.
fn count(content: &[u8]) -> Result<Option<u64>, NotAReply> {
    if content == b"-1" {
        return Ok(None);
    }
    str::from_utf8(content)
        .ok()
        .and_then(|digits| digits.parse::<u32>().ok())
        .map(|count| Some(u64::from(count)))
        .ok_or(NotAReply("a length is not a number"))
}

#[cfg(test)]
mod tests {
    use crate::skip::{LINE_LEN_MAX, ReplySkipper, Skipped};

    use super::*;

    fn skipped(reply: &[u8], error_text: &str) -> Outcome {
        let mut skipper = RespSkipper::default();
        match skipper.skip(reply) {
            Ok(Skipped::Reply { len, outcome }) if len == reply.len() => {
                assert_eq!(skipper.error_text(), error_text);
                outcome
            }
            other => panic!("{}: {other:?}", reply.escape_ascii()),
        }
    }

    #[test]
    fn each_reply_has_its_outcome() {
        for (reply, expected) in [
            ("+OK\r\n", Outcome::Done),
            (":-12\r\n", Outcome::Done),
            ("#t\r\n", Outcome::Done),
            (",1.5\r\n", Outcome::Done),
            ("$2\r\n\r\n\r\n", Outcome::Hit { values: 1 }),
            ("$0\r\n\r\n", Outcome::Hit { values: 1 }),
            ("=6\r\ntxt:hi\r\n", Outcome::Hit { values: 1 }),
            ("$-1\r\n", Outcome::Miss),
            ("*-1\r\n", Outcome::Miss),
            ("_\r\n", Outcome::Miss),
            ("*0\r\n", Outcome::Miss),
            ("*2\r\n$-1\r\n$-1\r\n", Outcome::Miss),
            ("*3\r\n$1\r\na\r\n$-1\r\n$1\r\nb\r\n", Outcome::Hit { values: 2 }),
            ("*2\r\n:1\r\n*1\r\n$1\r\na\r\n", Outcome::Hit { values: 1 }),
            ("*2\r\n-ERR inside\r\n+OK\r\n", Outcome::Done),
            ("%1\r\n+k\r\n:1\r\n", Outcome::Done),
            ("*1\r\n*1\r\n*0\r\n", Outcome::Miss),
            ("|1\r\n+ttl\r\n:3\r\n:7\r\n", Outcome::Done),
            ("*2\r\n|1\r\n+a\r\n*1\r\n:1\r\n:2\r\n:3\r\n", Outcome::Done),
        ] {
            assert_eq!(skipped(reply.as_bytes(), ""), expected, "{reply:?}");
        }
    }

    #[test]
    fn errors_keep_their_text() {
        for (reply, expected, text) in [
            ("-BUSY queue is full\r\n", Outcome::Busy, "BUSY queue is full"),
            ("-ERR no\r\n", Outcome::Error, "ERR no"),
            ("-\r\n", Outcome::Error, "ERR"),
            ("!10\r\nOOM at all\r\n", Outcome::Error, "ERR"),
        ] {
            assert_eq!(skipped(reply.as_bytes(), text), expected, "{reply:?}");
        }
    }

    #[test]
    fn malformed_replies_are_refused() {
        let endless = [b'+'; LINE_LEN_MAX + 1];
        for input in [&b"x\r\n"[..], b"\n", b"$x\r\n", b"*-2\r\n", &endless] {
            let skipped = RespSkipper::default().skip(input);
            assert!(skipped.is_err(), "{}", input.escape_ascii());
        }
    }
}
