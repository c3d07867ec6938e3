//! Sockets of which the client knows who receives what they send.
//!
//! Where workers receive for themselves, the kernel gives all datagrams of one source address and port to one of them,
//! by a hash. The client tries ports until it has one for each worker. All flows of a worker can then share that
//! worker's socket: the server sees no difference.

use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use psp_server::ServerHandle;

use super::client::connected;

/// Ports that are tried at most. Fourteen workers need some fifty.
const PORTS_MAX: usize = 2000;
/// Longest wait for a datagram to be counted. It is long enough for any machine, so that only failing tests reach it.
const PATIENCE: Duration = Duration::from_secs(120);

/// What is no request, and is counted all the same.
const PROBE: &[u8] = b"?";

/// Sends a probe, and waits until the server has received it.
pub(super) fn probe(server: &ServerHandle, socket: &UdpSocket) {
    let before = server.snapshot().net.malformed;
    socket.send(PROBE).unwrap();
    let deadline = Instant::now() + PATIENCE;
    while server.snapshot().net.malformed == before {
        assert!(Instant::now() < deadline, "the server does not receive");
        thread::sleep(Duration::from_micros(200));
    }
}

/// A socket for each worker, by their numbers.
pub(super) fn of_workers(server: &ServerHandle, address: SocketAddr) -> Vec<UdpSocket> {
    let received = || -> Vec<u64> {
        let workers = server.snapshot().workers.into_iter();
        workers.map(|worker| worker.datagrams_received).collect()
    };
    let mut before = received();
    let mut sockets: Vec<Option<UdpSocket>> = before.iter().map(|_| None).collect();
    for _ in 0..PORTS_MAX {
        if sockets.iter().all(Option::is_some) {
            break;
        }
        let socket = connected(address);
        probe(server, &socket);
        let after = received();
        let receiver = before.iter().zip(&after).position(|(one, other)| one < other);
        sockets[receiver.unwrap()].get_or_insert(socket);
        before = after;
    }
    let sockets = sockets.into_iter().enumerate();
    let found = |(worker, socket): (usize, Option<_>)| {
        socket.unwrap_or_else(|| panic!("none of {PORTS_MAX} ports belongs to worker {worker}"))
    };
    sockets.map(found).collect()
}
