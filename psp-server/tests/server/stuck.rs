//! Requests that do not end, and the workers that others of their types use meanwhile.

use std::sync::atomic::Ordering;

use psp_server::telemetry::TypeSnapshot;
use psp_server::{Config, Policy, Topology};

use crate::common::{Client, TestServer, start, until};

/// Short, for tests: the mean service time of long requests is 10 ms.
fn config(workers: usize) -> Config {
    let config = Config::default().workers(workers);
    config.stuck_after_ms(50).stuck_after_means(1)
}

fn long(server: &TestServer) -> TypeSnapshot {
    server.handle.snapshot().types[1].clone()
}

/// A client whose request has the one worker for long requests, and does not end before the gate opens.
fn stick(server: &TestServer) -> Client {
    let mut client = server.connect();
    client.send("wait here\n");
    until("the request runs", || server.gate.waiting.load(Ordering::SeqCst) == 1);
    client
}

fn asks_long(client: &mut Client) {
    assert!(client.ask("big 1000").ends_with("xok big 1000"));
}

#[test]
fn a_type_whose_worker_is_stuck_uses_another_until_it_ends() {
    for policy in [
        Policy::darc(),
        Policy::darc_lending(),
        Policy::darc_static(1),
        Policy::static_partition(),
        Policy::cscq(),
    ] {
        let server = start(policy.clone(), Topology::Dedicated, config(2));
        let mut stuck = stick(&server);
        let mut other = server.connect();
        for _ in 0..3 {
            asks_long(&mut other);
            assert_eq!(other.ask("short"), "ok short");
        }
        // Lending may find a worker by its own rules. On a busy machine other requests seem stuck, too.
        let lends = matches!(policy, Policy::DarcLending(_));
        until("it is counted", || {
            let long = long(&server);
            (long.relieved == 3 || lends) && long.turns.stuck >= 1
        });
        server.gate.open();
        assert_eq!(stuck.line(), "ok wait here", "{policy}");
        until("reservations are as before", || {
            let before = long(&server).relieved;
            (0..10).for_each(|_| asks_long(&mut other));
            std::thread::sleep(std::time::Duration::from_millis(50));
            long(&server).relieved == before
        });
    }
}

#[test]
fn the_net_thread_does_not_stand_in_for_a_stuck_worker() {
    for policy in [Policy::darc(), Policy::static_partition()] {
        let server = start(policy, Topology::Inline, config(2));
        let mut stuck = stick(&server);
        let (mut other, mut witness) = (server.connect(), server.connect());
        other.send("big 1000\n");
        until("the request is stuck", || {
            assert_eq!(witness.ask("short"), "ok short");
            long(&server).turns.stuck >= 1
        });
        for _ in 0..1_000 {
            assert_eq!(witness.ask("short"), "ok short");
        }
        let waits = long(&server);
        assert_eq!((waits.arrivals, waits.completions, waits.relieved), (2, 0, 0));
        server.gate.open();
        assert_eq!(stuck.line(), "ok wait here");
        assert!(other.line().ends_with("xok big 1000"));
    }
}

#[test]
fn without_a_time_nothing_is_stuck() {
    let config = config(2).stuck_after_ms(0);
    let server = start(Policy::darc(), Topology::Dedicated, config);
    let mut stuck = stick(&server);
    let (mut other, mut witness) = (server.connect(), server.connect());
    other.send("big 1000\n");
    until("the other request has arrived", || long(&server).arrivals == 2);
    for _ in 0..1_000 {
        assert_eq!(witness.ask("short"), "ok short");
    }
    let waits = long(&server);
    assert_eq!((waits.completions, waits.turns.stuck), (0, 0));
    server.gate.open();
    assert_eq!(stuck.line(), "ok wait here");
    assert!(other.line().ends_with("xok big 1000"));
}
