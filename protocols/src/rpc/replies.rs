//! The client's side: where a response ends, to which request it belongs, and with what outcome.

use crate::skip::{NotAReply, Outcome, ReplySkipper, Skipped};

use super::fields::{ERROR, ID, STATUS, WireType, field_of};
use super::status::Status;
use super::varint::{Overflow, Varint};

/// Most bytes of an error's text that are kept.
const ERROR_KEPT: usize = 256;

/// The id and the status of a response.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RpcReply {
    /// The request's id.
    pub id: u64,
    /// The number of its [`Status`], which may be unknown to this crate.
    pub status: i32,
}

/// Skips responses, and keeps the id, the status and the error of the last one. Payloads are not read.
///
/// | status                        | outcome            |
/// |-------------------------------|--------------------|
/// | [`Status::Ok`]                | [`Outcome::Done`]  |
/// | [`Status::NotFound`]          | [`Outcome::Miss`]  |
/// | [`Status::ResourceExhausted`] | [`Outcome::Busy`]  |
/// | all others                    | [`Outcome::Error`] |
///
/// The text of an error is the name of its status, followed by the response's own text.
///
/// ```
/// use psp_protocols::rpc::{Response, RpcSkipper, Status};
/// use psp_protocols::skip::{Outcome, ReplySkipper, Skipped};
///
/// let mut bytes = Vec::new();
/// Response::failed(7, Status::Internal, "disk on fire").encode_frame(&mut bytes);
/// let mut skipper = RpcSkipper::default();
/// let (start, end) = bytes.split_at(9);
/// assert_eq!(skipper.skip(start), Ok(Skipped::NeedMore));
/// let found = Skipped::Reply { len: end.len(), outcome: Outcome::Error };
/// assert_eq!(skipper.skip(end), Ok(found));
/// assert_eq!((skipper.reply().id, skipper.error_text()), (7, "INTERNAL disk on fire"));
/// ```
#[derive(Debug, Clone, Default)]
pub struct RpcSkipper {
    at: At,
    varint: Varint,
    /// Remaining bytes of the message.
    message_left: u64,
    reading: RpcReply,
    read: RpcReply,
    words: Vec<u8>,
    error: String,
}

/// The part of a response that the next byte belongs to.
#[derive(Debug, Clone, Copy, Default)]
enum At {
    /// The message's length.
    #[default]
    Prefix,
    Tag,
    /// The value of the field with this number.
    Varint(u32),
    /// The length of the field with this number.
    Len(u32),
    /// A value to skip, or to keep as the error's text.
    Bytes {
        left: u64,
        are_words: bool,
    },
}

impl From<Overflow> for NotAReply {
    fn from(_: Overflow) -> Self {
        Self("a varint has more than 64 bits")
    }
}

impl RpcSkipper {
    /// The last complete response.
    #[must_use]
    pub const fn reply(&self) -> RpcReply {
        self.read
    }

    /// The part of the response that follows a varint of this value.
    fn after(&mut self, value: u64) -> Result<At, NotAReply> {
        match self.at {
            At::Prefix if value > u64::from(u32::MAX) => Err(NotAReply("the length has more than 32 bits")),
            At::Prefix => {
                self.message_left = value;
                Ok(At::Tag)
            }
            At::Tag => {
                let (number, wire_type) = field_of(value).ok_or(NotAReply("a field's tag is invalid"))?;
                let fixed = |left| At::Bytes { left, are_words: false };
                Ok(match wire_type {
                    WireType::Varint => At::Varint(number),
                    WireType::Len => At::Len(number),
                    WireType::Fixed64 => fixed(8),
                    WireType::Fixed32 => fixed(4),
                })
            }
            At::Varint(number) => {
                match number {
                    ID => self.reading.id = value,
                    // An enumeration is a varint of 64 bits, of which the low 32 count.
                    STATUS => self.reading.status = value as i32,
                    _ => {}
                }
                Ok(At::Tag)
            }
            At::Len(number) => {
                if number == ERROR {
                    self.words.clear();
                }
                Ok(At::Bytes { left: value, are_words: number == ERROR })
            }
            bytes @ At::Bytes { .. } => Ok(bytes),
        }
    }

    fn ended(&mut self) -> Outcome {
        self.at = At::Prefix;
        self.read = std::mem::take(&mut self.reading);
        let status = Status::try_from(self.read.status);
        let outcome = match status {
            Ok(Status::Ok) => Outcome::Done,
            Ok(Status::NotFound) => Outcome::Miss,
            Ok(Status::ResourceExhausted) => Outcome::Busy,
            Ok(_) | Err(_) => Outcome::Error,
        };
        if let Outcome::Busy | Outcome::Error = outcome {
            self.error.clear();
            match status {
                Ok(status) => self.error.push_str(status.name()),
                Err(_) => self.error.push_str(&format!("STATUS_{}", self.read.status)),
            }
            self.error.push(' ');
            self.error.push_str(&String::from_utf8_lossy(&self.words));
        }
        self.words.clear();
        outcome
    }
}

impl ReplySkipper for RpcSkipper {
    fn skip(&mut self, input: &[u8]) -> Result<Skipped, NotAReply> {
        let mut at = 0;
        while at < input.len() {
            let rest = &input[at..];
            let count = if let At::Bytes { left, are_words } = &mut self.at {
                let count = usize::try_from(*left).map_or(rest.len(), |left| left.min(rest.len()));
                if *are_words {
                    let free = ERROR_KEPT - self.words.len();
                    self.words.extend_from_slice(&rest[..count.min(free)]);
                }
                *left -= count as u64;
                count
            } else {
                1
            };
            at += count;
            if !matches!(self.at, At::Prefix) {
                self.message_left -= count as u64;
            }
            if !matches!(self.at, At::Bytes { .. })
                && let Some(value) = self.varint.push(rest[0])?
            {
                self.at = self.after(value)?;
            }
            if let At::Bytes { left, .. } = self.at {
                if left > self.message_left {
                    return Err(NotAReply("a field is longer than its message"));
                }
                if left == 0 {
                    self.at = At::Tag;
                }
            }
            match self.at {
                At::Prefix => {}
                At::Tag if self.message_left == 0 && self.varint.is_new() => {
                    let outcome = self.ended();
                    return Ok(Skipped::Reply { len: at, outcome });
                }
                _ if self.message_left == 0 => return Err(NotAReply("a field is cut off")),
                _ => {}
            }
        }
        Ok(Skipped::NeedMore)
    }

    fn error_text(&self) -> &str {
        self.error.trim_ascii_end()
    }
}
