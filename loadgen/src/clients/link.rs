//! A link carries datagrams to a server and back: a socket, or a polled port.

use std::io::{self, ErrorKind};
use std::net::UdpSocket;

use super::datagram_socket::connect_datagram;
use super::waiter::Waiter;
use crate::schedule::RunPlan;
use rustix::event::epoll::{self, EventData, EventFlags};
use socket2::SockRef;

/// Longest datagram that is read. psp replies of a synthetic server have 16 bytes.
const DATAGRAM_LEN_MAX: usize = 64 * 1024;

/// Size of socket buffers in bytes. The system may allow less.
const SOCKET_BUFFER_LEN: usize = 4 << 20;

/// A link to the server.
#[derive(Debug)]
pub(crate) enum Link {
    /// A socket of the kernel.
    Socket {
        /// A connected, non-blocking socket in the waiter's epoll instance.
        socket: UdpSocket,
        buffer: Vec<u8>,
    },
    /// A port of DPDK.
    #[cfg(feature = "dpdk")]
    Port(Box<psp_server::dpdk::DpdkClient>),
}

impl Link {
    pub(crate) fn connect(plan: &RunPlan, waiter: &Waiter) -> io::Result<Self> {
        #[cfg(feature = "dpdk")]
        if let Some(config) = &plan.dpdk {
            return port::open(config, &plan.target.endpoint);
        }
        let socket = connect_datagram(&plan.target.endpoint)?;
        socket.set_nonblocking(true)?;
        let options = SockRef::from(&socket);
        options.set_recv_buffer_size(SOCKET_BUFFER_LEN)?;
        options.set_send_buffer_size(SOCKET_BUFFER_LEN)?;
        epoll::add(waiter.epoll(), &socket, EventData::new_u64(0), EventFlags::IN)?;
        Ok(Self::Socket { socket, buffer: vec![0; DATAGRAM_LEN_MAX] })
    }

    /// Whether the link must be polled, because epoll does not report its datagrams.
    pub(crate) fn is_polled(&self) -> bool {
        match self {
            Self::Socket { .. } => false,
            #[cfg(feature = "dpdk")]
            Self::Port(_) => true,
        }
    }

    /// Sends a datagram. A port may keep it until the next [`flush`](Self::flush).
    ///
    /// # Errors
    /// The kind of the failure.
    pub(crate) fn send(&mut self, datagram: &[u8]) -> Result<(), &'static str> {
        match self {
            Self::Socket { socket, .. } => match socket.send(datagram) {
                Ok(_) => Ok(()),
                Err(error) => Err(send_error_kind(&error)),
            },
            #[cfg(feature = "dpdk")]
            Self::Port(client) => client.send(datagram).map_err(|_| "PORT_FULL"),
        }
    }

    /// Sends kept datagrams. Datagrams beyond the room of the port time out, as lost ones do.
    pub(crate) fn flush(&mut self) {
        match self {
            Self::Socket { .. } => {}
            #[cfg(feature = "dpdk")]
            Self::Port(client) => {
                client.flush();
            }
        }
    }

    /// Passes up to `count` datagrams to `take`, or a port's burst.
    pub(crate) fn receive(&mut self, count: usize, mut take: impl FnMut(&[u8])) {
        match self {
            Self::Socket { socket, buffer } => {
                for _ in 0..count {
                    // An error reports an earlier datagram that no socket received. Its request
                    // times out.
                    let Ok(len) = socket.recv(buffer) else {
                        break;
                    };
                    take(&buffer[..len]);
                }
            }
            #[cfg(feature = "dpdk")]
            Self::Port(client) => client.receive(take),
        }
    }
}

fn send_error_kind(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::ConnectionRefused => "REFUSED",
        ErrorKind::WouldBlock => "SOCKET_FULL",
        _ => "SEND",
    }
}

#[cfg(feature = "dpdk")]
mod port {
    use std::io::{self, ErrorKind};
    use std::net::SocketAddr;
    use std::time::{Duration, Instant};

    use psp_server::dpdk::{DpdkClient, DpdkConfig};

    use super::Link;
    use crate::wire::Endpoint;

    /// Timeout for finding the server's station, including the time for links to come up.
    const RESOLVE_TIMEOUT: Duration = Duration::from_secs(10);
    /// Interval between two looks for the answer.
    const RESOLVE_INTERVAL: Duration = Duration::from_millis(20);

    pub(super) fn open(config: &DpdkConfig, endpoint: &Endpoint) -> io::Result<Link> {
        let Endpoint::Inet(addrs) = endpoint else {
            return Err(ErrorKind::Unsupported.into());
        };
        let server = addrs.iter().find_map(|addr| match addr {
            SocketAddr::V4(addr) => Some(*addr),
            SocketAddr::V6(_) => None,
        });
        let server = server.ok_or(ErrorKind::Unsupported)?;
        let mut client = DpdkClient::open(config, server).map_err(io::Error::other)?;
        let deadline = Instant::now() + RESOLVE_TIMEOUT;
        while !client.resolve() {
            if Instant::now() > deadline {
                let reason = "no station answers for the server's address";
                return Err(io::Error::new(ErrorKind::TimedOut, reason));
            }
            std::thread::sleep(RESOLVE_INTERVAL);
        }
        Ok(Link::Port(Box::new(client)))
    }
}
