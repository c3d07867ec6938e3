//! Outcomes of text and meta replies, for a client.

use crate::skip::{LineSkipper, LineStep, NotAReply, Outcome, ReplyGrammar};

/// Skips the replies of the text and meta protocols, which may alternate on one connection.
///
/// ```
/// use psp_protocols::memcached::MemcachedSkipper;
/// use psp_protocols::skip::{Outcome, ReplySkipper, Skipped};
///
/// let mut skipper = MemcachedSkipper::default();
/// assert_eq!(skipper.skip(b"VALUE k 0 1\r\n"), Ok(Skipped::NeedMore));
/// let found = Skipped::Reply { len: 8, outcome: Outcome::Hit { values: 1 } };
/// assert_eq!(skipper.skip(b"a\r\nEND\r\nHD\r\n"), Ok(found));
/// ```
pub type MemcachedSkipper = LineSkipper<MemcachedReplies>;

/// The grammar of text and meta replies; memcached's `doc/protocol.txt`.
///
/// `END` alone is [`Outcome::Miss`], after `VALUE` blocks [`Outcome::Hit`] with their number, and
/// after other lines (`STAT`, `ITEM`, those of `metadump`) [`Outcome::Done`]. `HD` is
/// [`Outcome::Done`], also as the reply to an `mg` that asked for no value. A `SERVER_ERROR` whose
/// text starts with `busy` is [`Outcome::Busy`]: psp refused the request because its typed queue is
/// full.
#[derive(Debug, Clone, Default)]
pub struct MemcachedReplies {
    values: u64,
    /// Whether the reply has lines of a list that are not values.
    listed: bool,
}

/// Start of the reply that a psp server sends when a typed queue is full.
pub(super) const BUSY_PREFIX: &[u8] = b"SERVER_ERROR busy";

/// Length of the CRLF at the end of a data block.
const BLOCK_END_LEN: u64 = 2;

impl ReplyGrammar for MemcachedReplies {
    fn line(&mut self, line: &[u8]) -> Result<LineStep, NotAReply> {
        let mut words = line.split(|byte| *byte == b' ');
        let outcome = match words.next().unwrap_or_default() {
            b"VALUE" => {
                self.values += 1;
                // VALUE <key> <flags> <bytes> [<cas>]
                return Ok(LineStep { payload_len: block_len(words.nth(2))?, end: None });
            }
            b"VA" => {
                return Ok(LineStep {
                    payload_len: block_len(words.next())?,
                    end: Some(Outcome::Hit { values: 1 }),
                });
            }
            b"STAT" | b"ITEM" => {
                self.listed = true;
                return Ok(LineStep::NEXT);
            }
            word if word.starts_with(b"key=") => {
                self.listed = true;
                return Ok(LineStep::NEXT);
            }
            b"END" => match self.values {
                0 if self.listed => Outcome::Done,
                0 => Outcome::Miss,
                values => Outcome::Hit { values },
            },
            b"STORED" | b"DELETED" | b"TOUCHED" | b"OK" | b"VERSION" | b"RESET" | b"HD" | b"MN" => Outcome::Done,
            b"ME" => Outcome::Hit { values: 1 },
            b"NOT_FOUND" | b"NF" | b"EN" => Outcome::Miss,
            b"NOT_STORED" | b"EXISTS" | b"NS" | b"EX" => Outcome::NotStored,
            b"BUSY" => Outcome::Busy,
            b"SERVER_ERROR" if line.starts_with(BUSY_PREFIX) => Outcome::Busy,
            b"ERROR" | b"ERROR:" | b"CLIENT_ERROR" | b"SERVER_ERROR" => Outcome::Error,
            number if !number.is_empty() && number.iter().all(u8::is_ascii_digit) => Outcome::Done,
            _ => return Err(NotAReply("an unknown line")),
        };
        Ok(LineStep::end(outcome))
    }

    fn error_text<'a>(&'a self, line: &'a [u8]) -> &'a [u8] {
        line
    }
}

/// Length of the data block that announces `digits` bytes, including its CRLF.
fn block_len(digits: Option<&[u8]>) -> Result<u64, NotAReply> {
    digits
        .and_then(|digits| str::from_utf8(digits).ok()?.parse::<u32>().ok())
        .map(|len| u64::from(len) + BLOCK_END_LEN)
        .ok_or(NotAReply("the length of a value is not a number"))
}

#[cfg(test)]
mod tests {
    use crate::skip::{LINE_LEN_MAX, ReplySkipper, Skipped};

    use super::*;

