//! Which addresses count as one.

use std::net::{IpAddr, Ipv4Addr};

/// The addresses that count as one: an IPv4 address, or the 64 bits of an IPv6 address that name a network. One
/// host may have all addresses of its network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::runtime::net) enum Origin {
    V4(Ipv4Addr),
    V6Network(u64),
}

impl From<IpAddr> for Origin {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::V4(address),
            IpAddr::V6(address) => Self::V6Network((address.to_bits() >> 64) as u64),
        }
    }
}
