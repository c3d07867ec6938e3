//! The psp header: 16 bytes in front of a payload, for UDP and for streams.
//!
//! ```text
//!   0        1        2                 4                                   8
//!   +--------+--------+-----------------+-----------------------------------+
//!   | version|  kind  |  type (u16)     |  id (u32)                         |
//!   +--------+--------+-----------------+-----------------------------------+
//!   |  payload length, bytes (u32)      |  requested run time, ns (u32)     |
//!   +-----------------------------------+-----------------------------------+
//!   8                                   12                                  16
//! ```
//!
//! All integers are in network order. `version` is [`VERSION`]. A reply echoes `type`, `id` and
//! `run time`; its kind is [`Kind::Reply`] or [`Kind::Error`]. The payload of an error is UTF-8 text.
//!
//! A request may ask a synthetic server to wait as well, by a payload of exactly [`WAIT_LEN`] bytes:
//!
//! ```text
//!   0                                   4                                   8
//!   +-----------------------------------+-----------------------------------+
//!   |  "wait"                           |  wait, ns (u32)                   |
//!   +-----------------------------------+-----------------------------------+
//! ```
//!
//! The server runs for half of the run time, rounded down, waits, and runs for the rest. Any other payload asks
//! for nothing.

use crate::framing::{FrameError, Framing, Rejection, Step};
use crate::sink::Sink;

/// Bytes of the header.
pub const HEADER_LEN: usize = 16;

/// Bytes of a payload that asks for a wait.
pub const WAIT_LEN: usize = 8;

/// The first bytes of such a payload.
const WAIT_TAG: [u8; 4] = *b"wait";

/// Longest text of a refusal, in bytes.
const TEXT_LEN_MAX: u32 = 4096;

/// The version that this module implements.
pub const VERSION: u8 = 1;

/// The kind of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A request.
    Request = 0,
    /// A reply to the request with the same id.
    Reply = 1,
    /// The request with the same id was refused or failed. The payload is the reason.
    Error = 2,
}

/// A decoded header. See the [module](self) for its layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Request, reply or error.
    pub kind: Kind,
    /// The sender's number for the request's type.
    pub request_type: u16,
    /// Chosen by the client, echoed by the server.
    pub id: u32,
    /// Bytes that follow the header.
    pub payload_len: u32,
    /// How long a synthetic server is to work on the request, in nanoseconds.
    pub run_time_ns: u32,
}

impl Header {
    /// Decodes the header at the start of `bytes`.
    ///
    /// # Errors
    /// When there are fewer than [`HEADER_LEN`] bytes, the version is not [`VERSION`] or the kind
    /// is unknown. Does not check whether the payload is complete.
    pub fn decode(bytes: &[u8]) -> Result<Self, FrameError> {
        let Some(header) = bytes.first_chunk::<HEADER_LEN>() else {
            return Err(FrameError::new("psp header: truncated"));
        };
        let bits = u128::from_be_bytes(*header);
        let [version, kind, ..] = *header;
        if version != VERSION {
            return Err(FrameError::new("psp header: unknown version"));
        }
        let kind = match kind {
            0 => Kind::Request,
            1 => Kind::Reply,
            2 => Kind::Error,
            _ => return Err(FrameError::new("psp header: unknown kind")),
        };
        Ok(Self {
            kind,
            request_type: (bits >> 96) as u16,
            id: (bits >> 64) as u32,
            payload_len: (bits >> 32) as u32,
            run_time_ns: bits as u32,
        })
    }

    /// Encodes the header.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        let bits = u128::from(VERSION) << 120
            | u128::from(self.kind as u8) << 112
            | u128::from(self.request_type) << 96
            | u128::from(self.id) << 64
            | u128::from(self.payload_len) << 32
            | u128::from(self.run_time_ns);
        bits.to_be_bytes()
    }
}

/// The payload that asks for a wait of so many nanoseconds.
#[must_use]
pub fn encode_wait(wait_ns: u32) -> [u8; WAIT_LEN] {
    (u64::from(u32::from_be_bytes(WAIT_TAG)) << 32 | u64::from(wait_ns)).to_be_bytes()
}

/// The wait in nanoseconds that a request's payload asks for; 0 if it asks for none.
#[must_use]
pub fn decode_wait(payload: &[u8]) -> u32 {
    match payload.split_first_chunk() {
        Some((&WAIT_TAG, wait_ns)) => <[u8; 4]>::try_from(wait_ns).map_or(0, u32::from_be_bytes),
        _ => 0,
    }
}

/// [`Framing`] by the psp header.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PspFraming {
    /// Longest accepted payload in bytes.
    pub payload_len_max: u32,
}

impl Default for PspFraming {
    /// Payloads of up to 64 KiB.
    fn default() -> Self {
        Self { payload_len_max: 64 * 1024 }
    }
}

limits! {
    PspFraming: payload_len_max: u32,
}

impl Framing for PspFraming {
    type Cursor = ();
    type Head = ();

    fn next_frame(&self, _cursor: &mut (), input: &[u8]) -> Result<Step, FrameError> {
        if input.len() < HEADER_LEN {
            return Ok(Step::NeedMore { len_min: HEADER_LEN });
        }
        let header = Header::decode(input)?;
        if header.kind != Kind::Request {
            return Err(FrameError::new("psp header: not a request"));
        }
        if header.payload_len > self.payload_len_max {
            return Err(FrameError::new("psp header: payload too long"));
        }
        let len = HEADER_LEN + header.payload_len as usize;
        if input.len() < len {
            Ok(Step::NeedMore { len_min: len })
        } else {
            Ok(Step::Frame { len, head: () })
        }
    }

