//! Requests and responses as structs.

use bytes::Bytes;
use prost::Message;

use crate::framing::FrameError;
use crate::sink::Sink;

use super::encode::{FrameWriter, bytes_len, number_len};
use super::fields::{DEADLINE_US, ERROR, ID, METHOD, PAYLOAD, STATUS, message_of};
use super::status::Status;

/// `psp.rpc.v1.Request`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Request {
    /// Chosen by the client, unique among its requests in flight on the connection; echoed.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// What shall be done.
    #[prost(string, tag = "2")]
    pub method: String,
    /// How long after its arrival the request is of use to the client, in microseconds; 0 for ever.
    #[prost(uint64, tag = "3")]
    pub deadline_us: u64,
    /// The method's own message.
    #[prost(bytes = "bytes", tag = "4")]
    pub payload: Bytes,
}

/// `psp.rpc.v1.Response`.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Response {
    /// That of the request; 0 when the server could not read it.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// A [`Status`]; `status()` reads it, and takes a number that is none for `OK`.
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
    /// Decodes a whole frame, its length included.
    ///
    /// # Errors
    /// When it is not one frame, or its message is no `Request`.
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

/// A [`Request`] whose parts lie elsewhere: it is encoded without an allocation.
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

impl RequestRef<'_> {
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
    /// A response that says that the request failed.
    #[must_use]
    pub fn failed(id: u64, status: Status, error: impl Into<String>) -> Self {
        Self {
            id,
            status: status.into(),
            error: error.into(),
            payload: Bytes::new(),
        }
    }

    /// Decodes a whole frame, its length included.
    ///
    /// # Errors
    /// When it is not one frame, or its message is no `Response`.
    pub fn from_frame(frame: &[u8]) -> Result<Self, FrameError> {
        decode(frame)
    }

    /// Appends the message behind its length; shares the payload where `out` can.
    pub fn encode_frame(&self, out: &mut (impl Sink + ?Sized)) {
        // Negative numbers have 64 bits on the wire.
        let status = i64::from(self.status) as u64;
        let len = number_len(self.id)
            + number_len(status)
            + bytes_len(self.error.len())
            + bytes_len(self.payload.len());
        let mut frame = FrameWriter::begin(len, out);
        frame.number(ID, self.id);
        frame.number(STATUS, status);
        frame.bytes(ERROR, self.error.as_bytes());
        frame.shared_bytes(PAYLOAD, &self.payload);
    }
}

fn decode<M: Message + Default>(frame: &[u8]) -> Result<M, FrameError> {
    let message = message_of(frame).ok_or(FrameError::new("rpc: not one whole frame"))?;
    M::decode(message).map_err(|error| FrameError {
        reason: format!("rpc: {error}").into(),
    })
}
