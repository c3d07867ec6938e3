//! Requests of one connection that run at once, as replies name their requests.

use std::sync::atomic::Ordering;

use psp_server::protocols::Sink;
use psp_server::{Config, Policy, PreemptPolicy, Reply, Request, Server, Topology};

use crate::common::{Client, until};
use crate::rig::{NamedLines, WaitingServer, config, named, servers, start_framed};

/// All ways to run requests that wait, and ports that move between threads.
fn all() -> impl Iterator<Item = (Policy, Config)> {
    let moving = "darc-distributed".parse().unwrap();
    servers()
        .into_iter()
        .chain([(moving, config(Topology::Distributed, PreemptPolicy::None))])
}

fn begun(server: &WaitingServer) -> usize {
    server.begun.load(Ordering::SeqCst)
}

#[test]
fn a_short_request_passes_a_long_one_of_its_connection() {
    for (policy, config) in all() {
        let name = named(&(policy.clone(), config.clone()));
        let server = start_framed(NamedLines, policy, config);
        for long in ["gate 1", "yield-until 2"] {
            let mut client = server.connect();
            server.gate.close();
            client.send(&format!("{long}\nshort 1\n"));
            assert_eq!(client.line(), "ok short 1", "{name}");
            assert_eq!(client.ask("short 2"), "ok short 2", "{name}: as one that comes later does");
            client.send("short-open\n");
            let mut rest = [client.line(), client.line()];
            rest.sort();
            let mut expected = [format!("ok {long}"), "ok short-open".to_owned()];
            expected.sort();
            assert_eq!(rest, expected, "{name}");
            assert_eq!(client.ask("short 3"), "ok short 3", "{name}");
        }
        assert!(server.handle.snapshot().net.runs_detached > 0, "{name}");
        assert_eq!(server.stop().abandoned, 0, "{name}");
    }
}

#[test]
fn so_many_run_at_once_and_no_more() {
    const REQUESTS: usize = 20;
    for (policy, config) in all() {
        let name = named(&(policy.clone(), config.clone()));
        for at_once in [1, 3] {
            let config = config.clone().requests_per_connection_max(at_once);
            let server = start_framed(NamedLines, policy.clone(), config);
            let mut client = server.connect();
            for number in 0..REQUESTS {
                client.send(&format!("gate {number}\n"));
            }
            until("they wait at the gate", || begun(&server) == at_once);
            assert_eq!(server.connect().ask("short"), "ok short", "{name}");
            assert_eq!(begun(&server), at_once, "{name}");
            server.gate.open();
            let mut replies: Vec<_> = (0..REQUESTS).map(|_| client.line()).collect();
            if at_once > 1 {
                replies.sort_by_key(|line| line["ok gate ".len()..].parse::<usize>().unwrap());
            }
            let expected: Vec<_> = (0..REQUESTS).map(|number| format!("ok gate {number}")).collect();
            assert_eq!(replies, expected, "{name}: {at_once} at once");
            assert_eq!(server.stop().abandoned, 0, "{name}");
        }
    }
}

#[test]
fn a_peer_that_leaves_takes_its_requests_along() {
    for (policy, config) in all() {
        let name = named(&(policy.clone(), config.clone()));
        let server = start_framed(NamedLines, policy, config.half_close_grace_ms(0));
        let mut client = server.connect();
        client.send("gate 1\ndefer-kept 2\ngate 3\n");
        until("they have begun", || begun(&server) == 3);
        drop(client);
        let net = || server.handle.snapshot().net;
        until("the connection is closed", || net().connections_open == 0);
        let mut other = server.connect();
        assert_eq!(other.ask("short-open"), "ok short-open", "{name}");
        server.kept.lock().unwrap().clear();
        assert_eq!(other.ask("short 4"), "ok short 4", "{name}: and no reply of others");
        drop(other);
        until("all is given back", || net().buffered_bytes == 0 && net().replies_deferred == 0);
        assert_eq!(server.stop().abandoned, 0, "{name}");
    }
}

#[test]
fn a_body_leaves_with_its_buffer() {
    for topology in [Topology::Inline, Topology::Dedicated] {
        let server = start_framed(NamedLines, Policy::c_fcfs(), config(topology, PreemptPolicy::None));
        let body = "x".repeat(1 << 19);
        let mut client = server.connect();
        client.send(&format!("gate {body}\nshort 1\n"));
        assert_eq!(client.line(), "ok short 1", "{topology}");
        assert_eq!(client.ask("short-open"), "ok short-open", "{topology}");
        assert_eq!(client.line(), format!("ok gate {body}"), "{topology}");
        assert_eq!(client.ask("short 2"), "ok short 2", "{topology}");
        let buffered = || server.handle.snapshot().net.buffered_bytes;
        until("its memory is given back", || buffered() == 0);
    }
}

/// Pieces of two replies would mix.
#[test]
fn their_replies_are_whole() {
    const PIECES: usize = 100;
    let handler = |request: Request<'_, ()>, reply: &mut Reply<'_>| {
        for _ in 0..PIECES {
            reply.put(&request.payload[..1]);
            assert!(reply.flush());
            assert_eq!(reply.queued_bytes(), 0, "a handler has nothing to wait for");
            psp_server::wait(psp_server::task::yield_now());
        }
        reply.put(b"\n");
    };
    for topology in [Topology::Inline, Topology::Dedicated] {
        let builder = Server::builder().tcp("127.0.0.1:0").framing(NamedLines).handler(handler);
        let server = builder.topology(topology).workers(2).build().unwrap().spawn().unwrap();
        let mut client = Client::new(std::net::TcpStream::connect(server.local_addrs()[0]).unwrap());
        client.send("a\nb\nc\n");
        let mut replies = [client.line(), client.line(), client.line()];
        replies.sort();
        assert_eq!(replies, ["a", "b", "c"].map(|letter| letter.repeat(PIECES)), "{topology}");
    }
}
