//! Where a request ends, and how requests are refused.

use std::time::Duration;

use crate::framing::{FrameError, Framing, Rejection, Step};
use crate::sink::Sink;

use super::fields::{FIELDS_MAX, Fields, METHOD, Value, message_of, peek_id};
use super::head::RpcHead;
use super::message::Response;
use super::status::Status;
use super::varint::{Overflow, Varint};

/// Most bytes of the length in front of a message. The length has 32 bits.
pub const PREFIX_LEN_MAX: usize = 5;

/// [`Framing`] of requests: a message behind its length.
///
/// The framing reads the fields of a complete message into its [`RpcHead`] and refuses none. The handler
/// replies to a malformed message with [`Status::InvalidArgument`], and the connection goes on.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Rpc {
    /// Longest message in bytes, not counting the length in front of it; 4 MiB by default.
    pub message_len_max: u32,
}

impl Default for Rpc {
    fn default() -> Self {
        Self { message_len_max: 4 << 20 }
    }
}

limits! {
    Rpc: message_len_max: u32,
}

impl Framing for Rpc {
    type Cursor = ();
    type Head = RpcHead;

    #[inline]
    fn next_frame(&self, _cursor: &mut (), input: &[u8]) -> Result<Step<RpcHead>, FrameError> {
        let prefix = &input[..input.len().min(PREFIX_LEN_MAX)];
        let (len, prefix_len) = match Varint::read(prefix) {
            Ok(Some(read)) => read,
            Ok(None) if prefix.len() < PREFIX_LEN_MAX => {
                return Ok(Step::NeedMore { len_min: input.len() + 1 });
            }
            Ok(None) | Err(Overflow) => {
                return Err(FrameError::new("rpc: the length is not a varint of 32 bits"));
            }
        };
        if len > u64::from(self.message_len_max) {
            return Err(FrameError::new("rpc: message too long"));
        }
        let len = usize::try_from(len).map_or(usize::MAX, |len| len.saturating_add(prefix_len));
        if input.len() < len {
            Ok(Step::NeedMore { len_min: len })
        } else {
            let head = RpcHead::read(&input[..len], prefix_len);
            Ok(Step::Frame { len, head })
        }
    }

    fn deadline(&self, head: &RpcHead) -> Option<Duration> {
        head.deadline()
    }

    /// A response has no method: its field of that number is the status, or missing. So has a request without a
    /// method, which no server can serve.
    #[inline]
    fn is_reply(&self, message: &[u8], head: &RpcHead) -> bool {
        head.method(message).is_none() && has_no_method(message)
    }

    fn replies_in_order(&self) -> bool {
        false
    }

    fn encode_rejection(&self, rejection: &Rejection<'_>, request: &[u8], out: &mut dyn Sink) {
        let status = match rejection {
            Rejection::Busy { .. }
            | Rejection::Overloaded { .. }
            | Rejection::TooManyConnections
            | Rejection::OutOfBuffers => Status::ResourceExhausted,
            Rejection::HandlerFailed | Rejection::Failed(_) | Rejection::ReplyTooLarge { .. } => Status::Internal,
            Rejection::Malformed(_) => Status::InvalidArgument,
            Rejection::Refused(_) => Status::PermissionDenied,
            Rejection::ShuttingDown => Status::Unavailable,
            Rejection::Expired => Status::DeadlineExceeded,
        };
        let id = peek_id(request).unwrap_or_default();
        Response::failed(id, status, rejection.to_string()).encode_frame(out);
    }
}

/// Whether `frame` has a well-formed message of few fields, none of which is a method.
fn has_no_method(frame: &[u8]) -> bool {
    let mut fields = Fields::of(message_of(frame).unwrap_or_default());
    let is_method = |field| matches!(field, (METHOD, Value::Bytes([_, ..])));
    !fields.by_ref().take(FIELDS_MAX).any(is_method) && fields.is_at_end()
}

#[cfg(test)]
mod tests {
    use super::super::Request;
    use super::*;

