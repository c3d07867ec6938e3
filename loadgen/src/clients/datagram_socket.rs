//! UDP sockets.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use super::connection::first_of;
use crate::wire::Endpoint;

/// A socket that sends to the first address of `endpoint` with a route.
pub(crate) fn connect_datagram(endpoint: &Endpoint) -> io::Result<UdpSocket> {
    let Endpoint::Inet(addrs) = endpoint else {
        return Err(ErrorKind::Unsupported.into());
    };
    first_of(addrs, |addr| {
        let any: SocketAddr = match addr {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = UdpSocket::bind(any)?;
        socket.connect(addr)?;
        Ok(socket)
    })
}