    fn replies_in_order(&self) -> bool {
        false
    }

    fn encode_rejection(&self, rejection: &Rejection<'_>, request: &[u8], out: &mut dyn Sink) {
        let text = match rejection {
            Rejection::Busy { .. } => "busy",
            Rejection::Overloaded { .. } => "overloaded",
            Rejection::HandlerFailed => "handler failed",
            Rejection::Failed(text) => text,
            Rejection::ReplyTooLarge { .. } => "reply too large",
            Rejection::Malformed(error) => &error.reason,
            Rejection::TooManyConnections => "too many connections",
            Rejection::Refused(reason) => reason,
            Rejection::OutOfBuffers => "out of buffers",
            Rejection::ShuttingDown => "shutting down",
            Rejection::Expired => "expired",
        };
        let (request_type, id, run_time_ns) =
            Header::decode(request).map_or((0, 0, 0), |header| (header.request_type, header.id, header.run_time_ns));
        let text = &text.as_bytes()[..text.len().min(TEXT_LEN_MAX as usize)];
        let payload_len = u32::try_from(text.len()).unwrap_or(TEXT_LEN_MAX);
        let header = Header {
            kind: Kind::Error,
            request_type,
            id,
            payload_len,
            run_time_ns,
        };
        out.put(&header.encode());
        out.put(text);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const HEADER: Header = Header {
        kind: Kind::Request,
        request_type: 0x0102,
        id: 0x0304_0506,
        payload_len: 2,
        run_time_ns: 0x0708_090a,
    };

    fn step(bytes: &[u8]) -> Result<Step, FrameError> {
        PspFraming { payload_len_max: 2 }.next_frame(&mut (), bytes)
    }

    fn refused(rejection: &Rejection<'_>, request: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        PspFraming::default().encode_rejection(rejection, request, &mut out);
        out
    }

    #[test]
    fn the_layout_is_fixed() {
        let bytes = [1, 0, 1, 2, 3, 4, 5, 6, 0, 0, 0, 2, 7, 8, 9, 10];
        assert_eq!(HEADER.encode(), bytes);
        assert_eq!(Header::decode(&bytes), Ok(HEADER));
    }

    #[test]
    fn a_payload_of_its_own_asks_for_a_wait_and_no_other_does() {
        let payload = encode_wait(0x0102_0304);
        assert_eq!(&payload, b"wait\x01\x02\x03\x04");
        assert_eq!(decode_wait(&payload), 0x0102_0304);
        for other in [&payload[..7], b"wait\0\0\0\x01\0", b"Wait\0\0\0\x01", b""] {
            assert_eq!(decode_wait(other), 0, "{other:?}");
        }
    }

    #[test]
    fn frames_are_header_and_payload() {
        let mut bytes = HEADER.encode().to_vec();
        assert_eq!(step(&bytes[..7]), Ok(Step::NeedMore { len_min: 16 }));
        assert_eq!(step(&bytes), Ok(Step::NeedMore { len_min: 18 }));
        bytes.extend_from_slice(b"abc");
        assert_eq!(step(&bytes), Ok(Step::Frame { len: 18, head: () }));
    }

    #[test]
    fn messages_that_are_not_requests_are_refused() {
        let with = |index: usize, byte: u8| {
            let mut bytes = HEADER.encode();
            bytes[index] = byte;
            step(&bytes).map_err(|error| error.to_string())
        };
        let refusal = |reason: &str| Err(format!("psp header: {reason}"));
        assert_eq!(with(0, 2), refusal("unknown version"));
        assert_eq!(with(1, 3), refusal("unknown kind"));
        assert_eq!(with(1, 1), refusal("not a request"));
        assert_eq!(with(11, 3), refusal("payload too long"));
        assert!(Header::decode(&[VERSION; 15]).is_err());
    }

    #[test]
    fn refusals_carry_their_reason_and_the_id_of_the_request() {
        let request = HEADER.encode();
        let error = FrameError::new("psp header: unknown kind");
        let cases = [
            (Rejection::Busy { type_name: "long" }, "busy"),
            (Rejection::Overloaded { type_name: "long", retry_after: Duration::ZERO }, "overloaded"),
            (Rejection::HandlerFailed, "handler failed"),
            (Rejection::Failed("no disk"), "no disk"),
            (Rejection::ReplyTooLarge { limit_bytes: 1 }, "reply too large"),
            (Rejection::Malformed(&error), "psp header: unknown kind"),
            (Rejection::TooManyConnections, "too many connections"),
            (Rejection::Refused("not from there"), "not from there"),
            (Rejection::OutOfBuffers, "out of buffers"),
            (Rejection::ShuttingDown, "shutting down"),
            (Rejection::Expired, "expired"),
        ];
        for (rejection, text) in cases {
            let reply = refused(&rejection, &request);
            let header = Header::decode(&reply).expect("an encoded header");
            assert_eq!((header.kind, header.id), (Kind::Error, HEADER.id));
            assert_eq!(&reply[HEADER_LEN..], text.as_bytes());
        }
        let unasked = refused(&Rejection::TooManyConnections, b"");
        assert_eq!(Header::decode(&unasked).map(|header| header.id), Ok(0));
    }
}
