//! Requests of the binary protocol.

use crate::memcached::item::KEY_LEN_MAX;
use crate::sink::Sink;

use super::encoder::error;
use super::header::{HEADER_LEN, Header, MAGIC_REQUEST};
use super::opcode::{Command, Opcode, Status};

/// One binary request, borrowed from its frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request<'a> {
    /// Its header, for the reply.
    pub header: Header,
    /// The command, and whether it is quiet.
    pub opcode: Opcode,
    /// The key; empty for commands without one, at most 250 bytes.
    pub key: &'a [u8],
    /// The arguments of the command.
    pub extras: Extras,
    /// The value to store; empty for commands without one.
    pub value: &'a [u8],
}

/// Arguments of a command in binary form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extras {
    /// No arguments.
    None,
    /// `Set`, `Add`, `Replace`
    Store {
        /// Opaque to the server.
        flags: u32,
        /// Seconds from now, or Unix time if beyond 30 days; 0 for never.
        exptime: u32,
    },
    /// `Increment`, `Decrement`
    Arithmetic {
        /// The number to add or subtract.
        delta: u64,
        /// The value of a number that does not exist yet.
        initial: u64,
        /// Expiration time of a new number; with `u32::MAX`, none is created.
        exptime: u32,
    },
    /// `Touch`, `GetAndTouch`, `GetKeyAndTouch`, and `Flush` with a delay
    Exptime(u32),
    /// `Verbosity`
    Level(u32),
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{}", status.text())]
pub struct RequestError {
    /// The header of the request.
    pub header: Header,
    /// The status of the reply.
    pub status: Status,
    /// Whether memcached closes the connection after the reply.
    pub closes: bool,
}

impl RequestError {
    /// Writes the reply. Quiet commands get error replies, too.
    pub fn encode<S: Sink + ?Sized>(&self, sink: &mut S) {
        error(sink, &self.header, self.status);
    }
}

/// The parts of a command's body.
struct Form {
    key: Presence,
    extras: Presence,
    value: Presence,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Presence {
    Absent,
    Optional,
    Required,
}

impl Presence {
    const fn allows(self, is_present: bool) -> bool {
        match self {
            Self::Absent => !is_present,
            Self::Optional => true,
            Self::Required => is_present,
        }
    }
}

impl Form {
    const fn of(command: Command) -> Self {
        use Presence::{Absent, Optional, Required};
        let (key, extras, value) = match command {
            Command::Get | Command::GetKey | Command::Delete => (Required, Absent, Absent),
            Command::Set | Command::Add | Command::Replace => (Required, Required, Optional),
            Command::Append | Command::Prepend => (Required, Absent, Optional),
            Command::Increment | Command::Decrement => (Required, Required, Absent),
            Command::Touch | Command::GetAndTouch | Command::GetKeyAndTouch => (Required, Required, Absent),
            Command::Flush => (Absent, Optional, Absent),
            Command::Verbosity => (Absent, Required, Absent),
            Command::Stat => (Optional, Absent, Absent),
            Command::SaslList => (Absent, Absent, Absent),
            Command::SaslAuth | Command::SaslStep => (Required, Absent, Optional),
            Command::Quit | Command::Noop | Command::Version => (Absent, Absent, Absent),
        };
        Self { key, extras, value }
    }
}

impl Extras {
    /// The arguments of `command` in `bytes`; `None` when there are too few or too many bytes.
    fn parse(command: Command, bytes: &[u8]) -> Option<Self> {
        let u32_at = |at: usize| bytes[at..].first_chunk().map(|part| u32::from_be_bytes(*part));
        let u64_at = |at: usize| bytes[at..].first_chunk().map(|part| u64::from_be_bytes(*part));
        Some(match (command, bytes.len()) {
            (_, 0) => Self::None,
            (Command::Set | Command::Add | Command::Replace, 8) => {
                Self::Store { flags: u32_at(0)?, exptime: u32_at(4)? }
            }
            (Command::Increment | Command::Decrement, 20) => {
                Self::Arithmetic { delta: u64_at(0)?, initial: u64_at(8)?, exptime: u32_at(16)? }
            }
            (Command::Verbosity, 4) => Self::Level(u32_at(0)?),
            (Command::Touch | Command::GetAndTouch | Command::GetKeyAndTouch | Command::Flush, 4) => {
                Self::Exptime(u32_at(0)?)
            }
            _ => return None,
        })
    }
}

impl<'a> Request<'a> {
    /// Parses `frame`, one whole request that [`BinaryFraming`](super::BinaryFraming) found; `None`
    /// when `frame` does not start with the header of a request.
    ///
    /// # Errors
    /// [`RequestError`], which is the reply to the request. If the frame has no value, the value was
    /// too long for the framing.
    #[inline]
    #[must_use]
    pub fn parse(frame: &'a [u8]) -> Option<Result<Self, RequestError>> {
        let header = Header::decode(frame).filter(|header| header.magic == MAGIC_REQUEST)?;
        Some(Self::of_header(header, &frame[HEADER_LEN..]))
    }