    fn outcome(reply: &[u8]) -> Outcome {
        match MemcachedSkipper::default().skip(reply) {
            Ok(Skipped::Reply { len, outcome }) if len == reply.len() => outcome,
            other => panic!("{}: {other:?}", reply.escape_ascii()),
        }
    }

    #[test]
    fn text_replies() {
        let value = "VALUE k 0 3\r\nEND\r\n";
        for (reply, expected) in [
            ("END\r\n".to_owned(), Outcome::Miss),
            (format!("{value}END\r\n"), Outcome::Hit { values: 1 }),
            (format!("{value}VALUE l 1 0 17\r\n\r\nEND\r\n"), Outcome::Hit { values: 2 }),
            ("STORED\r\n".to_owned(), Outcome::Done),
            ("NOT_STORED\r\n".to_owned(), Outcome::NotStored),
            ("EXISTS\r\n".to_owned(), Outcome::NotStored),
            ("NOT_FOUND\r\n".to_owned(), Outcome::Miss),
            ("DELETED\r\n".to_owned(), Outcome::Done),
            ("TOUCHED\r\n".to_owned(), Outcome::Done),
            ("18446744073709551615\r\n".to_owned(), Outcome::Done),
            ("5  \r\n".to_owned(), Outcome::Done),
            ("OK\r\n".to_owned(), Outcome::Done),
            ("RESET\r\n".to_owned(), Outcome::Done),
            ("VERSION 1.6.18\r\n".to_owned(), Outcome::Done),
            ("STAT a 1\r\nSTAT b x y\r\nEND\r\n".to_owned(), Outcome::Done),
            ("ITEM k [1 b; 0 s]\r\nEND\r\n".to_owned(), Outcome::Done),
            ("key=k exp=-1 la=1\r\nEND\r\n".to_owned(), Outcome::Done),
            (format!("{value}SERVER_ERROR out of memory writing get response\r\n"), Outcome::Error),
            ("BUSY currently processing\r\n".to_owned(), Outcome::Busy),
        ] {
            assert_eq!(outcome(reply.as_bytes()), expected, "{reply:?}");
        }
    }

    #[test]
    fn meta_replies() {
        for (reply, expected) in [
            ("HD\r\n", Outcome::Done),
            ("HD t-1 kfoo O12\r\n", Outcome::Done),
            ("VA 4 c12 W\r\nEN\r\n\r\n", Outcome::Hit { values: 1 }),
            ("VA 0\r\n\r\n", Outcome::Hit { values: 1 }),
            ("EN\r\n", Outcome::Miss),
            ("NF Oabc\r\n", Outcome::Miss),
            ("NS\r\n", Outcome::NotStored),
            ("EX\r\n", Outcome::NotStored),
            ("MN\r\n", Outcome::Done),
            ("ME k exp=-1 la=2 cas=1\r\n", Outcome::Hit { values: 1 }),
        ] {
            assert_eq!(outcome(reply.as_bytes()), expected, "{reply:?}");
        }
    }

    #[test]
    fn errors_keep_their_text() {
        for (reply, expected, kind) in [
            ("ERROR\r\n", Outcome::Error, "ERROR"),
            ("CLIENT_ERROR bad data chunk\r\n", Outcome::Error, "CLIENT_ERROR"),
            ("SERVER_ERROR object too large for cache\r\n", Outcome::Error, "SERVER_ERROR"),
            ("SERVER_ERROR busy: the queue of 'scan' is full\r\n", Outcome::Busy, "SERVER_ERROR"),
        ] {
            let mut skipper = MemcachedSkipper::default();
            let len = reply.len();
            let skipped = Skipped::Reply { len, outcome: expected };
            assert_eq!(skipper.skip(reply.as_bytes()), Ok(skipped));
            assert_eq!(skipper.error_text(), reply.trim_ascii_end());
            assert_eq!(skipper.error_kind(), kind);
        }
    }

    #[test]
    fn malformed_replies_are_refused() {
        let endless = vec![b'1'; LINE_LEN_MAX + 1];
        for input in [
            &b"\r\n"[..],
            b"stored\r\n",
            b"END \r\nVALUE k 0\r\n",
            b"VALUE k 0 -1\r\n",
            b"VALUE k 0 4294967296\r\n",
            b"VA\r\n",
            b"+OK\r\n",
            &endless,
        ] {
            let mut skipper = MemcachedSkipper::default();
            let mut rest = input;
            let refused = loop {
                match skipper.skip(rest) {
                    Ok(Skipped::Reply { len, .. }) => rest = &rest[len..],
                    Ok(Skipped::NeedMore) => break false,
                    Err(_) => break true,
                }
            };
            assert!(refused, "{}", input.escape_ascii());
        }
    }
}
