//! The sockets of the server, and what each does: connections, listening sockets, sockets of datagrams.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use psp_server::{Peer, checkpoint, critical, is_abandoned};

use crate::auth::Login;

/// Sockets that are read in one hold of the lock, and between two checkpoints.
const SOCKETS_PER_CHECKPOINT: usize = 64;

/// An address on which the server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// Of the network.
    Ip(SocketAddr),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

/// What a socket is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// It listens for connections.
    Listening(Address),
    /// It takes datagrams at this address.
    Datagrams(SocketAddr),
    /// It is a connection of this client.
    Connection(Peer),
}

/// What the client of a connection does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It has sent no request.
    New = 0,
    /// The server waits for its next request.
    Idle = 1,
    /// A request of it runs.
    Running = 2,
}

/// One socket.
#[derive(Debug)]
pub struct Socket {
    /// What it is for.
    pub role: Role,
    /// The second of its last request, or else of its start, by [`Cache::now_s`](crate::cache::Cache::now_s), and in
    /// the lowest bits its state.
    activity: AtomicU64,
}

const STATE_BITS: u32 = 2;

impl Socket {
    fn new(role: Role, now_s: u32) -> Arc<Self> {
        let activity = AtomicU64::default();
        let socket = Self { role, activity };
        socket.record(now_s, State::New);
        Arc::new(socket)
    }

    /// The second of its last request, or else of its start, and its state.
    #[must_use]
    pub fn activity(&self) -> (u32, State) {
        let activity = self.activity.load(Ordering::Relaxed);
        let state = match activity & ((1 << STATE_BITS) - 1) {
            0 => State::New,
            1 => State::Idle,
            _ => State::Running,
        };
        let second = u32::try_from(activity >> STATE_BITS).unwrap_or(u32::MAX);
        (second, state)
    }

    fn record(&self, now_s: u32, state: State) {
        let activity = u64::from(now_s) << STATE_BITS | state as u64;
        self.activity.store(activity, Ordering::Relaxed);
    }
}

/// Where the server listens.
#[derive(Debug, Clone, Default)]
pub struct Listening {
    /// Addresses at which it takes connections.
    pub connections: Vec<Address>,
    /// Addresses at which it takes datagrams.
    pub datagrams: Vec<SocketAddr>,
}

/// All sockets, by numbers that rise.
#[derive(Debug, Default)]
pub struct Sockets {
    open: Mutex<BTreeMap<u64, Arc<Socket>>>,
    opened: AtomicU64,
    listening: OnceLock<Listening>,
}

impl Sockets {
    /// Adds the sockets that listen. Called once, before there are connections.
    pub fn listen(&self, listening: Listening, now_s: u32) {
        for address in &listening.connections {
            self.add(Socket::new(Role::Listening(address.clone()), now_s));
        }
        // A second call would be in vain.
        let _first = self.listening.set(listening);
    }

    /// Adds a connection, or a socket of datagrams, whose `peer` is its own address.
    pub fn connect(self: &Arc<Self>, peer: Peer, login: Login, now_s: u32) -> Connection {
        let of_datagrams = peer.ip().filter(|own| {
            let listening = self.listening.get();
            listening.is_some_and(|listening| listening.datagrams.contains(own))
        });
        let role = of_datagrams.map_or(Role::Connection(peer), Role::Datagrams);
        let socket = Socket::new(role, now_s);
        Connection {
            login,
            number: self.add(Arc::clone(&socket)),
            socket,
            sockets: Arc::clone(self),
        }
    }

    fn add(&self, socket: Arc<Socket>) -> u64 {
        let number = self.opened.fetch_add(1, Ordering::Relaxed) + 1;
        self.open.lock().insert(number, socket);
        number
    }

    /// The address to which a client connected, if it cannot be another.
    #[must_use]
    pub fn listener_of(&self, peer: &Peer) -> Option<&Address> {
        let is_possible = |address: &&Address| match (address, peer) {
            (Address::Ip(address), Peer::Ip(peer)) => address.is_ipv4() == peer.is_ipv4(),
            (Address::Unix(_), Peer::Unix(_)) => true,
            _ => false,
        };
        let listening = &self.listening.get()?.connections;
        let mut possible = listening.iter().filter(is_possible);
        let first = possible.next()?;
        possible.next().is_none().then_some(first)
    }

