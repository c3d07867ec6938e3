//! Requests and responses as structs.

use bytes::Bytes;
use prost::Message;

use crate::framing::FrameError;
use crate::sink::Sink;

use super::encode::{FrameWriter, bytes_len, number_len};
use super::failure::Failure;
use super::fields::{DEADLINE_US, ERROR, Fields, ID, METHOD, PAYLOAD, STATUS, Value, message_of};
use super::status::Status;

const NOT_A_FRAME: FrameError = FrameError::new("rpc: not one whole frame");

/// `psp.rpc.v1.Request`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Request {
    /// Chosen by the client, unique among its requests in flight on the connection. The response has
    /// the same id.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// The name of the method to call.
    #[prost(string, tag = "2")]
    pub method: String,
    /// How long after its arrival the request is useful to the client, in microseconds; 0 for ever.
    #[prost(uint64, tag = "3")]
    pub deadline_us: u64,
    /// The method's own message.
    #[prost(bytes = "bytes", tag = "4")]
    pub payload: Bytes,
}

/// `psp.rpc.v1.Response`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Response {
    /// The id of the request; 0 when the server could not read it.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// A [`Status`]. `status()` reads it, and returns `OK` for an unknown number.
    #[prost(enumeration = "Status", tag = "2")]
    pub status: i32,
    /// What went wrong, for people; empty when the status is `OK`.
    #[prost(string, tag = "3")]
    pub error: String,
    /// The method's own message; empty unless the status is `OK`.
    #[prost(bytes = "bytes", tag = "4")]
    pub payload: Bytes,
}

impl Request {
    /// Decodes a whole frame, including its length.
    ///
    /// # Errors
    /// When `frame` is not exactly one frame, or its message is not a `Request`.
    pub fn from_frame(frame: &[u8]) -> Result<Self, FrameError> {
        decode(frame)
    }

    /// Appends the message behind its length.
    pub fn encode_frame(&self, out: &mut (impl Sink + ?Sized)) {
        let borrowed = RequestRef {
            id: self.id,
            method: &self.method,
            deadline_us: self.deadline_us,
            payload: &self.payload,
        };
        borrowed.encode_frame(out);
    }
}

/// A [`Request`] that borrows its parts: it is encoded and decoded without an allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestRef<'a> {
    /// See [`Request::id`].
    pub id: u64,
    /// See [`Request::method`].
    pub method: &'a str,
    /// See [`Request::deadline_us`].
    pub deadline_us: u64,
    /// See [`Request::payload`].
    pub payload: &'a [u8],
}

impl<'a> RequestRef<'a> {
    /// Decodes a whole frame, including its length, in place. Agrees with [`Request::from_frame`],
    /// except that it refuses groups, which are obsolete.
    ///
    /// # Errors
    /// When `frame` is not exactly one frame, or its message is not a `Request`.
    pub fn from_frame(frame: &'a [u8]) -> Result<Self, FrameError> {
        let mut fields = Fields::of(message_of(frame).ok_or(NOT_A_FRAME)?);
        let mut request = Self { id: 0, method: "", deadline_us: 0, payload: &[] };
        for (number, value) in &mut fields {
            match (number, value) {
                (ID, Value::Varint(id)) => request.id = id,
                (METHOD, Value::Bytes(method)) => {
                    request.method = text_of(method)?;
                }
                (DEADLINE_US, Value::Varint(deadline_us)) => request.deadline_us = deadline_us,
                (PAYLOAD, Value::Bytes(payload)) => request.payload = payload,
                (ID | METHOD | DEADLINE_US | PAYLOAD, _) => {
                    return Err(FrameError::new("rpc: a field has the type of another"));
                }
                _ => {}
            }
        }
        if fields.is_at_end() {
            Ok(request)
        } else {
            Err(FrameError::new("rpc: malformed field"))
        }
    }

    /// Appends the message behind its length.
    pub fn encode_frame(&self, out: &mut (impl Sink + ?Sized)) {
        let len = number_len(self.id)
            + bytes_len(self.method.len())
            + number_len(self.deadline_us)
            + bytes_len(self.payload.len());
        let mut frame = FrameWriter::begin(len, out);
        frame.number(ID, self.id);
        frame.bytes(METHOD, self.method.as_bytes());
        frame.number(DEADLINE_US, self.deadline_us);
        frame.bytes(PAYLOAD, self.payload);
    }
}

impl Response {
    /// The response to a request that failed.
    #[must_use]
    pub fn failed(id: u64, status: Status, error: impl Into<String>) -> Self {
        Self {
            id,
            status: status.into(),
            error: error.into(),
            payload: Bytes::new(),
        }
    }

    /// Decodes a whole frame, including its length.
    ///
    /// # Errors
    /// When `frame` is not exactly one frame, or its message is not a `Response`.
    pub fn from_frame(frame: &[u8]) -> Result<Self, FrameError> {
        decode(frame)
    }

    /// Appends the message behind its length. Shares the payload if `out` can.
    pub fn encode_frame(&self, out: &mut (impl Sink + ?Sized)) {
        let payload_len = self.payload.len();
        let mut frame = begin_response(self.id, self.status, &self.error, payload_len, out);
        frame.shared_bytes(PAYLOAD, &self.payload);
    }
}

/// A [`Response`] that borrows its parts: it is encoded without an allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseRef<'a> {
    /// See [`Response::id`].
    pub id: u64,
    /// See [`Response::status`].
    pub status: Status,
    /// See [`Response::error`].
    pub error: &'a str,
    /// See [`Response::payload`].
    pub payload: &'a [u8],
}

impl<'a> ResponseRef<'a> {
    /// The response to a request that succeeded.
    #[must_use]
    pub const fn ok(id: u64, payload: &'a [u8]) -> Self {
        Self { id, status: Status::Ok, error: "", payload }
    }

    /// The response to a request that failed.
    #[must_use]
    pub fn failed(id: u64, failure: &'a Failure) -> Self {
        Self {
            id,
            status: failure.status,
            error: &failure.error,
            payload: &[],
        }
    }

    /// Appends the message behind its length.
    pub fn encode_frame(&self, out: &mut (impl Sink + ?Sized)) {
        let status = self.status.into();
        let mut frame = begin_response(self.id, status, self.error, self.payload.len(), out);
        frame.bytes(PAYLOAD, self.payload);
    }
}

/// Writes a response up to its payload.
fn begin_response<'s, S: Sink + ?Sized>(
    id: u64,
    status: i32,
    error: &str,
    payload_len: usize,
    out: &'s mut S,
) -> FrameWriter<'s, S> {
    // A negative number has 64 bits on the wire.
    let status = i64::from(status) as u64;
    let len = number_len(id) + number_len(status) + bytes_len(error.len()) + bytes_len(payload_len);
    let mut frame = FrameWriter::begin(len, out);
    frame.number(ID, id);
    frame.number(STATUS, status);
    frame.bytes(ERROR, error.as_bytes());
    frame
}

/// The name of a method.
#[inline]
pub(super) fn text_of(method: &[u8]) -> Result<&str, FrameError> {
    std::str::from_utf8(method).map_err(|_| FrameError::new("rpc: the method is not UTF-8"))
}

fn decode<M: Message + Default>(frame: &[u8]) -> Result<M, FrameError> {
    let message = message_of(frame).ok_or(NOT_A_FRAME)?;
    M::decode(message).map_err(|error| FrameError { reason: format!("rpc: {error}").into() })
}
