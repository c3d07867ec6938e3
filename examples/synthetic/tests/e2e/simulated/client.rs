//! Sends the requests of a simulation to a live server, at the times of their simulated arrivals.
//!
//! ```text
//!   requests ─► sender ──► server ──► receiver ─► latency of each
//! ```

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use psp_protocols::psp_header::{Header, Kind};
use psp_sim::simulator::SimRequest;

/// Time between the start and the first request, in which threads start.
const START_DELAY: Duration = Duration::from_millis(50);
/// Longest time without a reply before the rest counts as lost. It is longer than any request waits and runs.
const PATIENCE: Duration = Duration::from_secs(300);

/// Requests and their latencies.
pub(crate) struct Exchange {
    /// When each request was due.
    pub(crate) due: Vec<Instant>,
    /// Time from then to the reply; `None` without a reply.
    pub(crate) latency: Vec<Option<Duration>>,
}

/// Sends `requests` to the server at `address`, which multiplies run times by `stretch`. No more than `window` are without
/// a reply at a time; further ones are late. A socket holds 250 or more, so that none is lost where the server stalls.
pub(crate) fn exchange(
    address: SocketAddr,
    requests: &[SimRequest],
    stretch: u32,
    window: usize,
) -> Exchange {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let start = Instant::now() + START_DELAY;
    let since_first = |request: &SimRequest| request.at_ns - requests[0].at_ns;
    let due = |request| start + Duration::from_nanos(since_first(request));
    let due: Vec<_> = requests.iter().map(due).collect();
    let replies = AtomicUsize::new(0);
    let latency = thread::scope(|scope| {
        scope.spawn(|| {
            let wait = |sent: usize| {
                while sent.saturating_sub(replies.load(Ordering::Relaxed)) >= window {
                    thread::sleep(Duration::from_millis(1));
                }
            };
            send(&socket, requests, &due, stretch, wait);
        });
        let latency = receive(&socket, &due, &replies);
        // The sender waits for no reply that does not come.
        replies.store(due.len(), Ordering::Relaxed);
        latency
    });
    Exchange { due, latency }
}

fn send(
    socket: &UdpSocket,
    requests: &[SimRequest],
    due: &[Instant],
    stretch: u32,
    wait: impl Fn(usize),
) {
    for (id, (request, due)) in requests.iter().zip(due).enumerate() {
        let header = Header {
            kind: Kind::Request,
            request_type: request.kind.try_into().unwrap(),
            id: id.try_into().unwrap(),
            payload_len: 0,
            run_time_ns: (request.service_ns / u64::from(stretch))
                .try_into()
                .unwrap(),
        };
        thread::sleep(due.saturating_duration_since(Instant::now()));
        wait(id);
        socket.send(&header.encode()).unwrap();
    }
}

fn receive(socket: &UdpSocket, due: &[Instant], replies: &AtomicUsize) -> Vec<Option<Duration>> {
    let mut latency = vec![None; due.len()];
    let mut reply = [0; 64];
    for _ in due {
        // A timeout: the remaining replies are lost.
        let Ok(len) = socket.recv(&mut reply) else {
            break;
        };
        let now = Instant::now();
        replies.fetch_add(1, Ordering::Relaxed);
        let header = Header::decode(&reply[..len]).unwrap();
        assert_eq!(header.kind, Kind::Reply);
        let id = header.id as usize;
        let earlier = latency[id].replace(now - due[id]);
        assert!(earlier.is_none(), "request {id} was answered twice");
    }
    latency
}
