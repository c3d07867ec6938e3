//! Where a binary request ends.

use crate::framing::{FrameError, Framing, Rejection, Step};
use crate::memcached::item::block_len_max;
use crate::sink::Sink;

use super::encoder::error;
use super::header::{HEADER_LEN, Header, MAGIC_REQUEST};
use super::opcode::Status;

/// [`Framing`] of the binary protocol.
///
/// A frame is a header and its body. If the item of a request is too large, the frame is the header,
/// extras and key alone, and [`discard_after`](Framing::discard_after) is the length of the value.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct BinaryFraming {
    /// Longest item in bytes, including key, value and what memcached adds; 1 MiB by default.
    pub item_len_max: usize,
}

impl Default for BinaryFraming {
    fn default() -> Self {
        Self { item_len_max: 1 << 20 }
    }
}

limits! {
    BinaryFraming: item_len_max: usize,
}

/// The first byte is not that of a request. As in memcached, there is no reply.
const INVALID_MAGIC: FrameError = FrameError::new("memcached binary: invalid magic");

/// Length of a frame, and of the rest of its body.
struct Extent {
    frame_len: usize,
    discard: usize,
}

impl Framing for BinaryFraming {
    type Cursor = ();
    type Head = ();

    #[inline]
    fn next_frame(&self, _cursor: &mut (), input: &[u8]) -> Result<Step, FrameError> {
        match input.first() {
            None | Some(&MAGIC_REQUEST) => {}
            Some(_) => return Err(INVALID_MAGIC),
        }
        let Some(header) = Header::decode(input) else {
            return Ok(Step::NeedMore { len_min: HEADER_LEN });
        };
        let len = self.extent(&header).frame_len;
        if input.len() < len {
            Ok(Step::NeedMore { len_min: len })
        } else {
            Ok(Step::Frame { len, head: () })
        }
    }

    fn discard_after(&self, frame: &[u8], _head: &()) -> u64 {
        Header::decode(frame).map_or(0, |header| self.extent(&header).discard as u64)
    }

    fn encode_rejection(&self, rejection: &Rejection<'_>, request: &[u8], out: &mut dyn Sink) {
        let status = match rejection {
            // There is no request to reply to.
            Rejection::Malformed(_) | Rejection::TooManyConnections | Rejection::Refused(_) => {
                return;
            }
            Rejection::Busy { .. } | Rejection::Overloaded { .. } => Status::Busy,
            Rejection::HandlerFailed | Rejection::Failed(_) | Rejection::ReplyTooLarge { .. } => Status::InternalError,
            Rejection::OutOfBuffers => Status::OutOfMemory,
            Rejection::ShuttingDown | Rejection::Expired => Status::TemporaryFailure,
        };
        if let Some(header) = Header::decode(request) {
            error(out, &header, status);
        }
    }
}

impl BinaryFraming {
    fn extent(&self, header: &Header) -> Extent {
        let body_len = header.body_len as usize;
        let key_len = usize::from(header.key_len);
        // A body too short for its extras and key has no value. `Request::parse` has the error.
        let value_len = header.value_len().unwrap_or(0);
        let fits = value_len + 2 <= block_len_max(self.item_len_max, key_len);
        let discard = if fits { 0 } else { value_len };
        Extent { frame_len: HEADER_LEN + body_len - discard, discard }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SET: Header = Header {
        magic: MAGIC_REQUEST,
        opcode: 1,
        key_len: 1,
        extras_len: 8,
        status: 0,
        body_len: 14,
        opaque: 0x0102_0304,
        cas: 0,
    };

    fn step(bytes: &[u8]) -> Result<Step, FrameError> {
        BinaryFraming::default().next_frame(&mut (), bytes)
    }

    #[test]
    fn frames_are_header_and_body() {
        let mut bytes = SET.encode().to_vec();
        assert_eq!(step(&bytes[..1]), Ok(Step::NeedMore { len_min: 24 }));
        assert_eq!(step(&bytes), Ok(Step::NeedMore { len_min: 38 }));
        bytes.extend_from_slice(&[0; 20]);
        assert_eq!(step(&bytes), Ok(Step::Frame { len: 38, head: () }));
        assert_eq!(BinaryFraming::default().discard_after(&bytes[..38], &()), 0);
        assert_eq!(step(b"get k\r\n"), Err(INVALID_MAGIC));
    }

    #[test]
    fn values_that_are_too_large_are_not_buffered() {
        let framing = BinaryFraming::default();
        let with_body = |body_len| {
            let header = Header { body_len, ..SET };
            [&header.encode()[..], &[0; 9]].concat()
        };
        let largest = with_body(9 + 1_048_516);
        let len_min = largest.len() + 1_048_516;
        assert_eq!(step(&largest), Ok(Step::NeedMore { len_min }));
        for value_len in [1_048_517, u32::MAX - 9] {
            let frame = with_body(9 + value_len);
            assert_eq!(step(&frame), Ok(Step::Frame { len: 33, head: () }));
            assert_eq!(framing.discard_after(&frame, &()), u64::from(value_len));
        }
        // Key and extras do not fit into the body: there is no value that could be too large.
        assert_eq!(step(&with_body(3)), Ok(Step::Frame { len: 27, head: () }));
    }

    #[test]
    fn refusals_repeat_the_opcode_and_opaque_of_the_request() {
        for (rejection, status) in [
            (Rejection::Busy { type_name: "a" }, Status::Busy),
            (Rejection::Overloaded { type_name: "a", retry_after: Duration::ZERO }, Status::Busy),
            (Rejection::HandlerFailed, Status::InternalError),
            (Rejection::Failed("no disk"), Status::InternalError),
            (Rejection::ReplyTooLarge { limit_bytes: 1 }, Status::InternalError),
            (Rejection::OutOfBuffers, Status::OutOfMemory),
            (Rejection::ShuttingDown, Status::TemporaryFailure),
            (Rejection::Expired, Status::TemporaryFailure),
        ] {
            let mut out = Vec::new();
            BinaryFraming::default().encode_rejection(&rejection, &SET.encode(), &mut out);
            let reply = Header::decode(&out).expect("a reply");
            assert_eq!((reply.opcode, reply.opaque, reply.status), (1, SET.opaque, status as u16));
            assert_eq!(&out[HEADER_LEN..], status.text().as_bytes());
        }
        let mut out = Vec::new();
        for rejection in [
            Rejection::Malformed(&INVALID_MAGIC),
            Rejection::TooManyConnections,
            Rejection::Refused("not from there"),
        ] {
            BinaryFraming::default().encode_rejection(&rejection, b"", &mut out);
            assert!(out.is_empty());
        }
    }
}
