//! Writes frames field by field, without an intermediate buffer. The bytes are the same as protobuf's.

use bytes::Bytes;

use crate::sink::Sink;

use super::fields::WireType;
use super::varint::encoded_len;

/// Writes one frame.
pub(super) struct FrameWriter<'a, S: ?Sized> {
    out: &'a mut S,
}

impl<'a, S: Sink + ?Sized> FrameWriter<'a, S> {
    /// Begins the frame of a message of `message_len` bytes.
    pub(super) fn begin(message_len: usize, out: &'a mut S) -> Self {
        let mut writer = Self { out };
        writer.varint(message_len as u64);
        writer
    }

    /// Writes a field of type `uint64` or of an enumeration, unless the value is 0.
    pub(super) fn number(&mut self, number: u32, value: u64) {
        if value != 0 {
            self.varint(WireType::Varint.tag(number));
            self.varint(value);
        }
    }

    /// Writes a field of type `string` or `bytes`, unless it is empty.
    pub(super) fn bytes(&mut self, number: u32, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.len(number, bytes.len());
            self.out.put(bytes);
        }
    }

    /// Like [`bytes`](Self::bytes), with bytes that the sink may share.
    pub(super) fn shared_bytes(&mut self, number: u32, bytes: &Bytes) {
        if !bytes.is_empty() {
            self.len(number, bytes.len());
            self.out.put_shared(bytes.clone());
        }
    }

    fn len(&mut self, number: u32, len: usize) {
        self.varint(WireType::Len.tag(number));
        self.varint(len as u64);
    }

    fn varint(&mut self, value: u64) {
        let mut bytes = [0; 10];
        let len = encoded_len(value);
        for (index, byte) in bytes[..len].iter_mut().enumerate() {
            let more = if index + 1 < len { 0x80 } else { 0 };
            *byte = (value >> (7 * index)) as u8 & 0x7f | more;
        }
        self.out.put(&bytes[..len]);
    }
}

/// Encoded length of a field of type `uint64` or of an enumeration whose number is below 16.
pub(super) fn number_len(value: u64) -> usize {
    if value == 0 { 0 } else { 1 + encoded_len(value) }
}

/// Encoded length of a field of type `string` or `bytes` whose number is below 16.
pub(super) fn bytes_len(len: usize) -> usize {
    if len == 0 { 0 } else { 1 + encoded_len(len as u64) + len }
}
