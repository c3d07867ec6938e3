//! What a frame is to the interface that received it.

use std::net::Ipv4Addr;

use super::arp::{self, Arp};
use super::ethernet::{self, Header, MacAddr};
use super::icmp::{self, Echo};
use super::udp::{self, Datagram};
use super::{Checksums, DropReason, ipv4};

/// One station with one host's address, and the UDP port it serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interface {
    /// The station's address.
    pub mac: MacAddr,
    /// The host's.
    pub ip: Ipv4Addr,
    /// The UDP port.
    pub port: u16,
}

/// A frame that is for the interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// A datagram for its port.
    Datagram(Datagram),
    /// A question or an answer about stations.
    Arp(Arp),
    /// A request for an echo.
    Echo(Echo),
}

impl Interface {
    /// What `frame` is. With [`Checksums::Port`], those of IPv4 and UDP are not looked at.
    ///
    /// # Errors
    /// Why it is dropped, where it is nothing to the interface or malformed.
    #[inline]
    pub fn receive(&self, frame: &[u8], verified: Checksums) -> Result<Frame, DropReason> {
        let Header {
            source, ether_type, ..
        } = Header::receive(frame, self.mac)?;
        match ether_type {
            ethernet::ARP => arp::receive(frame, self).map(Frame::Arp),
            ethernet::IPV4 => {
                let header = ipv4::receive(frame, self, verified)?;
                match header.protocol {
                    ipv4::UDP => {
                        udp::receive(frame, source, &header, self, verified).map(Frame::Datagram)
                    }
                    ipv4::ICMP => icmp::receive(frame, source, header).map(Frame::Echo),
                    _ => Err(DropReason::NotUdp),
                }
            }
            _ => Err(DropReason::OtherEtherType),
        }
    }
}