    fn of_header(header: Header, body: &'a [u8]) -> Result<Self, RequestError> {
        let refusal = |status, closes| RequestError { header, status, closes };
        let malformed = refusal(Status::InvalidArguments, true);
        let unknown = |closes| refusal(Status::UnknownCommand, closes);
        let value_len = header.value_len().ok_or(unknown(true))?;
        if usize::from(header.key_len) > KEY_LEN_MAX {
            return Err(malformed);
        }
        let opcode = Opcode::from_number(header.opcode).ok_or(unknown(false))?;
        let (extras, after) = body.split_at_checked(header.extras_len.into()).ok_or(malformed)?;
        let (key, value) = after.split_at_checked(header.key_len.into()).ok_or(malformed)?;
        let form = Form::of(opcode.command);
        if !form.key.allows(!key.is_empty())
            || !form.extras.allows(!extras.is_empty())
            || !form.value.allows(value_len > 0)
        {
            return Err(malformed);
        }
        let extras = Extras::parse(opcode.command, extras).ok_or(malformed)?;
        if value.len() != value_len {
            return Err(refusal(Status::ValueTooLarge, false));
        }
        Ok(Self { header, opcode, key, extras, value })
    }
}

#[cfg(test)]
mod tests {
    use crate::memcached::binary::client::{RequestParts, encode_request};

    use super::*;

    fn frame(opcode: u8, extras: &[u8], key: &[u8], value: &[u8]) -> Vec<u8> {
        let parts = RequestParts { opcode, opaque: 7, cas: 9, extras, key, value };
        let mut frame = Vec::new();
        encode_request(&parts, &mut frame);
        frame
    }

    fn status(frame: &[u8]) -> Status {
        match Request::parse(frame).expect("a frame") {
            Ok(_) => Status::NoError,
            Err(error) => error.status,
        }
    }

    #[test]
    fn arguments_are_read() {
        let set = frame(0x11, &[0, 0, 0, 1, 0, 0, 0, 2], b"key", b"value");
        let request = Request::parse(&set).expect("a frame").expect("valid");
        assert_eq!(request.opcode.command, Command::Set);
        assert!(request.opcode.quiet);
        assert_eq!((request.key, request.value), (&b"key"[..], &b"value"[..]));
        assert_eq!((request.header.opaque, request.header.cas), (7, 9));
        let extras = Extras::Store { flags: 1, exptime: 2 };
        assert_eq!(request.extras, extras);
        let mut extras = [0; 20];
        (extras[7], extras[15], extras[19]) = (3, 4, 5);
        let incr = frame(0x05, &extras, b"k", b"");
        let request = Request::parse(&incr).expect("a frame").expect("valid");
        let extras = Extras::Arithmetic { delta: 3, initial: 4, exptime: 5 };
        assert_eq!(request.extras, extras);
    }

    #[test]
    fn each_command_has_its_form() {
        // Opcodes, bytes of extras, key.
        for (opcodes, extras_len, key) in [
            (&[0x00, 0x09, 0x0c, 0x0d, 0x04, 0x14][..], 0, "k"),
            (&[0x01, 0x02, 0x03, 0x11, 0x12, 0x13], 8, "k"),
            (&[0x0e, 0x0f, 0x19, 0x1a], 0, "k"),
            (&[0x05, 0x06, 0x15, 0x16], 20, "k"),
            (&[0x1c, 0x1d, 0x1e, 0x23, 0x24], 4, "k"),
            (&[0x08, 0x18], 4, ""),
            (&[0x1b], 4, ""),
            (&[0x10], 0, ""),
            (&[0x07, 0x0a, 0x0b, 0x17], 0, ""),
        ] {
            for &opcode in opcodes {
                let extras = vec![0; extras_len];
                let status_of = |extras: &[u8], key: &str| status(&frame(opcode, extras, key.as_bytes(), b""));
                assert_eq!(status_of(&extras, key), Status::NoError, "{opcode:#x}");
                let longer = [&extras[..], &[0]].concat();
                let wrong = status_of(&longer, key);
                assert_eq!(wrong, Status::InvalidArguments, "{opcode:#x}");
                let may_lack = extras_len == 0 || matches!(opcode, 0x08 | 0x18);
                let lacking = status_of(b"", key);
                assert_eq!(lacking == Status::NoError, may_lack, "{opcode:#x}");
                let other_key = if key.is_empty() { "k" } else { "" };
                let wrong = status_of(&extras, other_key);
                assert_eq!(wrong == Status::NoError, opcode == 0x10, "{opcode:#x}");
            }
        }
        assert_eq!(status(&frame(0x00, b"", b"k", b"v")), Status::InvalidArguments);
        assert_eq!(status(&frame(0x0e, b"", b"k", b"v")), Status::NoError);
    }

    #[test]
    fn headers_are_checked() {
        assert_eq!(Request::parse(b"get k\r\n"), None);
        assert_eq!(Request::parse(&[0x81; 24]), None);
        assert_eq!(status(&frame(0x40, b"", b"k", b"")), Status::UnknownCommand);
        let long = [b'k'; KEY_LEN_MAX + 1];
        let error = Request::parse(&frame(0, b"", &long, b"")).map(Result::unwrap_err);
        let error = error.expect("a frame");
        assert_eq!(error.status, Status::InvalidArguments);
        assert!(error.closes);
        // Key and extras beyond the body.
        let mut short = frame(0, b"", b"key", b"");
        short[3] = 4;
        assert_eq!(status(&short), Status::UnknownCommand);
        // The value of a set was too long for the framing.
        let set = frame(1, &[0; 8], b"k", b"value");
        let cut = &set[..set.len() - 5];
        assert_eq!(status(cut), Status::ValueTooLarge);
        let mut out = Vec::new();
        Request::parse(cut).expect("a frame").expect_err("too large").encode(&mut out);
        let reply = Header::decode(&out).expect("a reply");
        assert_eq!((reply.magic, reply.opaque, reply.status), (0x81, 7, 3));
        assert_eq!(&out[HEADER_LEN..], b"Too large.");
    }
}
