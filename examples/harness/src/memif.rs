//! A server's polled port and a client's, joined by a memory interface of DPDK within the test's process: no hugepages,
//! no rights, no kernel.
//!
//! ```text
//!   test: WireClient ── transmit queue k ──► receive queue k of the server, in another thread
//! ```

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use psp_server::dpdk::{DpdkClient, DpdkConfig};
use tempfile::TempDir;

use crate::DEADLINE;

/// Arguments of DPDK's environment, of which a process has one.
const EAL: &str = "--no-huge -m 256 --no-pci --no-shconf --no-telemetry --file-prefix=psp-memif --log-level=*:error";

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 1);
const CLIENT: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 78, 0, 2), 40_000);

/// The memory of DPDK's environment is small: tests take turns.
static TURN: Mutex<()> = Mutex::new(());

/// Two ports that are joined.
#[derive(Debug)]
pub struct Wire {
    /// Has the socket by which the ports find each other.
    folder: TempDir,
    queues: usize,
    _turn: MutexGuard<'static, ()>,
}

impl Wire {
    /// A wire whose ends have so many queues of each kind.
    ///
    /// # Panics
    /// When the system has no temporary folder.
    #[must_use]
    pub fn new(queues: usize) -> Self {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        Self { folder: tempfile::tempdir().unwrap(), queues, _turn: turn }
    }

    /// The server's end, at a UDP port.
    #[must_use]
    pub fn server(&self, port: u16) -> DpdkConfig {
        self.end("server", 0, SocketAddrV4::new(SERVER, port))
    }

    /// The client's end.
    #[must_use]
    pub fn client(&self) -> DpdkConfig {
        self.end("client", 1, CLIENT)
    }

    /// A client of the server at a UDP port.
    ///
    /// # Panics
    /// When there is no such server.
    #[must_use]
    pub fn connect(&self, port: u16) -> WireClient {
        let server = SocketAddrV4::new(SERVER, port);
        let mut client = WireClient { port: DpdkClient::open(&self.client(), server).unwrap() };
        client.poll_until("the server's station", |client| client.port.resolve().then_some(()));
        client
    }

    fn end(&self, role: &str, number: u32, address: SocketAddrV4) -> DpdkConfig {
        let socket = self.folder.path().join("memif.sock");
        let socket = socket.display();
        let device = format!("net_memif{number},role={role},socket-abstract=no,socket={socket},id=0");
        DpdkConfig::new(address, EAL).virtual_device(Some(device)).queues(Some(self.queues))
    }
}

/// A client that chooses the queues of its requests.
#[derive(Debug)]
pub struct WireClient {
    port: DpdkClient,
}

impl WireClient {
    /// Sends a datagram to a receive queue of the server.
    ///
    /// # Panics
    /// When the queue is full.
    pub fn send(&mut self, queue: usize, datagram: &[u8]) {
        self.port.send_on(queue, datagram).unwrap();
        assert_eq!(self.port.flush(), 0, "queue {queue} is full");
    }

    /// Waits for the next datagrams, and returns them.
    ///
    /// # Panics
    /// When none comes within [`DEADLINE`].
    pub fn receive(&mut self) -> Vec<Vec<u8>> {
        self.poll_until("a datagram", |client| {
            let mut received = Vec::new();
            let take = |datagram: &[u8]| received.push(datagram.to_vec());
            client.port.receive(take);
            (!received.is_empty()).then_some(received)
        })
    }

    /// Sends a datagram, and returns the one that comes back.
    ///
    /// # Panics
    /// When not exactly one comes back.
    pub fn ask(&mut self, queue: usize, datagram: &[u8]) -> Vec<u8> {
        self.send(queue, datagram);
        let [reply] = <[Vec<u8>; 1]>::try_from(self.receive()).expect("one reply");
        reply
    }

    /// As [`wait_until`](crate::wait_until), without a pause: a port is polled.
    fn poll_until<T>(&mut self, what: &str, mut poll: impl FnMut(&mut Self) -> Option<T>) -> T {
        let give_up = Instant::now() + DEADLINE;
        loop {
            if let Some(found) = poll(self) {
                return found;
            }
            assert!(Instant::now() < give_up, "not within {DEADLINE:?}: {what}");
            std::thread::yield_now();
        }
    }
}
