//! Ethernet frames with ARP, IPv4, UDP and ICMP echo, for transports that bypass the kernel's network
//! stack.
//!
//! ```text
//!   0          14       34    42
//!   | Ethernet | IPv4   | UDP | payload |          Interface::receive ──► Frame, or DropReason
//!   | Ethernet | ARP request  |                    arp::answer        ──► the same bytes as its reply
//!   | Ethernet | IPv4   | ICMP echo ..  |          icmp::answer       ──► the same bytes as its reply
//! ```
//!
//! An [`Interface`] has one address. A frame is for that address, or has a [`DropReason`]. There is no
//! table of neighbours: a server replies to the sender's MAC address, and a client keeps the one
//! [`Neighbour`](arp::Neighbour) that it asked for.
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

/// Where the checksums of a frame are computed or verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checksums {
    /// In this module.
    Software,
    /// In the port.
    Port,
}

/// The array of `N` bytes at `offset`, if there are as many.
#[inline]
fn field<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..)?.first_chunk().copied()
}
