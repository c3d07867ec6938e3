//! The frame header of memcached's UDP protocol (`doc/protocol.txt`, "UDP protocol").
//!
//! ```text
//!   0                 2                 4                 6                 8
//!   +-----------------+-----------------+-----------------+-----------------+--------
//!   | request id      | sequence number | datagrams       | reserved, 0     | text, meta or binary
//!   +-----------------+-----------------+-----------------+-----------------+--------
//! ```
//!
//! All integers are in network order. The client chooses the id, and every datagram of the reply repeats
//! it. The datagrams of a reply are numbered from 0. As in memcached, a request is one datagram: its
//! sequence number is ignored, and it is dropped if its count of datagrams is not 1. memcached numbers the
//! datagrams of each value of a multiget from 0; here the numbers run through the whole reply, as
//! memcached's document says.
//!
//! [`MemcachedFraming`](super::MemcachedFraming) uses this header for datagrams of any transport. A
//! client orders the parts of a reply with [`Reassembly`].

mod reassembly;

pub use reassembly::Reassembly;

use crate::envelope::{Envelope, Part, Shape};

/// Bytes of the header.
pub const HEADER_LEN: usize = 8;

/// Longest datagram that memcached sends, in bytes, including the header.
pub const DATAGRAM_LEN_MAX: usize = 1400;

/// A decoded header. See the [module](self) for its layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Chosen by the client, echoed by the server.
    pub request_id: u16,
    /// Number of this datagram in its message, from 0.
    pub sequence: u16,
    /// Number of datagrams of the message.
    pub count: u16,
    /// 0 when sent, ignored when received.
    pub reserved: u16,
}

impl Header {
    /// The header of a request.
    #[must_use]
    pub fn request(request_id: u16) -> Self {
        Self { request_id, sequence: 0, count: 1, reserved: 0 }
    }

    /// Decodes the header at the start of `bytes`; `None` when there are fewer than [`HEADER_LEN`].
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bits = u64::from_be_bytes(*bytes.first_chunk()?);
        Some(Self {
            request_id: (bits >> 48) as u16,
            sequence: (bits >> 32) as u16,
            count: (bits >> 16) as u16,
            reserved: bits as u16,
        })
    }

    /// Encodes the header.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        let bits = u64::from(self.request_id) << 48
            | u64::from(self.sequence) << 32
            | u64::from(self.count) << 16
            | u64::from(self.reserved);
        bits.to_be_bytes()
    }
}

/// [`Envelope`] of memcached's datagrams.
#[derive(Debug, Clone, Copy)]
pub struct UdpEnvelope;

impl Envelope for UdpEnvelope {
    fn shape(&self) -> Shape {
        Shape {
            header_len: HEADER_LEN,
            datagram_len_max: DATAGRAM_LEN_MAX,
            parts_max: u16::MAX,
        }
    }

    fn accepts(&self, header: &[u8]) -> bool {
        Header::decode(header).is_some_and(|header| header.count == 1)
    }

    fn encode_header(&self, request_header: &[u8], part: Part, header: &mut [u8]) {
        let request_id = Header::decode(request_header).map_or(0, |header| header.request_id);
        let reply = Header {
            request_id,
            sequence: part.sequence,
            count: part.count,
            reserved: 0,
        };
        header.copy_from_slice(&reply.encode());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envelope::send_parts;

    #[test]
    fn the_layout_is_fixed() {
        let header = Header {
            request_id: 0x0102,
            sequence: 0x0304,
            count: 0x0506,
            reserved: 0x0708,
        };
        assert_eq!(header.encode(), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(Header::decode(&[1, 2, 3, 4, 5, 6, 7, 8, 9]), Some(header));
        assert_eq!(Header::decode(&[0; 7]), None);
    }

    #[test]
    fn requests_of_one_datagram_are_accepted() {
        for (count, accepted) in [(0, false), (1, true), (2, false), (0x0101, false)] {
            let header = Header {
                count,
                // memcached ignores both.
                sequence: 3,
                reserved: 5,
                ..Header::request(7)
            };
            assert_eq!(UdpEnvelope.accepts(&header.encode()), accepted, "{count}");
        }
        assert!(!UdpEnvelope.accepts(&[0; 7]));
    }

    #[test]
    fn replies_are_cut_as_memcached_cuts_them() {
        // memcached 1.6.18 sends a value of 5000 bytes in datagrams of 1400, 1400, 1400 and 857 bytes.
        let reply: Vec<u8> = (0..5025).map(|index| (index % 251) as u8).collect();
        let mut buffer = [&[0; HEADER_LEN][..], &reply].concat();
        let mut parts = Vec::new();
        let request = Header::request(0xfffe).encode();
        send_parts(&UdpEnvelope, &request, &mut buffer, |datagram| {
            parts.push(datagram.to_vec());
            true
        });
        let lens: Vec<usize> = parts.iter().map(Vec::len).collect();
        assert_eq!(lens, [1400, 1400, 1400, 857]);
        for (sequence, part) in (0..).zip(&parts) {
            let expected = Header { sequence, count: 4, ..Header::request(0xfffe) };
            assert_eq!(Header::decode(part), Some(expected));
        }
        let joined: Vec<u8> = parts.iter().flat_map(|part| &part[HEADER_LEN..]).copied().collect();
        assert_eq!(joined, reply);
    }
}
