//! Frames of Ethernet with ARP, IPv4, UDP and ICMP echo in them, for transports that bypass the
//! kernel's network stack.
//!
//! ```text
//!   0          14       34    42
//!   | Ethernet | IPv4   | UDP | payload |          Interface::receive ──► Frame, or DropReason
//!   | Ethernet | ARP request  |                    arp::answer        ──► the same bytes as its reply
//!   | Ethernet | IPv4   | ICMP echo ..  |          icmp::answer       ──► the same bytes as its reply
//! ```
//!
//! An [`Interface`] is one address: a frame is for it, or has a [`DropReason`]. There is no table of
//! neighbours: what is answered goes to where it came from, and a client keeps the one
//! [`Neighbour`](arp::Neighbour) it asked for.
//!
//! Sources: IEEE 802.3; RFC 826 (ARP), 791 (IPv4), 768 (UDP), 792 (ICMP), 1071 (checksum), 1122
//! (requirements for hosts).

pub mod arp;
pub mod checksum;
mod drop_reason;
pub mod ethernet;
pub mod icmp;
mod interface;
pub mod ipv4;
pub mod udp;

pub use drop_reason::DropReason;
pub use ethernet::MacAddr;
pub use interface::{Frame, Interface};
pub use udp::{Datagram, End, Flow};

/// Who computes, or has verified, the checksums of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checksums {
    /// This module.
    Software,
    /// The port.
    Port,
}

/// The array of `N` bytes at `offset`, where there are as many.
#[inline]
fn field<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..)?.first_chunk().copied()
}
