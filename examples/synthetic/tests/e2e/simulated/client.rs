//! Sends the requests of a simulation to a live server, at the times of their simulated arrivals.
//!
//! ```text
//!   requests ─► sender ──► server ──► receiver ─► latency of each
//! ```

use std::net::{SocketAddr, UdpSocket};
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

/// Sends `requests` to the server at `address`, which multiplies run times by `stretch`.
pub(crate) fn exchange(address: SocketAddr, requests: &[SimRequest], stretch: u32) -> Exchange {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let start = Instant::now() + START_DELAY;
    let since_first = |request: &SimRequest| request.at_ns - requests[0].at_ns;
    let due = |request| start + Duration::from_nanos(since_first(request));
    let due: Vec<_> = requests.iter().map(due).collect();
    let latency = thread::scope(|scope| {
        scope.spawn(|| send(&socket, requests, &due, stretch));
        receive(&socket, &due)
    });
    Exchange { due, latency }
}

fn send(socket: &UdpSocket, requests: &[SimRequest], due: &[Instant], stretch: u32) {
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
        socket.send(&header.encode()).unwrap();
    }
}

fn receive(socket: &UdpSocket, due: &[Instant]) -> Vec<Option<Duration>> {
    let mut latency = vec![None; due.len()];
    let mut reply = [0; 64];
    for _ in due {
        // A timeout: the remaining replies are lost.
        let Ok(len) = socket.recv(&mut reply) else {
            break;
        };
        let now = Instant::now();
        let header = Header::decode(&reply[..len]).unwrap();
        assert_eq!(header.kind, Kind::Reply);
        let id = header.id as usize;
        let earlier = latency[id].replace(now - due[id]);
        assert!(earlier.is_none(), "request {id} was answered twice");
    }
    latency
}
