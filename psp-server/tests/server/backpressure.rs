//! Typed queues that are full: requests wait for places in them, for a bounded time.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::common::{Client, TestServer, start, start_typed, types, until};
use psp_server::telemetry::TypeSnapshot;
use psp_server::{Config, Policy, Topology};

const QUEUE_CAPACITY: usize = 3;
const CLIENTS: usize = 20;
/// How many wait for places while one runs.
const HELD: u64 = (CLIENTS - QUEUE_CAPACITY) as u64;
/// No test takes as long.
const FOR_EVER_MS: u64 = 3_600_000;

/// Servers that run one long request at a time.
fn one_at_a_time() -> [(Policy, Topology, usize); 4] {
    [
        (Policy::darc(), Topology::Inline, 2),
        (Policy::darc(), Topology::Dedicated, 2),
        (Policy::c_fcfs(), Topology::Dedicated, 1),
        (Policy::edf(), Topology::Dedicated, 1),
    ]
}

/// How many of them have another worker for short requests.
const WITH_SHORT: usize = 2;

fn config(workers: usize, backpressure_ms: u64) -> Config {
    Config::default()
        .workers(workers)
        .queue_capacity(QUEUE_CAPACITY)
        .backpressure_ms(backpressure_ms)
}

fn start_one((policy, topology, workers): (Policy, Topology, usize)) -> TestServer {
    start(policy, topology, config(workers, FOR_EVER_MS))
}

fn short(server: &TestServer) -> TypeSnapshot {
    server.handle.snapshot().types[0].clone()
}

fn long(server: &TestServer) -> TypeSnapshot {
    server.handle.snapshot().types[1].clone()
}

/// A client whose long request has the worker, and [`CLIENTS`] whose long requests came after it, one after the other.
fn flood(server: &TestServer) -> (Client, Vec<Client>) {
    let mut running = server.connect();
    running.send("wait here\n");
    until("the first request runs", || server.gate.waiting.load(Ordering::SeqCst) == 1);
    let mut clients = Vec::new();
    for number in 0..CLIENTS {
        let mut client = server.connect();
        client.send(&format!("wait {number}\n"));
        until("the request has arrived", || long(server).arrivals == number as u64 + 2);
        clients.push(client);
    }
    (running, clients)
}

fn all_are_served(server: &TestServer, clients: &mut [Client]) {
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.line(), format!("ok wait {number}"));
    }
    assert_eq!(long(server).rejections, 0);
}

fn has_received(client: &Client) -> bool {
    client.stream.set_nonblocking(true).unwrap();
    let received = client.stream.peek(&mut [0]).is_ok();
    client.stream.set_nonblocking(false).unwrap();
    received
}

#[test]
fn a_burst_waits_for_places_and_is_served_in_order() {
    for shape in one_at_a_time() {
        let server = start_one(shape);
        let (_running, mut clients) = flood(&server);
        assert_eq!(long(&server).held, HELD);
        server.gate.open();
        let mut last = clients.pop().unwrap();
        assert_eq!(last.line(), format!("ok wait {}", CLIENTS - 1));
        assert!(clients.iter().all(has_received), "others came before");
        all_are_served(&server, &mut clients);
    }
}

#[test]
fn short_requests_do_not_wait_for_the_places_of_long_ones() {
    for shape in one_at_a_time().into_iter().take(WITH_SHORT) {
        let server = start_one(shape);
        let (_running, mut clients) = flood(&server);
        let mut witness = server.connect();
        for _ in 0..100 {
            assert_eq!(witness.ask("short"), "ok short");
        }
        assert_eq!((short(&server).held, long(&server).completions), (0, 0));
        server.gate.open();
        all_are_served(&server, &mut clients);
    }
}

