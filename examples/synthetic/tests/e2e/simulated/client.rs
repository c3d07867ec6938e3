//! Sends the requests of a simulation to a live server, at the times of their simulated arrivals.
//!
//! ```text
//!                       ┌─► socket 0 ─► server ──► receiver 0 ─┐
//!   requests ─► sender ─┼─► ...                                ├─► latency of each
//!                       └─► socket N ─► server ──► receiver N ─┘
//! ```
//!
//! If workers receive for themselves, there is a socket for each: the kernel gives what comes from it to that worker.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use psp_protocols::psp_header::{Header, Kind};
use psp_server::WorkerId;
use psp_sim::simulator::SimRequest;

/// Time between the start and the first request, in which threads start.
const START_DELAY: Duration = Duration::from_millis(50);
/// Longest time without a reply before the rest counts as lost. It is longer than any request waits and runs.
const PATIENCE: Duration = Duration::from_secs(300);

/// Requests that a socket surely holds. Where no more are without a reply, none is lost while the server stalls.
pub(crate) const SOCKET_HOLDS: usize = 250;

/// Late requests that are sent at once. Behind a stall of the machine many are late, and a socket does not hold them
/// all.
const BURST_MAX: usize = 64;
/// Time for the server to read a burst.
const BURST_PAUSE: Duration = Duration::from_millis(20);

/// Requests and their latencies.
pub(crate) struct Exchange {
    /// When each request was due.
    pub(crate) due: Vec<Instant>,
    /// Time from then to the reply; `None` without a reply.
    pub(crate) latency: Vec<Option<Duration>>,
}

/// A socket that sends to `address`.
pub(crate) fn connected(address: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(address).unwrap();
    socket
}

/// Which of several sockets a request goes through: that of its receiver, or the only one.
fn way(request: &SimRequest) -> usize {
    request.receiver.map_or(0, WorkerId::index)
}

/// Sends `requests` through `sockets`, by their receivers, to a server that multiplies run times by `stretch`. No more
/// than `window` are without a reply at a time; further ones are late. Calls `sent` when the last request is on its
/// way.
pub(crate) fn exchange(
    sockets: &[UdpSocket],
    requests: &[SimRequest],
    stretch: u32,
    window: usize,
    sent: impl FnOnce() + Send,
) -> Exchange {
    let start = Instant::now() + START_DELAY;
    let since_first = |request: &SimRequest| request.at_ns - requests[0].at_ns;
    let due = |request| start + Duration::from_nanos(since_first(request));
    let due: Vec<_> = requests.iter().map(due).collect();
    let replies = AtomicUsize::new(0);
    let mut latency = vec![None; due.len()];
    thread::scope(|scope| {
        let (all_due, all_replies) = (&due, &replies);
        scope.spawn(move || {
            let (due, replies) = (all_due, all_replies);
            let wait = |sent: usize| {
                while sent.saturating_sub(replies.load(Ordering::Relaxed)) >= window {
                    thread::sleep(Duration::from_millis(1));
                }
            };
            send(sockets, requests, due, stretch, wait);
            sent();
        });
        let receivers = sockets.iter().enumerate().map(|(index, socket)| {
            let (due, replies) = (&due, &replies);
            let expected = requests.iter().filter(|it| way(it) == index).count();
            scope.spawn(move || receive(socket, expected, due, replies))
        });
        let receivers: Vec<_> = receivers.collect();
        for receiver in receivers {
            for (id, after) in receiver.join().unwrap() {
                let earlier = latency[id].replace(after);
                assert!(earlier.is_none(), "request {id} was answered twice");
            }
        }
        // The sender waits for no reply that does not come.
        replies.store(due.len(), Ordering::Relaxed);
    });
    Exchange { due, latency }
}

fn send(sockets: &[UdpSocket], requests: &[SimRequest], due: &[Instant], stretch: u32, wait: impl Fn(usize)) {
    let mut burst = 0;
    for (id, (request, due)) in requests.iter().zip(due).enumerate() {
        let header = Header {
            kind: Kind::Request,
            request_type: request.kind.try_into().unwrap(),
            id: id.try_into().unwrap(),
            payload_len: 0,
            run_time_ns: (request.service_ns / u64::from(stretch)).try_into().unwrap(),
        };
        let until_due = due.saturating_duration_since(Instant::now());
        thread::sleep(until_due);
        burst = if until_due.is_zero() { burst + 1 } else { 0 };
        if burst == BURST_MAX {
            thread::sleep(BURST_PAUSE);
            burst = 0;
        }
        wait(id);
        sockets[way(request)].send(&header.encode()).unwrap();
    }
}

/// Receives so many replies. Returns which requests they answer, and the time from when these were due.
fn receive(socket: &UdpSocket, expected: usize, due: &[Instant], replies: &AtomicUsize) -> Vec<(usize, Duration)> {
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut received = Vec::with_capacity(expected);
    let mut reply = [0; 64];
    while received.len() < expected {
        let len = match socket.recv(&mut reply) {
            Ok(len) => len,
            // The process was stopped for a while.
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            // A timeout: the remaining replies are lost.
            Err(_) => break,
        };
        let now = Instant::now();
        replies.fetch_add(1, Ordering::Relaxed);
        let header = Header::decode(&reply[..len]).unwrap();
        assert_eq!(header.kind, Kind::Reply);
        let id = header.id as usize;
        received.push((id, now - due[id]));
    }
    received
}
