//! Sockets of connections, and the sockets that accept them.

use std::io::{self, IoSlice, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use mio::event::Source;
use mio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use mio::{Interest, Registry, Token};
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
#[cfg(target_os = "linux")]
use socket2::SockRef;

#[cfg(target_os = "linux")]
use super::send_queue;
use super::socket_file::SocketFile;
use super::spare::{self, Receive};
use crate::peer::{Credentials, Peer};
#[cfg(all(test, not(loom)))]
use crate::simulated::{ListenerEnd, ServerEnd};

/// The socket of a connection.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
    /// That of detached requests.
    None(NoSocket),
    #[cfg(all(test, not(loom)))]
    Simulated(ServerEnd),
}

/// Takes nothing and has nothing.
#[derive(Debug)]
pub(crate) struct NoSocket;

/// A socket that accepts connections.
#[derive(Debug)]
pub(crate) enum ListenerSocket {
    Tcp(TcpListener),
    Unix {
        /// The file that the server made for the listener, which goes first.
        _file: Option<SocketFile>,
        listener: UnixListener,
    },
    #[cfg(all(test, not(loom)))]
    Simulated(ListenerEnd),
}

/// Evaluates the expression with the socket, whatever kind it is of.
macro_rules! delegate {
    ($socket:expr, $inner:ident => $call:expr) => {
        match $socket {
            Self::Tcp($inner) => $call,
            Self::Unix($inner) => $call,
            Self::None($inner) => $call,
            #[cfg(all(test, not(loom)))]
            Self::Simulated($inner) => $call,
        }
    };
}

impl Socket {
    /// Makes the socket send small replies at once.
    pub(crate) fn send_at_once(&self) -> io::Result<()> {
        match self {
            Self::Tcp(socket) => socket.set_nodelay(true),
            Self::Unix(_) | Self::None(_) => Ok(()),
            #[cfg(all(test, not(loom)))]
            Self::Simulated(_) => Ok(()),
        }
    }

    /// Has the kernel hold `bytes_max` of output that the peer has no room for.
    pub(crate) fn hold_at_most(&self, bytes_max: u32) {
        #[cfg(target_os = "linux")]
        if let Self::Tcp(socket) = self
            && let Err(error) = SockRef::from(socket).set_tcp_notsent_lowat(bytes_max)
        {
            tracing::debug!(%error, "what a peer does not read waits in the kernel");
        }
        #[cfg(not(target_os = "linux"))]
        let _ = bytes_max;
    }

    /// Bytes that the kernel holds for the peer, where it says so.
    pub(crate) fn queued_bytes(&self) -> Option<usize> {
        #[cfg(target_os = "linux")]
        return match self {
            Self::Tcp(socket) => send_queue::queued_bytes(socket).ok(),
            Self::Unix(socket) => send_queue::queued_bytes(socket).ok(),
            Self::None(_) => None,
            #[cfg(all(test, not(loom)))]
            Self::Simulated(_) => None,
        };
        #[cfg(not(target_os = "linux"))]
        None
    }

    /// Ends one direction, or both.
    pub(crate) fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        delegate!(self, socket => socket.shutdown(how))
    }

    fn source(&mut self) -> &mut dyn Source {
        delegate!(self, socket => socket)
    }
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        delegate!(self, socket => socket.as_raw_fd())
    }
}

impl Read for Socket {
    #[inline]
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        delegate!(self, socket => socket.read(into))
    }
}

impl Receive for Socket {
    fn receive_spare(&mut self, bytes: &mut Vec<u8>, count_max: usize) -> io::Result<usize> {
        match self {
            Self::Tcp(socket) => spare::receive_spare(socket, bytes, count_max),
            Self::Unix(socket) => spare::receive_spare(socket, bytes, count_max),
            Self::None(socket) => socket.receive_spare(bytes, count_max),
            #[cfg(all(test, not(loom)))]
            Self::Simulated(socket) => spare::read_cleared(socket, bytes, count_max),
        }
    }
}

impl Write for Socket {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        delegate!(self, socket => socket.write(bytes))
    }

    #[inline]
    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        delegate!(self, socket => socket.write_vectored(slices))
    }

    fn flush(&mut self) -> io::Result<()> {
        delegate!(self, socket => socket.flush())
    }
}

impl NoSocket {
    fn shutdown(&self, _how: Shutdown) -> io::Result<()> {
        Ok(())
    }
}

impl AsRawFd for NoSocket {
    fn as_raw_fd(&self) -> RawFd {
        -1
    }
}

impl Read for NoSocket {
    fn read(&mut self, _into: &mut [u8]) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }
}

impl Receive for NoSocket {}

impl Write for NoSocket {
    fn write(&mut self, _bytes: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Source for NoSocket {
    fn register(&mut self, _: &Registry, _: Token, _: Interest) -> io::Result<()> {
        Ok(())
    }

    fn reregister(&mut self, _: &Registry, _: Token, _: Interest) -> io::Result<()> {
        Ok(())
    }

    fn deregister(&mut self, _: &Registry) -> io::Result<()> {
        Ok(())
    }
}

impl ListenerSocket {
    /// Accepts a connection.
    ///
    /// # Errors
    /// The socket's errors; `WouldBlock` when no connection waits.
    pub(crate) fn accept(&self) -> io::Result<(Socket, Peer)> {
        match self {
            Self::Tcp(listener) => {
                let (socket, address) = listener.accept()?;
                Ok((Socket::Tcp(socket), Peer::Ip(address)))
            }
            Self::Unix { listener, .. } => {
                let (socket, _) = listener.accept()?;
                let credentials = credentials(&socket);
                Ok((Socket::Unix(socket), Peer::Unix(credentials)))
            }
            #[cfg(all(test, not(loom)))]
            Self::Simulated(listener) => {
                let (socket, peer) = listener.accept()?;
                Ok((Socket::Simulated(socket), peer))
            }
        }
    }
}

impl AsFd for ListenerSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Unix { listener, .. } => listener.as_fd(),
            #[cfg(all(test, not(loom)))]
            Self::Simulated(listener) => listener.as_fd(),
        }
    }
}

fn credentials(socket: &UnixStream) -> Option<Credentials> {
    let seen = getsockopt(socket, PeerCredentials).ok()?;
    let pid = u32::try_from(seen.pid()).ok().filter(|&pid| pid > 0);
    Some(Credentials::new(pid, seen.uid(), seen.gid()))
}

impl Source for Socket {
    fn register(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        self.source().register(registry, token, interests)
    }

    fn reregister(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        self.source().reregister(registry, token, interests)
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        self.source().deregister(registry)
    }
}