    /// Calls `visit` with each socket and its number. One that comes or goes meanwhile may be left out. Ends early if
    /// no client waits for the reply any more.
    pub fn for_each(&self, mut visit: impl FnMut(u64, &Socket)) {
        let mut next = 0;
        loop {
            // The net thread takes the lock, too.
            let part: Vec<(u64, Arc<Socket>)> = critical(|| {
                let open = self.open.lock();
                let part = open.range(next..).take(SOCKETS_PER_CHECKPOINT);
                part.map(|(number, socket)| (*number, Arc::clone(socket))).collect()
            });
            for (number, socket) in &part {
                visit(*number, socket);
            }
            match part.last() {
                Some((last, _)) if !is_abandoned() => next = last + 1,
                _ => return,
            }
            checkpoint();
        }
    }
}

/// A connection. Dropping it removes it from the [`Sockets`].
#[derive(Debug)]
pub struct Connection {
    /// Whether the client has shown who it is.
    pub login: Login,
    number: u64,
    socket: Arc<Socket>,
    sockets: Arc<Sockets>,
}

impl Connection {
    /// Says that a request runs from now until the result is dropped.
    #[must_use]
    pub fn run(&self, now_s: u32) -> Running<'_> {
        self.socket.record(now_s, State::Running);
        Running { socket: &self.socket, now_s }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.sockets.open.lock().remove(&self.number);
    }
}

/// A request that runs.
#[derive(Debug)]
pub struct Running<'a> {
    socket: &'a Socket,
    now_s: u32,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.socket.record(self.now_s, State::Idle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(address: &str) -> SocketAddr {
        address.parse().expect("an address")
    }

    fn sockets(listening: &[&str], datagrams: &[&str]) -> Arc<Sockets> {
        let sockets = Arc::new(Sockets::default());
        let addresses = listening.iter().map(|address| match address.strip_prefix("unix:") {
            Some(path) => Address::Unix(path.into()),
            None => Address::Ip(ip(address)),
        });
        let listening = Listening {
            connections: addresses.collect(),
            datagrams: datagrams.iter().map(|address| ip(address)).collect(),
        };
        sockets.listen(listening, 1);
        sockets
    }

    #[test]
    fn sockets_are_listed_while_they_are_open() {
        let sockets = sockets(&["127.0.0.1:1"], &["127.0.0.1:2"]);
        let connect = |port: usize| {
            let peer = Peer::Ip(ip(&format!("127.0.0.1:{port}")));
            sockets.connect(peer, Login::new(false), 7)
        };
        let mut open: Vec<Connection> = (2..400).map(connect).collect();
        let running = open[1].run(9);
        let list = || {
            let mut listed = Vec::new();
            sockets.for_each(|number, socket| {
                listed.push((number, socket.role.clone(), socket.activity()));
            });
            listed
        };
        let listed = list();
        assert_eq!(listed.len(), 399);
        assert!(listed.is_sorted_by(|one, other| one.0 < other.0));
        let listener = Role::Listening(Address::Ip(ip("127.0.0.1:1")));
        assert_eq!(listed[0].1, listener);
        assert_eq!(listed[1].1, Role::Datagrams(ip("127.0.0.1:2")));
        assert_eq!(listed[2].2, (9, State::Running));
        assert_eq!(listed[3].2, (7, State::New));
        drop(running);
        assert_eq!(list()[2].2, (9, State::Idle));
        open.clear();
        assert_eq!(list().len(), 1);
    }

    #[test]
    fn a_listener_is_told_where_there_is_no_doubt() {
        let peers = [Peer::Ip(ip("127.0.0.1:5")), Peer::Ip(ip("[::1]:5")), Peer::Unix(None)];
        for (listening, expected) in [
            (&["127.0.0.1:1", "[::1]:1"][..], [Some(0), Some(1), None]),
            (&["127.0.0.1:1", "127.0.0.1:2", "[::]:2"], [None, Some(2), None]),
            (&["unix:/tmp/socket"], [None, None, Some(0)]),
        ] {
            let sockets = sockets(listening, &[]);
            let all = &sockets.listening.get().expect("it listens").connections;
            let found = peers.map(|peer| {
                let found = sockets.listener_of(&peer);
                found.and_then(|found| all.iter().position(|address| address == found))
            });
            assert_eq!(found, expected, "{listening:?}");
        }
    }
}