#[test]
fn a_request_that_gets_no_place_in_time_is_refused() {
    for backpressure_ms in [0, 1, 30] {
        for (policy, topology, workers) in one_at_a_time() {
            let server = start(policy, topology, config(workers, backpressure_ms));
            let (_running, mut clients) = flood(&server);
            // The worker is taken, so no place becomes free.
            let refused = clients.split_off(QUEUE_CAPACITY);
            for (number, mut client) in (QUEUE_CAPACITY..).zip(refused) {
                assert_eq!(client.line(), format!("!busy long wait {number}"));
            }
            let held = if backpressure_ms == 0 { 0 } else { HELD };
            let counted = long(&server);
            let counted = (counted.rejections, counted.held, counted.completions);
            assert_eq!(counted, (HELD, held, 0));
            server.gate.open();
            for (number, client) in clients.iter_mut().enumerate() {
                assert_eq!(client.line(), format!("ok wait {number}"));
            }
        }
    }
}

#[test]
fn a_deadline_passes_while_a_request_waits_for_a_place() {
    for (policy, topology, workers) in one_at_a_time() {
        let [short, long_type] = types();
        let types = [short, long_type.max_wait(Duration::from_millis(5))];
        let server = start_typed(policy, topology, config(workers, FOR_EVER_MS), types);
        let (_running, clients) = flood(&server);
        // The worker is taken, so nothing has its turn.
        for (number, mut client) in clients.into_iter().enumerate().skip(QUEUE_CAPACITY) {
            assert_eq!(client.line(), format!("!expired wait {number}"));
        }
        let long = long(&server);
        assert_eq!((long.expired, long.rejections), (HELD, 0));
    }
}

#[test]
fn nothing_more_is_read_while_a_request_waits_for_a_place() {
    for shape in one_at_a_time().into_iter().take(WITH_SHORT) {
        let server = start_one(shape);
        let (_running, mut clients) = flood(&server);
        let received = || server.handle.snapshot().net.bytes_received;
        let before = received();
        let more = "wait more\n".repeat(1000);
        for client in clients.iter_mut().skip(QUEUE_CAPACITY) {
            client.send(&more);
        }
        let mut witness = server.connect();
        for _ in 0..100 {
            assert_eq!(witness.ask("short"), "ok short");
        }
        assert_eq!(received() - before, 100 * "short\n".len() as u64);
        server.gate.open();
        all_are_served(&server, &mut clients);
        for client in clients.iter_mut().skip(QUEUE_CAPACITY) {
            for _ in 0..1000 {
                assert_eq!(client.line(), "ok wait more");
            }
        }
    }
}

#[test]
fn requests_of_closed_connections_get_no_places() {
    for (policy, topology, workers) in one_at_a_time() {
        let config = config(workers, FOR_EVER_MS).half_close_grace_ms(0);
        let server = start(policy, topology, config);
        let (_running, mut clients) = flood(&server);
        clients.truncate(QUEUE_CAPACITY);
        until("the server knows that the others have left", || {
            server.handle.snapshot().net.connections_abandoned == HELD
        });
        server.gate.open();
        all_are_served(&server, &mut clients);
        until("their requests are dropped", || long(&server).abandoned == HELD);
        until("their connections are closed", || {
            server.handle.snapshot().net.connections_open == QUEUE_CAPACITY as u64 + 1
        });
        assert_eq!(long(&server).completions, QUEUE_CAPACITY as u64 + 1);
    }
}

#[test]
fn a_server_that_stops_serves_requests_that_wait_for_places() {
    for shape in one_at_a_time() {
        let server = start_one(shape);
        let (_running, mut clients) = flood(&server);
        server.handle.shut_down();
        server.gate.open();
        all_are_served(&server, &mut clients);
        assert_eq!(server.stop().abandoned, 0);
    }
}

#[test]
fn requests_that_wait_for_places_go_on_under_another_policy() {
    for shape in one_at_a_time() {
        let server = start_one(shape);
        let (_running, mut clients) = flood(&server);
        server.handle.set_policy(Policy::fixed_priority()).unwrap();
        server.gate.open();
        all_are_served(&server, &mut clients);
    }
}
