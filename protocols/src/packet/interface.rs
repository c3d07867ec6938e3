//! The interface of a transport, and the frames that it receives.

use std::net::Ipv4Addr;

use super::arp::{self, Arp};
use super::ethernet::{self, Header, MacAddr};
use super::icmp::{self, Echo};
use super::udp::{self, Datagram};
use super::{Checksums, DropReason, ipv4};

/// One MAC address, one IPv4 address, and the UDP port that is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interface {
    /// The station's address.
    pub mac: MacAddr,
    /// The host's address.
    pub ip: Ipv4Addr,
    /// The UDP port.
    pub port: u16,
}

/// A frame that is for the interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// A datagram for the interface's port.
    Datagram(Datagram),
    /// An ARP request or reply.
    Arp(Arp),
    /// An ICMP echo request.
    Echo(Echo),
}

impl Interface {
    /// Reads `frame`. With [`Checksums::Port`], the checksums of IPv4 and UDP are not verified.
    ///
    /// # Errors
    /// The reason to drop the frame: it is not for the interface, or malformed.
    #[inline]
    pub fn receive(&self, frame: &[u8], verified: Checksums) -> Result<Frame, DropReason> {
        let Header { source, ether_type, .. } = Header::receive(frame, self.mac)?;
        match ether_type {
            ethernet::ARP => arp::receive(frame, self).map(Frame::Arp),
            ethernet::IPV4 => {
                let header = ipv4::receive(frame, self, verified)?;
                match header.protocol {
                    ipv4::UDP => udp::receive(frame, source, &header, self, verified).map(Frame::Datagram),
                    ipv4::ICMP => icmp::receive(frame, source, header).map(Frame::Echo),
                    _ => Err(DropReason::NotUdp),
                }
            }
            _ => Err(DropReason::OtherEtherType),
        }
    }
}
