//! Changing a server while it runs, and preempting its requests.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use psp_protocols::psp_header::{Header, Kind};
use psp_server::{Policy, PreemptPolicy, SpawnedServer, Topology};
use psp_synthetic::config::Config;
use psp_synthetic::handler::Mode;
use psp_synthetic::startup;

use crate::program::stop;

/// Longest wait. It is long enough for any machine, so that only failing tests reach it.
const PATIENCE: Duration = Duration::from_secs(30);

fn start(mode: Mode, (policy, topology): (Policy, Topology), preempt: PreemptPolicy) -> SpawnedServer {
    let config = Config {
        port: 0,
        mode,
        policy,
        server: psp_server::Config::default().workers(1).topology(topology).preempt(preempt),
        ..Config::default()
    };
    startup::build(config).unwrap().spawn().unwrap()
}

/// Sends a request of 300 ms, and short requests once it runs. Returns the types of the replies in order.
fn order_of_replies(server: &SpawnedServer) -> Vec<u16> {
    const SHORTS: u64 = 5;
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    let long_and_shorts = std::iter::once((1, 300_000_000)).chain([(0, 1_000); SHORTS as usize]);
    for (number, (request_type, run_time_ns)) in long_and_shorts.enumerate() {
        let header = Header {
            kind: Kind::Request,
            request_type,
            id: number as u32,
            run_time_ns,
            payload_len: 0,
        };
        client.send_to(&header.encode(), server.local_addrs()[0]).unwrap();
        let deadline = Instant::now() + PATIENCE;
        while server.handle().snapshot().types[1].turns.turns == 0 {
            assert!(Instant::now() < deadline, "the long request does not begin");
            std::thread::yield_now();
        }
    }
    let mut reply = [0; 64];
    let replies = (0..=SHORTS).map(|_| {
        let len = client.recv(&mut reply).unwrap();
        Header::decode(&reply[..len]).unwrap().request_type
    });
    replies.collect()
}

#[test]
fn short_requests_pass_a_long_one_that_spins_or_sleeps() {
    let dispatched = || {
        let sq = Policy::sq().quantum_us(1000);
        (sq, Topology::Dedicated)
    };
    // Only the timer core sees what comes in while its worker runs the long request. `synergy` would go by service
    // times, and five short requests that lost their core for a while are no short ones.
    let of_worker = || {
        let jsq = Policy::jsq().quantum_us(1000);
        (jsq, Topology::Distributed)
    };
    for (mode, (policy, topology), preempt) in [
        (Mode::Spin, dispatched(), PreemptPolicy::Cooperative),
        (Mode::Sleep, dispatched(), PreemptPolicy::Cooperative),
        (Mode::Spin, dispatched(), PreemptPolicy::Signal),
        (Mode::Spin, dispatched(), PreemptPolicy::KernelThread),
        (Mode::Spin, of_worker(), PreemptPolicy::Cooperative),
        (Mode::Spin, of_worker(), PreemptPolicy::Signal),
    ] {
        let server = start(mode, (policy, topology), preempt);
        let order = order_of_replies(&server);
        let named = format!("{topology} {mode:?} {preempt}");
        assert_eq!(order.last(), Some(&1), "{named}: {order:?}");
        let turns = server.handle().snapshot().types[1].turns;
        // A worker alone drives its sockets itself: its request pauses for them before its quantum is over.
        let gave_way = turns.preemptions_honoured + turns.pauses;
        assert!(gave_way > 0, "{named}: {turns:?}");
        stop(server);
    }
}
