//! Ethernet: MAC addresses and the header of a frame.
//!
//! ```text
//!   0             6        12           14
//!   | destination | source | ether type |
//! ```

use std::fmt;
use std::str::FromStr;

use super::{DropReason, field};

/// Bytes of the header.
pub const HEADER_LEN: usize = 14;

/// ARP's ether type.
pub const ARP: u16 = 0x0806;
/// IPv4's ether type.
pub const IPV4: u16 = 0x0800;
/// Ether types of VLAN tags: of customers and of services.
const VLAN: [u16; 2] = [0x8100, 0x88a8];

/// The address of a station.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// All stations.
    pub const BROADCAST: Self = Self([0xff; 6]);

    /// Whether this is the address of a group of stations, such as [`BROADCAST`](Self::BROADCAST).
    #[inline]
    #[must_use]
    pub fn is_multicast(self) -> bool {
        self.0[0] & 1 != 0
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// The text is not six pairs of hexadecimal digits joined by `:`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a MAC address such as 02:00:00:00:00:01")]
pub struct NotAMac;

impl FromStr for MacAddr {
    type Err = NotAMac;

    fn from_str(text: &str) -> Result<Self, NotAMac> {
        let mut mac = [0; 6];
        let mut pairs = text.split(':');
        for byte in &mut mac {
            let pair = pairs.next().filter(|pair| pair.len() == 2).ok_or(NotAMac)?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| NotAMac)?;
        }
        pairs.next().map_or(Ok(Self(mac)), |_| Err(NotAMac))
    }
}

/// The header of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The receiver.
    pub destination: MacAddr,
    /// The sender.
    pub source: MacAddr,
    /// The protocol of the payload.
    pub ether_type: u16,
}

impl Header {
    /// Reads the header of a frame that is for `mac` or a broadcast.
    ///
    /// # Errors
    /// The reason to drop the frame: it is for another station, has a VLAN tag, or is too short.
    #[inline]
    pub fn receive(frame: &[u8], mac: MacAddr) -> Result<Self, DropReason> {
        let bytes: [u8; HEADER_LEN] = field(frame, 0).ok_or(DropReason::WrongLength)?;
        let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, t0, t1] = bytes;
        let header = Self {
            destination: MacAddr([d0, d1, d2, d3, d4, d5]),
            source: MacAddr([s0, s1, s2, s3, s4, s5]),
            ether_type: u16::from_be_bytes([t0, t1]),
        };
        let Self { destination, source, ether_type } = header;
        // A datagram for one host in a broadcast frame is also dropped (RFC 1122, 3.3.6).
        if source.is_multicast() || destination.is_multicast() && ether_type != ARP {
            Err(DropReason::Multicast)
        } else if destination != mac && destination != MacAddr::BROADCAST {
            Err(DropReason::OtherMac)
        } else if VLAN.contains(&ether_type) {
            Err(DropReason::Vlan)
        } else {
            Ok(header)
        }
    }

    /// Writes the header at the start of `frame`.
    ///
    /// # Panics
    /// When `frame` is shorter than [`HEADER_LEN`].
    #[inline]
    pub fn write(&self, frame: &mut [u8]) {
        frame[..6].copy_from_slice(&self.destination.0);
        frame[6..12].copy_from_slice(&self.source.0);
        frame[12..HEADER_LEN].copy_from_slice(&self.ether_type.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_spelled_in_pairs() {
        let mac = MacAddr([2, 0, 0xab, 0, 0, 0x1f]);
        assert_eq!(mac.to_string(), "02:00:ab:00:00:1f");
        assert_eq!("02:00:AB:00:00:1f".parse(), Ok(mac));
        for text in ["", "auto", "2:0:ab:0:0:1f", "02:00:ab:00:00", "02:00:ab:00:00:1f:00"] {
            assert_eq!(text.parse::<MacAddr>(), Err(NotAMac), "{text}");
        }
    }
}
