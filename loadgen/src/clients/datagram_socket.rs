//! UDP sockets.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use crate::wire::Endpoint;

/// A socket that sends to `endpoint`.
pub(crate) fn connect_datagram(endpoint: &Endpoint) -> io::Result<UdpSocket> {
    let (any, addr): (SocketAddr, _) = match *endpoint {
        Endpoint::Inet(addr @ SocketAddr::V4(_)) => ((Ipv4Addr::UNSPECIFIED, 0).into(), addr),
        Endpoint::Inet(addr @ SocketAddr::V6(_)) => ((Ipv6Addr::UNSPECIFIED, 0).into(), addr),
        Endpoint::Unix(_) => return Err(ErrorKind::Unsupported.into()),
    };
    let socket = UdpSocket::bind(any)?;
    socket.connect(addr)?;
    Ok(socket)
}
