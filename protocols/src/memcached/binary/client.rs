//! The client's side of a request.

use crate::sink::Sink;

use super::header::{Header, MAGIC_REQUEST};

/// The parts of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestParts<'a> {
    /// Number of the command.
    pub opcode: u8,
    /// Repeated in the reply.
    pub opaque: u32,
    /// The CAS value that the item must have; 0 for any.
    pub cas: u64,
    /// Arguments; at most 255 bytes.
    pub extras: &'a [u8],
    /// The key; at most 65 535 bytes.
    pub key: &'a [u8],
    /// The value to store.
    pub value: &'a [u8],
}

/// Appends one request.
///
/// # Panics
/// When a part is longer than its length field allows.
pub fn encode_request<S: Sink + ?Sized>(parts: &RequestParts<'_>, out: &mut S) {
    let body_len = parts.extras.len() + parts.key.len() + parts.value.len();
    let header = Header {
        magic: MAGIC_REQUEST,
        opcode: parts.opcode,
        key_len: u16::try_from(parts.key.len()).expect("keys are short"),
        extras_len: u8::try_from(parts.extras.len()).expect("extras are short"),
        status: 0,
        body_len: u32::try_from(body_len).expect("values are shorter than 4 GiB"),
        opaque: parts.opaque,
        cas: parts.cas,
    };
    out.put(&header.encode());
    for part in [parts.extras, parts.key, parts.value] {
        out.put(part);
    }
}
