//! What a server listens on: the addresses and sockets that its builder was given, and what is bound to them.

use std::io;
use std::net::{self, SocketAddr, ToSocketAddrs};
use std::os::unix::net as unix;
use std::path::PathBuf;
use std::sync::Arc;

use mio::net::{TcpListener, UdpSocket, UnixListener};

use crate::error::BuildError;
use crate::transport::TlsConfig;
use crate::transport::listen_fds::{Passed, take_passed};
use crate::transport::listener::{bind_udp, listen_tcp};
use crate::transport::listening::Listening;
use crate::transport::socket::ListenerSocket;
use crate::transport::socket_file::{SocketFile, listen_unix};

/// The permissions that a file may have.
const MODE_MAX: u32 = 0o777;

/// What the builder was given, in its order.
#[derive(Debug, Default)]
pub(crate) struct Places {
    places: Vec<Place>,
    /// Permissions of the files of Unix sockets.
    pub(crate) unix_mode: Option<u32>,
}

/// One place to listen on.
#[derive(Debug)]
pub(crate) enum Place {
    /// The addresses of one name.
    Tcp(Vec<SocketAddr>),
    TcpListener(net::TcpListener),
    Unix(PathBuf),
    UnixListener(unix::UnixListener),
    /// The addresses of one name.
    Udp(Vec<SocketAddr>),
    UdpSocket(net::UdpSocket),
    /// Sockets that a service manager passes.
    Passed,
    /// A place whose connections speak TLS.
    #[cfg_attr(not(feature = "tls"), expect(dead_code, reason = "there is no TLS"))]
    Tls(TlsConfig, Box<Place>),
}

/// The sockets of a server.
#[derive(Debug, Default)]
pub(crate) struct Bound {
    /// Of each thread that receives requests.
    pub(crate) listeners: Vec<Vec<Listening>>,
    /// Of each address of UDP: a socket of each thread that receives requests, or one that they share.
    pub(crate) udp_sockets: Vec<(Vec<UdpSocket>, SocketAddr)>,
    /// Addresses of the TCP listeners, in their order.
    pub(crate) tcp_addrs: Vec<SocketAddr>,
    /// Paths of the Unix listeners that have one, in their order.
    pub(crate) unix_paths: Vec<PathBuf>,
}

