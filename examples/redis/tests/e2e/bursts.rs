//! Very many clients that each send one request at the same moment: the server serves all of them,
//! as Redis does. It refuses requests of a type only when their queue stays full.

use std::io::{Read, Write};
use std::net::TcpStream;

use psp_harness::{connect, wait_until};
use psp_server::Policy;

use crate::common::{Connection, Options, Server, TOPOLOGIES, encode_line, raise_descriptor_limit};

/// Descriptors of this process that tests of other suites may have at the same time.
const DESCRIPTORS_LEFT: usize = 4000;
/// As many as psp-redis takes by default.
const CLIENTS_MAX: usize = 9_990;
/// How many there are where the queue is short.
const CLIENTS: usize = 2_000;
const SHORT_QUEUE: &str = "[server]\nqueue-capacity = 128\nbackpressure-ms = 30000\n";
/// On a machine with other work to do, a burst may take longer than the default lets it.
const DEFAULT_QUEUE: &str = "[server]\nbackpressure-ms = 30000\n";

/// What each client sends, and the reply that it expects.
const REQUESTS: [(&str, &[u8]); 2] = [("SET key value", b"+OK\r\n"), ("GET key", b"$5\r\nvalue\r\n")];

fn start(policy: &str, topology: &'static str, config: &'static str) -> Server {
    let policy = Policy::NAMES.into_iter().find(|name| *name == policy);
    Server::start_with(&Options {
        policy,
        topology: Some(topology),
        workers: Some(2),
        config: Some(config),
        ..Options::default()
    })
}

/// All clients send while the server is stopped, so it finds all requests at once.
fn nobody_is_refused(server: &Server, clients: usize, shape: &str) {
    server.connect().ask("SET key value");
    let mut clients: Vec<TcpStream> = (0..clients)
        .map(|_| connect(server.address()).expect("the server accepts").into_inner())
        .collect();
    // The last one is accepted, and so are all before it.
    let mut last = server.connect();
    last.ask("PING");
    for (request, expected) in REQUESTS {
        let bytes = encode_line(request);
        server.pause();
        for client in &mut clients {
            client.write_all(&bytes).expect("room for a request");
        }
        server.resume();
        let mut reply = vec![0; expected.len()];
        for (number, client) in clients.iter_mut().enumerate() {
            client.read_exact(&mut reply).expect("a reply");
            let reply = String::from_utf8_lossy(&reply);
            let expected = String::from_utf8_lossy(expected);
            assert_eq!(reply, expected, "{shape}, {request}, client {number}");
        }
    }
    let refused: Vec<String> = { last.info("psp") }
        .lines()
        .filter(|line| line.starts_with("psp_type_") && !line.contains("rejections=0,"))
        .map(str::to_owned)
        .collect();
    assert!(refused.is_empty(), "{shape}: {refused:?}");
}

#[test]
fn as_many_clients_as_there_may_be_are_served_at_once() {
    psp_harness::only_psp!();
    let room = raise_descriptor_limit().saturating_sub(DESCRIPTORS_LEFT);
    let clients = room.min(CLIENTS_MAX);
    for (policy, topology) in [("darc", "inline"), ("c-fcfs", "dedicated")] {
        let server = start(policy, topology, DEFAULT_QUEUE);
        nobody_is_refused(&server, clients, &format!("{policy}, {topology}"));
    }
}

fn short_queues_hold_bursts(topology: &'static str, policies: &[&'static str]) {
    psp_harness::only_psp!();
    raise_descriptor_limit();
    for policy in policies {
        let server = start(policy, topology, SHORT_QUEUE);
        nobody_is_refused(&server, CLIENTS, &format!("{policy}, {topology}"));
    }
}

#[test]
fn every_policy_inline_holds_a_burst() {
    short_queues_hold_bursts("inline", &Policy::names_to_completion());
}

#[test]
fn every_policy_dedicated_holds_a_burst() {
    short_queues_hold_bursts("dedicated", &Policy::NAMES);
}

/// Long requests that run for longer than others may wait for places: those are refused, and no others.
#[test]
fn a_queue_that_stays_full_refuses_its_type_alone() {
    const SLEEPERS: usize = 20;
    const CONFIG: &str = "[server]\nqueue-capacity = 2\nbackpressure-ms = 200\ncontexts-per-worker = 2\n";
    psp_harness::only_psp!();
    for topology in TOPOLOGIES {
        let server = start("darc", topology, CONFIG);
        let mut witness = server.connect();
        assert_eq!(witness.ask("SET key value"), "+OK");
        let mut sleepers: Vec<Connection> = (0..SLEEPERS).map(|_| server.connect()).collect();
        for sleeper in &mut sleepers {
            sleeper.send(encode_line("DEBUG SLEEP 60"));
        }
        let refused = |sleepers: &[Connection]| {
            let replies = sleepers.iter().filter(|sleeper| sleeper.has_received());
            replies.count()
        };
        wait_until("some are refused", || {
            assert_eq!(witness.ask("GET key"), "\"value\"", "{topology}");
            refused(&sleepers) > 0
        });
        // One or two run and two wait. All others have waited for as long as the first of them.
        wait_until("all others are refused", || refused(&sleepers) >= SLEEPERS - 4);
        for sleeper in sleepers.iter_mut().filter(|sleeper| sleeper.has_received()) {
            let reply = sleeper.reply().to_string();
            assert!(reply.starts_with("-BUSY "), "{topology}: {reply}");
        }
        assert_eq!(witness.ask("GET key"), "\"value\"", "{topology}");
    }
}
