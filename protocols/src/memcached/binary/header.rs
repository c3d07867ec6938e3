//! The header of binary requests and replies.
//!
//! ```text
//!   0        1        2                 4        5        6                 8
//!   +--------+--------+-----------------+--------+--------+-----------------+
//!   | magic  | opcode | key length      | extras | data   | reserved, or    |
//!   |        |        |                 | length | type   | status (reply)  |
//!   +--------+--------+-----------------+--------+--------+-----------------+
//!   | total body length                 | opaque                            |
//!   +-----------------------------------+-----------------------------------+
//!   | CAS                                                                   |
//!   +-----------------------------------------------------------------------+
//!   16                                                                      24
//! ```
//!
//! All integers are in network order. The body is extras, key and value.

/// Bytes of a header.
pub const HEADER_LEN: usize = 24;

/// First byte of a request.
pub const MAGIC_REQUEST: u8 = 0x80;

/// First byte of a reply.
pub const MAGIC_REPLY: u8 = 0x81;

/// A decoded header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// [`MAGIC_REQUEST`] or [`MAGIC_REPLY`].
    pub magic: u8,
    /// Number of the command.
    pub opcode: u8,
    /// Bytes of the key.
    pub key_len: u16,
    /// Bytes of the extras.
    pub extras_len: u8,
    /// Status of a reply; reserved in a request.
    pub status: u16,
    /// Bytes of extras, key and value.
    pub body_len: u32,
    /// Chosen by the client, repeated in its reply.
    pub opaque: u32,
    /// CAS value; 0 for none.
    pub cas: u64,
}

impl Header {
    /// Decodes the header at the start of `bytes`; `None` when there are too few bytes. Checks
    /// nothing, and ignores the data type.
    #[inline]
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let [
            magic,
            opcode,
            k0,
            k1,
            extras_len,
            _data_type,
            s0,
            s1, //
            b0,
            b1,
            b2,
            b3,
            o0,
            o1,
            o2,
            o3,
            cas @ ..,
        ] = *bytes.first_chunk::<HEADER_LEN>()?;
        Some(Self {
            magic,
            opcode,
            key_len: u16::from_be_bytes([k0, k1]),
            extras_len,
            status: u16::from_be_bytes([s0, s1]),
            body_len: u32::from_be_bytes([b0, b1, b2, b3]),
            opaque: u32::from_be_bytes([o0, o1, o2, o3]),
            cas: u64::from_be_bytes(cas),
        })
    }

    /// Encodes the header.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[0] = self.magic;
        bytes[1] = self.opcode;
        bytes[2..4].copy_from_slice(&self.key_len.to_be_bytes());
        bytes[4] = self.extras_len;
        bytes[6..8].copy_from_slice(&self.status.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.body_len.to_be_bytes());
        bytes[12..16].copy_from_slice(&self.opaque.to_be_bytes());
        bytes[16..].copy_from_slice(&self.cas.to_be_bytes());
        bytes
    }

    /// Announced length of extras and key.
    pub(super) fn head_len(&self) -> usize {
        usize::from(self.extras_len) + usize::from(self.key_len)
    }

    /// Length of the value; `None` when extras and key are longer than the body.
    pub(super) fn value_len(&self) -> Option<usize> {
        (self.body_len as usize).checked_sub(self.head_len())
    }
}
