//! Datagrams with a forged source.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use socket2::{Domain, Protocol, SockAddr, Socket, Type};

/// Sends `payload` to a server's UDP port on the loopback interface, from that port.
///
/// # Errors
/// The process has no right to forge datagrams.
pub fn send_from_its_own_port(port: u16, payload: &[u8]) -> io::Result<()> {
    let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::UDP))?;
    socket.bind(&SockAddr::from(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))))?;
    let len = u16::try_from(8 + payload.len()).expect("a datagram");
    // Source, destination, length, and no checksum.
    let header = [port, port, len, 0].map(u16::to_be_bytes).concat();
    let to = SockAddr::from(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    socket.send_to(&[&header, payload].concat(), &to)?;
    Ok(())
}
