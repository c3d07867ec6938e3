//! Replies of the binary protocol.

use bytes::Bytes;

use crate::sink::Sink;

use super::header::{Header, MAGIC_REPLY};
use super::opcode::Status;

/// The parts of a reply other than its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyHead<'a> {
    /// The status of the reply.
    pub status: Status,
    /// CAS value of the item; 0 for none.
    pub cas: u64,
    /// Arguments, e.g. the flags of an item; at most 255 bytes.
    pub extras: &'a [u8],
    /// The key, if the request asked for it; at most 65 535 bytes.
    pub key: &'a [u8],
}

impl ReplyHead<'_> {
    /// Success, without CAS value, extras and key.
    pub const DONE: Self = Self { status: Status::NoError, cas: 0, extras: &[], key: &[] };

    /// # Panics
    /// When a part is longer than its length field allows.
    fn encode<S: Sink + ?Sized>(&self, sink: &mut S, request: &Header, value_len: usize) {
        let body_len = self.extras.len() + self.key.len() + value_len;
        let header = Header {
            magic: MAGIC_REPLY,
            opcode: request.opcode,
            key_len: u16::try_from(self.key.len()).expect("keys are short"),
            extras_len: u8::try_from(self.extras.len()).expect("extras are short"),
            status: self.status as u16,
            body_len: u32::try_from(body_len).expect("values are shorter than 4 GiB"),
            opaque: request.opaque,
            cas: self.cas,
        };
        sink.put(&header.encode());
        sink.put(self.extras);
        sink.put(self.key);
    }
}

/// Writes the reply to `request`.
///
/// # Panics
/// When a part is longer than its length field allows.
pub fn reply<S: Sink + ?Sized>(sink: &mut S, request: &Header, head: &ReplyHead<'_>, value: &[u8]) {
    head.encode(sink, request, value.len());
    sink.put(value);
}

/// [`reply`] with a value that the sink may keep a reference to.
///
/// # Panics
/// When a part is longer than its length field allows.
pub fn reply_shared<S: Sink + ?Sized>(sink: &mut S, request: &Header, head: &ReplyHead<'_>, value: Bytes) {
    head.encode(sink, request, value.len());
    sink.put_shared(value);
}

/// Writes the reply with `status` and memcached's text for it to `request`.
pub fn error<S: Sink + ?Sized>(sink: &mut S, request: &Header, status: Status) {
    let head = ReplyHead { status, ..ReplyHead::DONE };
    reply(sink, request, &head, status.text().as_bytes());
}
