//! ICMP echo (RFC 792).
//!
//! ```text
//!   34     35     36         38   40         42
//!   | type | code | checksum | id | sequence | data |
//! ```

use std::ops::Range;

use super::checksum::Sum;
use super::ethernet::{self, MacAddr};
use super::{Checksums, DropReason, Interface, ipv4};

const HEADER_LEN: usize = 8;
const ECHO_REQUEST: [u8; 2] = [8, 0];
const ECHO_REPLY: [u8; 2] = [0, 0];

/// An echo request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Echo {
    sender: MacAddr,
    header: ipv4::Header,
}

/// Reads the message behind an IPv4 header. Ports do not verify its checksum, so this does.
pub(super) fn receive(frame: &[u8], sender: MacAddr, header: ipv4::Header) -> Result<Echo, DropReason> {
    let message = &frame[header.payload.clone()];
    if message.len() < HEADER_LEN {
        Err(DropReason::WrongLength)
    } else if Sum::default().bytes(message).checksum() != 0 {
        Err(DropReason::BadChecksum)
    } else if message[..2] != ECHO_REQUEST {
        Err(DropReason::OtherIcmp)
    } else {
        Ok(Echo { sender, header })
    }
}

/// Turns the frame in which [`Interface::receive`] found `echo` into its reply, and returns the reply's
/// length.
///
/// # Panics
/// When `frame` is shorter than the frame in which `echo` was found.
pub fn answer(frame: &mut [u8], interface: &Interface, echo: &Echo) -> usize {
    let Echo { sender, header } = echo;
    let Range { start, end } = header.payload;
    let frame = &mut frame[..end];
    let ethernet = ethernet::Header {
        destination: *sender,
        source: interface.mac,
        ether_type: ethernet::IPV4,
    };
    ethernet.write(frame);
    ipv4::write(frame, interface.ip, header.source, ipv4::ICMP, Checksums::Software);
    let message = &mut frame[start..];
    message[..2].copy_from_slice(&ECHO_REPLY);
    message[2..4].fill(0);
    let checksum = Sum::default().bytes(message).checksum();
    message[2..4].copy_from_slice(&checksum.to_be_bytes());
    end
}
