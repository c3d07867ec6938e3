//! Binding sockets.

use std::io;
use std::net::SocketAddr;

use mio::net::{TcpListener, UdpSocket};
use socket2::{Domain, Protocol, Socket, Type};

use super::TlsConfig;
use super::socket::ListenerSocket;
use crate::error::BuildError;

const BACKLOG: i32 = 1024;

/// A socket that accepts connections, and what it says to them.
#[derive(Debug)]
pub(crate) struct Listening {
    pub(crate) socket: ListenerSocket,
    /// With this, peers have to speak TLS.
    pub(crate) tls: Option<TlsConfig>,
}

impl From<ListenerSocket> for Listening {
    fn from(socket: ListenerSocket) -> Self {
        Self { socket, tls: None }
    }
}

fn bound(address: SocketAddr, kind: Type, protocol: Protocol) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), kind, Some(protocol))?;
    socket.set_nonblocking(true)?;
    if kind == Type::STREAM {
        socket.set_reuse_address(true)?;
    }
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.bind(&address.into())?;
    Ok(socket)
}

/// A listening TCP socket.
pub(crate) fn listen_tcp(address: SocketAddr) -> Result<TcpListener, BuildError> {
    let listen = || {
        let socket = bound(address, Type::STREAM, Protocol::TCP)?;
        socket.listen(BACKLOG)?;
        Ok(TcpListener::from_std(socket.into()))
    };
    listen().map_err(|source| BuildError::Bind {
        transport: "tcp",
        address,
        source,
    })
}

/// A bound UDP socket.
pub(crate) fn bind_udp(address: SocketAddr) -> Result<UdpSocket, BuildError> {
    bound(address, Type::DGRAM, Protocol::UDP)
        .map(|socket| UdpSocket::from_std(socket.into()))
        .map_err(|source| BuildError::Bind {
            transport: "udp",
            address,
            source,
        })
}
