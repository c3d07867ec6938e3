//! Requests that may not wait for long.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::common::{TestServer, UdpClient, start_typed, types, until};
use psp_server::telemetry::TypeSnapshot;
use psp_server::{Config, Policy, PreemptPolicy, Topology};

/// How long a long request may wait.
const MAX_WAIT: Duration = Duration::from_millis(5);

/// Workers, one of which runs long requests. One of these waits at the gate.
fn busy(policy: Policy, topology: Topology, workers: usize) -> TestServer {
    let [short, long] = types();
    // No worker is lent.
    let config = Config::default().workers(workers).preempt(PreemptPolicy::None);
    let types = [short, long.max_wait(MAX_WAIT)];
    start_typed(policy, topology, config, types)
}

fn long(server: &TestServer) -> TypeSnapshot {
    server.handle.snapshot().types[1].clone()
}

/// Opens the gate when all long requests that wait have expired.
fn open_late(server: &TestServer) {
    let arrived = Instant::now();
    until("the requests have waited", || arrived.elapsed() > 2 * MAX_WAIT);
    server.gate.open();
}

#[test]
fn a_request_that_waited_too_long_is_refused() {
    for policy in [Policy::c_fcfs(), Policy::edf(), Policy::d_fcfs()] {
        let server = busy(policy, Topology::Dedicated, 1);
        let [mut first, mut late, mut short] = [(); 3].map(|()| server.connect());
        first.send("wait here\n");
        until("the first request runs", || server.gate.waiting.load(Ordering::SeqCst) == 1);
        late.send("wait 1\nwait 2\nshort behind\n");
        short.send("short\n");
        until("all have arrived", || {
            let types = server.handle.snapshot().types;
            (types[0].arrivals, types[1].arrivals) == (1, 3)
        });
        open_late(&server);
        assert_eq!(first.line(), "ok wait here");
        assert_eq!(short.line(), "ok short", "its type may wait");
        for reply in ["!expired wait 1", "!expired wait 2", "ok short behind"] {
            assert_eq!(late.line(), reply);
        }
        let long = long(&server);
        assert_eq!((long.expired, long.completions), (2, 1));
        assert_eq!(long.turns.turns, 1, "no worker had them");
        assert_eq!(late.ask("wait no more"), "ok wait no more");
    }
}

#[test]
fn datagrams_that_waited_too_long_are_dropped() {
    for (policy, topology, workers) in [
        (Policy::c_fcfs(), Topology::Dedicated, 1),
        (Policy::darc_distributed(), Topology::Distributed, 2),
    ] {
        let server = busy(policy, topology, workers);
        let mut first = server.connect();
        first.send("wait here\n");
        until("the first request runs", || server.gate.waiting.load(Ordering::SeqCst) == 1);
        let client = UdpClient::new(server.udp);
        client.send("wait 1");
        client.send("short");
        until("both have arrived", || {
            let types = server.handle.snapshot().types;
            (types[0].arrivals, types[1].arrivals) == (1, 2)
        });
        open_late(&server);
        assert_eq!(client.line(), "ok short", "the first one has no reply");
        assert_eq!(first.line(), "ok wait here");
        until("the other is dropped", || long(&server).expired == 1);
        assert_eq!(long(&server).completions, 1);
    }
}
