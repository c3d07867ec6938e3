//! ARP for IPv4 over Ethernet (RFC 826).
//!
//! ```text
//!   14       16         18    19    20     22           28          32           38          42
//!   | 0x0001 | 0x0800   | 6   | 4   | oper | sender MAC | sender IP | target MAC | target IP |
//! ```

use std::net::Ipv4Addr;

use super::ethernet::{self, Header, MacAddr};
use super::{DropReason, Interface, field};

/// Bytes of a frame with an ARP packet in it, without padding.
pub const FRAME_LEN: usize = ethernet::HEADER_LEN + 28;

/// Ethernet, IPv4, and the lengths of their addresses.
const ADDRESSES: [u8; 6] = [0, 1, 8, 0, 6, 4];
const REQUEST: u16 = 1;
const REPLY: u16 = 2;

/// A host, with the MAC address of its station.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Neighbour {
    /// The host's address.
    pub ip: Ipv4Addr,
    /// The station's address.
    pub mac: MacAddr,
}

/// A packet about the interface's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arp {
    /// A neighbour asks for the interface's MAC address.
    Request(Neighbour),
    /// A neighbour tells its MAC address, which the interface may have asked for.
    Reply(Neighbour),
}

/// Reads the packet in a frame that is for `interface` or a broadcast.
pub(super) fn receive(frame: &[u8], interface: &Interface) -> Result<Arp, DropReason> {
    let packet: [u8; 28] = field(frame, ethernet::HEADER_LEN).ok_or(DropReason::WrongLength)?;
    if packet[..6] != ADDRESSES || packet[24..] != interface.ip.octets() {
        return Err(DropReason::OtherArp);
    }
    let [_, _, _, _, _, _, o0, o1, m0, m1, m2, m3, m4, m5, i0, i1, i2, i3, ..] = packet;
    let sender = Neighbour {
        ip: Ipv4Addr::new(i0, i1, i2, i3),
        mac: MacAddr([m0, m1, m2, m3, m4, m5]),
    };
    if sender.mac.is_multicast() {
        return Err(DropReason::BadSource);
    }
    match u16::from_be_bytes([o0, o1]) {
        REQUEST => Ok(Arp::Request(sender)),
        REPLY => Ok(Arp::Reply(sender)),
        _ => Err(DropReason::OtherArp),
    }
}

/// Turns a frame that [`Interface::receive`] took for a request into its reply, and returns the
/// reply's length.
///
/// # Panics
/// When `frame` is shorter than [`FRAME_LEN`].
pub fn answer(frame: &mut [u8], interface: &Interface, asker: Neighbour) -> usize {
    write(frame, REPLY, interface, asker, asker.mac);
    FRAME_LEN
}

/// The frame that asks for the MAC address of `ip`.
#[must_use]
pub fn request(interface: &Interface, ip: Ipv4Addr) -> [u8; FRAME_LEN] {
    let mut frame = [0; FRAME_LEN];
    let unknown = Neighbour { ip, mac: MacAddr::default() };
    write(&mut frame, REQUEST, interface, unknown, MacAddr::BROADCAST);
    frame
}

fn write(frame: &mut [u8], operation: u16, sender: &Interface, target: Neighbour, destination: MacAddr) {
    let header = Header { destination, source: sender.mac, ether_type: ethernet::ARP };
    header.write(frame);
    let packet = &mut frame[ethernet::HEADER_LEN..FRAME_LEN];
    packet[..6].copy_from_slice(&ADDRESSES);
    packet[6..8].copy_from_slice(&operation.to_be_bytes());
    packet[8..14].copy_from_slice(&sender.mac.0);
    packet[14..18].copy_from_slice(&sender.ip.octets());
    packet[18..24].copy_from_slice(&target.mac.0);
    packet[24..].copy_from_slice(&target.ip.octets());
}
