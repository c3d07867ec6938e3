//! IPv4 without options or fragments (RFC 791).
//!
//! ```text
//!   14     15    16       18   20               22    23         24         26       30            34
//!   | 0x45 | TOS | length | id | flags, offset  | TTL | protocol | checksum | source | destination |
//! ```

use std::net::Ipv4Addr;
use std::ops::Range;

use super::checksum::Sum;
use super::{Checksums, DropReason, Interface, ethernet, field};

/// Bytes of the header.
pub const HEADER_LEN: usize = 20;

/// The header's position in a frame.
pub(super) const PLACE: Range<usize> = ethernet::HEADER_LEN..ethernet::HEADER_LEN + HEADER_LEN;

/// The position of the source address in a frame. The destination address follows.
pub(super) const ADDRESSES: usize = PLACE.start + 12;

/// ICMP's protocol number.
pub const ICMP: u8 = 1;
/// UDP's protocol number.
pub const UDP: u8 = 17;

/// Version 4, and a header of five words.
const VERSION_AND_LEN: u8 = 0x45;
/// A whole datagram that must not be fragmented needs no id (RFC 6864).
const DO_NOT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS_AND_OFFSET: u16 = 0x3fff;
const TTL: u8 = 64;

/// The contents of a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) source: Ipv4Addr,
    pub(super) destination: Ipv4Addr,
    pub(super) protocol: u8,
    /// The position of the payload in the frame, without padding.
    pub(super) payload: Range<usize>,
}

/// Reads the header in a frame whose datagram is for `interface`.
#[inline]
pub(super) fn receive(frame: &[u8], interface: &Interface, verified: Checksums) -> Result<Header, DropReason> {
    let header: [u8; HEADER_LEN] = field(frame, PLACE.start).ok_or(DropReason::WrongLength)?;
    let word = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let address = |at: usize| Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]);
    if header[0] != VERSION_AND_LEN {
        return Err(DropReason::Ipv4Header);
    }
    let end = PLACE.start + usize::from(word(2));
    if end < PLACE.end || end > frame.len() {
        return Err(DropReason::WrongLength);
    }
    let (source, destination) = (address(12), address(16));
    if destination != interface.ip {
        return Err(DropReason::OtherIp);
    }
    if verified == Checksums::Software && Sum::default().bytes(&header).checksum() != 0 {
        return Err(DropReason::BadChecksum);
    }
    if word(6) & MORE_FRAGMENTS_AND_OFFSET != 0 {
        return Err(DropReason::Fragment);
    }
    let unanswerable = source.is_unspecified()
        || source.is_multicast()
        || source.is_broadcast()
        || source.is_loopback()
        || source == interface.ip;
    if unanswerable {
        return Err(DropReason::BadSource);
    }
    Ok(Header {
        source,
        destination,
        protocol: header[9],
        payload: PLACE.end..end,
    })
}

/// Writes the header of a datagram that fills `frame`.
///
/// The checksum is computed from the values rather than from the written bytes: the bytes are written in
/// narrow pieces, and the processor would have to combine them before a wider read.
#[inline]
pub(super) fn write(frame: &mut [u8], source: Ipv4Addr, destination: Ipv4Addr, protocol: u8, checksums: Checksums) {
    let len = u16::try_from(frame.len() - PLACE.start).expect("a datagram has up to 65535 bytes");
    let version_and_tos = u16::from_be_bytes([VERSION_AND_LEN, 0]);
    let ttl_and_protocol = u16::from_be_bytes([TTL, protocol]);
    let checksum = match checksums {
        Checksums::Port => 0,
        Checksums::Software => addresses(source, destination)
            .word(version_and_tos)
            .word(len)
            .word(DO_NOT_FRAGMENT)
            .word(ttl_and_protocol)
            .checksum(),
    };
    let header = &mut frame[PLACE];
    let words = [version_and_tos, len, 0, DO_NOT_FRAGMENT, ttl_and_protocol, checksum];
    for (place, word) in header.as_chunks_mut::<2>().0.iter_mut().zip(words) {
        *place = word.to_be_bytes();
    }
    header[12..16].copy_from_slice(&source.octets());
    header[16..].copy_from_slice(&destination.octets());
}

#[inline]
fn addresses(source: Ipv4Addr, destination: Ipv4Addr) -> Sum {
    Sum::default().bytes(&source.octets()).bytes(&destination.octets())
}

/// The sum of the pseudo header: the part of the header that UDP's checksum covers (RFC 768).
#[inline]
pub(super) fn pseudo_header(source: Ipv4Addr, destination: Ipv4Addr, len: u16) -> Sum {
    addresses(source, destination).word(UDP.into()).word(len)
}