/// All addresses of a name, each once.
pub(crate) fn resolve(address: &(impl ToSocketAddrs + std::fmt::Debug)) -> Result<Vec<SocketAddr>, BuildError> {
    let refused = |source| BuildError::Resolve { address: format!("{address:?}"), source };
    let mut addresses = Vec::new();
    for address in address.to_socket_addrs().map_err(refused)? {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    if addresses.is_empty() {
        let none = io::Error::new(io::ErrorKind::NotFound, "no address");
        return Err(refused(none));
    }
    Ok(addresses)
}

impl Places {
    pub(crate) fn add(&mut self, place: Place) {
        self.places.push(place);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Whether datagrams may come in.
    pub(crate) fn may_have_udp(&self) -> bool {
        let is_udp = |place: &Place| {
            let udp = matches!(place, Place::Udp(_) | Place::UdpSocket(_));
            udp || matches!(place, Place::Passed)
        };
        self.places.iter().any(is_udp)
    }

    /// Whether connections may speak TLS.
    pub(crate) fn has_tls(&self) -> bool {
        let is_tls = |place: &Place| matches!(place, Place::Tls(..));
        self.places.iter().any(is_tls)
    }

    /// Whether the server makes a Unix socket.
    fn has_unix(&self) -> bool {
        let is_unix = |place: &Place| matches!(place, Place::Unix(_));
        self.places.iter().any(is_unix)
    }

    /// Checks what can be checked before anything is bound.
    pub(crate) fn validate(&self) -> Result<(), BuildError> {
        match self.unix_mode {
            Some(mode) if mode > MODE_MAX => Err(BuildError::Setting {
                setting: "unix_mode",
                value: format!("{mode:#o}"),
                expected: format!("between 0 and {MODE_MAX:#o}"),
            }),
            Some(mode) if !self.has_unix() => Err(BuildError::Setting {
                setting: "unix_mode",
                value: format!("{mode:#o}"),
                expected: "unset where no Unix socket is set".to_owned(),
            }),
            _ => Ok(()),
        }
    }

    /// Binds all of them, for so many threads that receive requests. A client that finds a TCP port open takes the
    /// server for ready, so the addresses of UDP are bound before.
    pub(crate) fn bind(mut self, receivers: usize) -> Result<Bound, BuildError> {
        let mut bound = Bound {
            listeners: (0..receivers).map(|_| Vec::new()).collect(),
            ..Bound::default()
        };
        self.places.sort_by_key(|place| !matches!(place, Place::Udp(_)));
        for place in self.places {
            bound.add(place, self.unix_mode)?;
        }
        Ok(bound)
    }
}

impl Bound {
    fn add(&mut self, place: Place, unix_mode: Option<u32>) -> Result<(), BuildError> {
        match place {
            Place::Tcp(addresses) => {
                for (listeners, address) in listen_tcp(&addresses, self.listeners.len())? {
                    self.add_tcp(listeners, address);
                }
            }
            Place::Udp(addresses) => {
                let sockets = bind_udp(&addresses, self.listeners.len())?;
                self.udp_sockets.extend(sockets);
            }
            Place::Unix(path) => match listen_unix(&path, unix_mode) {
                Ok((file, listener)) => {
                    self.unix_paths.push(path);
                    self.add_unix(Some(file), listener);
                }
                Err(source) => return Err(BuildError::BindUnix { path, source }),
            },
            Place::TcpListener(listener) => self.adopt_tcp(listener).map_err(BuildError::Adopt)?,
            Place::UnixListener(listener) => {
                self.adopt_unix(listener).map_err(BuildError::Adopt)?;
            }
            Place::UdpSocket(socket) => self.adopt_udp(socket).map_err(BuildError::Adopt)?,
            Place::Passed => {
                for socket in take_passed().map_err(BuildError::ListenFds)? {
                    let place = match socket {
                        Passed::Tcp(listener) => Place::TcpListener(listener),
                        Passed::Unix(listener) => Place::UnixListener(listener),
                        Passed::Udp(socket) => Place::UdpSocket(socket),
                    };
                    self.add(place, None)?;
                }
            }
            Place::Tls(config, place) => {
                let first = self.listeners[0].len();
                self.add(*place, unix_mode)?;
                let added = self.listeners.iter_mut();
                for listening in added.flat_map(|listeners| &mut listeners[first..]) {
                    listening.tls = Some(config.clone());
                }
            }
        }
        Ok(())
    }

    /// Adds a socket for each thread, or one for all.
    fn add_listeners(&mut self, sockets: impl IntoIterator<Item = ListenerSocket>) {
        let sockets: Vec<_> = sockets.into_iter().map(Arc::new).collect();
        let is_shared = sockets.len() < self.listeners.len();
        for (listeners, socket) in self.listeners.iter_mut().zip(sockets.iter().cycle()) {
            listeners.push(Listening { socket: socket.clone(), is_shared, tls: None });
        }
    }

    fn add_tcp(&mut self, listeners: impl IntoIterator<Item = TcpListener>, address: SocketAddr) {
        self.add_listeners(listeners.into_iter().map(ListenerSocket::Tcp));
        self.tcp_addrs.push(address);
    }

    fn add_unix(&mut self, file: Option<SocketFile>, listener: UnixListener) {
        let listener = ListenerSocket::Unix { _file: file, listener };
        self.add_listeners([listener]);
    }

    fn adopt_tcp(&mut self, listener: net::TcpListener) -> io::Result<()> {
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        self.add_tcp([TcpListener::from_std(listener)], address);
        Ok(())
    }

    fn adopt_udp(&mut self, socket: net::UdpSocket) -> io::Result<()> {
        socket.set_nonblocking(true)?;
        let address = socket.local_addr()?;
        self.udp_sockets.push((vec![UdpSocket::from_std(socket)], address));
        Ok(())
    }

    /// Takes a listener over. Its file stays the caller's.
    fn adopt_unix(&mut self, listener: unix::UnixListener) -> io::Result<()> {
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        self.unix_paths.extend(address.as_pathname().map(PathBuf::from));
        self.add_unix(None, UnixListener::from_std(listener));
        Ok(())
    }

    /// The addresses of all listeners and sockets: first TCP, then UDP.
    pub(crate) fn local_addrs(&self) -> Vec<SocketAddr> {
        let udp = self.udp_sockets.iter().map(|(_, address)| *address);
        self.tcp_addrs.iter().copied().chain(udp).collect()
    }
}
