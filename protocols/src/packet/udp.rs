//! UDP (RFC 768).
//!
//! ```text
//!   34            36                 38       40         42
//!   | source port | destination port | length | checksum | payload |
//! ```

use std::net::{Ipv4Addr, SocketAddrV4};
use std::ops::Range;

use super::ethernet::{self, MacAddr};
use super::{Checksums, DropReason, Interface, field, ipv4};

/// Bytes of the header.
pub const HEADER_LEN: usize = 8;

/// Bytes of all headers in front of a payload.
pub const HEADERS_LEN: usize = ipv4::PLACE.end + HEADER_LEN;

/// Longest payload of a datagram in an Ethernet frame whose own payload is at most `mtu` bytes long.
#[must_use]
pub const fn payload_len_max(mtu: u16) -> usize {
    (mtu as usize).saturating_sub(ipv4::HEADER_LEN + HEADER_LEN)
}

/// One end of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// The station's address.
    pub mac: MacAddr,
    /// The host's address.
    pub ip: Ipv4Addr,
    /// The UDP port.
    pub port: u16,
}

/// Where datagrams come from and go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    /// The sender.
    pub source: End,
    /// The receiver.
    pub destination: End,
}

impl Flow {
    /// The flow of a frame in which [`Interface::receive`] found a datagram.
    ///
    /// # Panics
    /// When `frame` is shorter than [`HEADERS_LEN`] bytes.
    #[inline]
    #[must_use]
    pub fn of(frame: &[u8]) -> Self {
        // Ethernet has the destination first, IPv4 and UDP have the source first.
        let end = |end: usize| End {
            mac: MacAddr(part(frame, 6 * (1 - end))),
            ip: Ipv4Addr::from(part::<4>(frame, ipv4::ADDRESSES + 4 * end)),
            port: u16::from_be_bytes(part(frame, ipv4::PLACE.end + 2 * end)),
        };
        Self { source: end(0), destination: end(1) }
    }

    /// The flow of the reply: source and destination are exchanged.
    #[inline]
    #[must_use]
    pub fn reversed(self) -> Self {
        Self { source: self.destination, destination: self.source }
    }

    /// Writes all headers into the first [`HEADERS_LEN`] bytes of `frame`, in front of the payload. With
    /// [`Checksums::Port`], UDP's checksum is the sum of the pseudo header and IPv4's is 0, as ports
    /// expect.
    ///
    /// # Panics
    /// When `frame` has no room for the headers, or the payload is longer than 65 507 bytes.
    #[inline]
    pub fn write_headers(&self, frame: &mut [u8], checksums: Checksums) {
        let Self { source, destination } = self;
        let header = ethernet::Header {
            destination: destination.mac,
            source: source.mac,
            ether_type: ethernet::IPV4,
        };
        header.write(frame);
        ipv4::write(frame, source.ip, destination.ip, ipv4::UDP, checksums);
        let datagram = &mut frame[ipv4::PLACE.end..];
        let len = u16::try_from(datagram.len()).expect("IPv4's length was as long");
        let (header, payload) = datagram.split_first_chunk_mut::<HEADER_LEN>().expect("there is room for headers");
        let pseudo_header = ipv4::pseudo_header(source.ip, destination.ip, len);
        let checksum = match checksums {
            Checksums::Port => pseudo_header.folded(),
            Checksums::Software => {
                let ports = pseudo_header.word(source.port).word(destination.port);
                match ports.word(len).bytes(payload).checksum() {
                    // 0 means that there is no checksum.
                    0 => 0xffff,
                    checksum => checksum,
                }
            }
        };
        let words = [source.port, destination.port, len, checksum];
        for (place, word) in header.as_chunks_mut::<2>().0.iter_mut().zip(words) {
            *place = word.to_be_bytes();
        }
    }
}

/// The `N` bytes at `at` of a frame with all headers.
#[inline]
fn part<const N: usize>(frame: &[u8], at: usize) -> [u8; N] {
    field(frame, at).expect("all headers are there")
}

/// A datagram in a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Datagram {
    /// Its source and destination.
    pub flow: Flow,
    /// The position of the payload in the frame.
    pub payload: Range<usize>,
}

impl Datagram {
    /// The sender's address.
    #[inline]
    #[must_use]
    pub fn peer(&self) -> SocketAddrV4 {
        SocketAddrV4::new(self.flow.source.ip, self.flow.source.port)
    }
}

/// Reads the datagram behind an IPv4 header.
#[inline]
pub(super) fn receive(
    frame: &[u8],
    sender: MacAddr,
    header: &ipv4::Header,
    interface: &Interface,
    verified: Checksums,
) -> Result<Datagram, DropReason> {
    let datagram = &frame[header.payload.clone()];
    let Some(fields) = datagram.first_chunk::<HEADER_LEN>() else {
        return Err(DropReason::WrongLength);
    };
    let [s0, s1, d0, d1, l0, l1, c0, c1] = *fields;
    let len = u16::from_be_bytes([l0, l1]);
    if usize::from(len) != datagram.len() {
        return Err(DropReason::WrongLength);
    }
    if [c0, c1] != [0, 0] && verified == Checksums::Software {
        let pseudo_header = ipv4::pseudo_header(header.source, header.destination, len);
        if pseudo_header.bytes(datagram).checksum() != 0 {
            return Err(DropReason::BadChecksum);
        }
    }
    let flow = Flow {
        source: End {
            mac: sender,
            ip: header.source,
            port: u16::from_be_bytes([s0, s1]),
        },
        destination: End {
            mac: interface.mac,
            ip: header.destination,
            port: u16::from_be_bytes([d0, d1]),
        },
    };
    if flow.destination.port != interface.port {
        return Err(DropReason::NoSuchPort);
    }
    if flow.source.port == 0 {
        return Err(DropReason::BadSource);
    }
    let payload = header.payload.start + HEADER_LEN..header.payload.end;
    Ok(Datagram { flow, payload })
}