    fn step(input: &[u8]) -> Result<Step, String> {
        let rpc = Rpc { message_len_max: 300 };
        match rpc.next_frame(&mut (), input) {
            Ok(Step::Frame { len, .. }) => Ok(Step::Frame { len, head: () }),
            Ok(Step::NeedMore { len_min }) => Ok(Step::NeedMore { len_min }),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn frames_are_a_length_and_a_message() {
        assert_eq!(step(b""), Ok(Step::NeedMore { len_min: 1 }));
        assert_eq!(step(b"\0rest"), Ok(Step::Frame { len: 1, head: () }));
        assert_eq!(step(b"\x02a"), Ok(Step::NeedMore { len_min: 3 }));
        assert_eq!(step(b"\x02abc"), Ok(Step::Frame { len: 3, head: () }));
        assert_eq!(step(b"\xac"), Ok(Step::NeedMore { len_min: 2 }));
        assert_eq!(step(b"\xac\x02"), Ok(Step::NeedMore { len_min: 302 }));
    }

    #[test]
    fn responses_are_told_from_requests() {
        let rpc = Rpc::default();
        let is_reply = |frame: &[u8]| {
            let head = rpc.head_of(frame).expect("a frame");
            rpc.is_reply(frame, &head)
        };
        let mut frame = Vec::new();
        let request = Request { id: 7, method: "Echo".to_owned(), ..Request::default() };
        request.encode_frame(&mut frame);
        assert!(!is_reply(&frame));
        let ok = Response { id: 7, payload: frame.clone().into(), ..Response::default() };
        for response in [ok, Response::failed(7, Status::Unimplemented, "no".to_owned())] {
            let mut frame = Vec::new();
            response.encode_frame(&mut frame);
            assert!(is_reply(&frame), "{response:?}");
        }
        assert!(is_reply(b"\0") && is_reply(b"\x02\x10\x05"));
        // A method that is not UTF-8, and a message that is cut off.
        assert!(!is_reply(b"\x05\x08\x07\x12\x01\xff") && !is_reply(b"\x01\x08"));
    }

    #[test]
    fn limits_hold() {
        assert_eq!(step(b"\xad\x02"), Err("rpc: message too long".to_owned()));
        assert_eq!(step(b"\xff\xff\xff\xff\x0f"), Err("rpc: message too long".to_owned()));
        let endless = Err("rpc: the length is not a varint of 32 bits".to_owned());
        assert_eq!(step(b"\x80\x80\x80\x80\x80"), endless);
        assert_eq!(step(b"\x80\x80\x80\x80"), Ok(Step::NeedMore { len_min: 5 }));
    }

    #[test]
    fn refusals_carry_the_id_of_the_request_and_the_reason() {
        let request = Request { id: 77, method: "Scan".to_owned(), ..Request::default() };
        let mut frame = Vec::new();
        request.encode_frame(&mut frame);
        let malformed = FrameError::new("rpc: message too long");
        for (rejection, status, error) in [
            (
                Rejection::Busy { type_name: "scan" },
                Status::ResourceExhausted,
                "typed queue of 'scan' is full",
            ),
            (
                Rejection::Overloaded { type_name: "scan", retry_after: Duration::from_millis(3) },
                Status::ResourceExhausted,
                "overloaded: no further requests of type 'scan' for now",
            ),
            (Rejection::HandlerFailed, Status::Internal, "the handler failed"),
            (Rejection::Failed("no disk"), Status::Internal, "no disk"),
            (
                Rejection::ReplyTooLarge { limit_bytes: 5 },
                Status::Internal,
                "the response is larger than the limit of 5 bytes",
            ),
            (Rejection::Malformed(&malformed), Status::InvalidArgument, "rpc: message too long"),
            (Rejection::TooManyConnections, Status::ResourceExhausted, "too many connections"),
            (Rejection::Refused("not from there"), Status::PermissionDenied, "not from there"),
            (Rejection::OutOfBuffers, Status::ResourceExhausted, "out of buffers"),
            (Rejection::ShuttingDown, Status::Unavailable, "shutting down"),
            (Rejection::Expired, Status::DeadlineExceeded, "the request waited too long"),
        ] {
            for (request, id) in [(&frame[..], 77), (b"", 0)] {
                let mut out = Vec::new();
                Rpc::default().encode_rejection(&rejection, request, &mut out);
                let expected = Response::failed(id, status, error);
                assert_eq!(Response::from_frame(&out), Ok(expected));
            }
        }
    }
}
