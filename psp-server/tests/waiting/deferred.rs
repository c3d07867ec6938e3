//! Replies that are written after their handlers returned.

use std::net::{Shutdown as Half, UdpSocket};
use std::thread;
use std::time::Duration;

use psp_server::{DeferredReply, Policy, PreemptPolicy, Topology};

use crate::common::{Client, PATIENCE, until};
use crate::rig::{NamedLines, WaitingServer, config, named, servers, start, start_framed};

/// Waits until so many replies are kept, and takes them.
fn take(server: &WaitingServer, count: usize) -> Vec<DeferredReply> {
    let kept = || server.kept.lock().unwrap();
    until("the replies are deferred", || kept().len() == count);
    std::mem::take(&mut kept())
}

fn deferred(server: &WaitingServer) -> u64 {
    server.handle.snapshot().net.replies_deferred
}

/// More requests than contexts defer their replies, and others run meanwhile.
#[test]
fn they_hold_no_context_and_no_worker() {
    const CLIENTS: usize = 100;
    for (policy, config) in servers() {
        let name = named(&(policy.clone(), config.clone()));
        let server = start(policy, config.contexts_per_worker(3));
        let mut clients: Vec<_> = (0..CLIENTS).map(|_| server.connect()).collect();
        for client in &mut clients {
            client.send("defer-kept\n");
        }
        let kept = take(&server, CLIENTS);
        assert_eq!(deferred(&server), CLIENTS as u64, "{name}");
        let mut other = server.connect();
        for line in ["short 1", "spin 10", "nap 1", "defer 1", "yield 3"] {
            assert_eq!(other.ask(line), format!("ok {line}"), "{name}");
        }
        assert_eq!(deferred(&server), CLIENTS as u64, "{name}");
        kept.into_iter().for_each(DeferredReply::finish);
        for client in &mut clients {
            assert_eq!(client.line(), "ok defer-kept", "{name}");
        }
        assert_eq!(deferred(&server), 0, "{name}");
        let ended = server.handle.snapshot().types[1].completions;
        assert_eq!(ended, CLIENTS as u64 + 3, "{name}: they are no longer");
        assert_eq!(server.stop().abandoned, 0, "{name}");
    }
}

#[test]
fn replies_keep_the_order_of_their_connections() {
    for (policy, config) in servers() {
        let name = named(&(policy.clone(), config.clone()));
        let server = start(policy, config);
        let mut client = server.connect();
        client.send("short 1\nshort 2\ndefer-kept 3\nshort 4\ndefer 1\nshort 6\nnap 1\n");
        assert_eq!(client.line(), "ok short 1", "{name}");
        assert_eq!(client.line(), "ok short 2", "{name}: earlier ones are sent");
        let kept = take(&server, 1);
        assert_eq!(server.connect().ask("short"), "ok short", "{name}");
        let completed = server.handle.snapshot().types[0].completions;
        assert_eq!(completed, 3, "{name}: later ones have not begun");
        kept.into_iter().for_each(DeferredReply::finish);
        for line in ["defer-kept 3", "short 4", "defer 1", "short 6", "nap 1"] {
            assert_eq!(client.line(), format!("ok {line}"), "{name}");
        }
        assert_eq!(server.stop().abandoned, 0, "{name}");
    }
}

#[test]
fn replies_that_name_their_requests_overtake_deferred_ones() {
    const REQUESTS: usize = 200;
    for topology in [Topology::Inline, Topology::Dedicated] {
        let config = config(topology, PreemptPolicy::None).requests_per_connection_max(1);
        let server = start_framed(NamedLines, Policy::c_fcfs(), config);
        let mut client = server.connect();
        client.send("defer-kept 1\nshort 2\ndefer-kept 3\nspin 9\n");
        assert_eq!(client.line(), "ok short 2");
        assert_eq!(client.line(), "ok spin 9");
        let mut kept = take(&server, 2);
        // One comes while a request of its connection runs.
        client.send("nap 20\n");
        until("it naps", || server.begun.load(std::sync::atomic::Ordering::SeqCst) == 4);
        kept.pop().unwrap().finish();
        drop(kept);
        let mut lines = [client.line(), client.line(), client.line()];
        lines.sort();
        let expected = ["!failed defer-kept 1", "ok defer-kept 3", "ok nap 20"];
        assert_eq!(lines, expected, "{topology}");

        // A connection owes so many at most, and answers all of them.
        for number in 0..REQUESTS {
            client.send(&format!("defer-kept {number}\n"));
        }
        let mut answered = 0;
        while answered < REQUESTS {
            let kept: Vec<_> = std::mem::take(&mut *server.kept.lock().unwrap());
            assert!(kept.len() <= 64, "{}", kept.len());
            for reply in kept {
                reply.finish();
                assert_eq!(client.line(), format!("ok defer-kept {answered}"));
                answered += 1;
            }
        }
        assert_eq!(server.stop().abandoned, 0);
    }
}

#[test]
fn one_that_fails_is_dropped_or_is_too_long_is_an_error_for_its_peer_alone() {
    for (policy, config) in servers() {
        let name = named(&(policy.clone(), config.clone()));
        let server = start(policy, config.reply_bytes_max(200_000));
        let mut client = server.connect();
        for _ in 0..3 {
            let failed = client.ask("defer-fail 1");
            assert_eq!(failed, "!defer-fail 1 defer-fail 1", "{name}");
            let dropped = client.ask("defer-drop 1");
            assert_eq!(dropped, "!failed defer-drop 1", "{name}");
            let panicked = client.ask("defer-panic 1");
            assert_eq!(panicked, "!failed defer-panic 1", "{name}");
            let long = client.ask("defer-big 150000");
            assert_eq!(long.len(), 150_000 + "ok defer-big 150000".len(), "{name}");
            let longer = client.ask("defer-big 200000");
            assert!(longer.starts_with("!larger than 200000"), "{name}: {longer}");
            assert_eq!(client.ask("short"), "ok short", "{name}");
        }
        // That of a handler that panicked has no client to fail.
        assert_eq!(server.handle.snapshot().net.deferred_failed, 9, "{name}");
        until("its bytes are given back", || server.handle.snapshot().net.buffered_bytes < 200_000);
        assert_eq!(server.stop().abandoned, 0, "{name}");
    }
}

/// Waits for the reply to a request without reading it. Returns the client that does not read.
fn silent(server: &WaitingServer, requests: &str) -> Client {
    let mut client = server.connect();
    client.send(requests);
    until("its reply is complete and does not fit into the socket", || {
        let net = server.handle.snapshot().net;
        net.bytes_sent > 0 && net.buffered_bytes > 5_000_000
    });
    client
}

/// The reply to another finds no room, until a connection is closed whose peer does not read. One whose peer reads, and
/// waits for a reply, stays.
#[test]
fn who_does_not_read_is_evicted_for_those_of_others() {
    for topology in [Topology::Inline, Topology::Dedicated] {
        let config = config(topology, PreemptPolicy::None).buffered_bytes_max(30_000_000);
        for is_owed_another in [false, true] {
            let server = start_framed(NamedLines, Policy::c_fcfs(), config.clone());
            let mut patient = server.connect();
            patient.send("defer-kept 1\n");
            let kept = take(&server, 1);
            let mut requests = String::new();
            if is_owed_another {
                requests += "defer-kept 2\n";
            }
            let mut silent = silent(&server, &(requests + "defer-big 20000000\n"));
            // By then it has made no progress for long enough.
            thread::sleep(Duration::from_millis(1500));
            let len = server.connect().ask("defer-big 22000000").len();
            assert_eq!(len, 22_000_000 + "ok defer-big 22000000".len());
            assert!(silent.rest().len() < 20_000_000, "{topology}");
            let net = server.handle.snapshot().net;
            assert_eq!((net.connections_over_budget, net.deferred_failed), (1, 0));
            assert!(!kept[0].is_abandoned(), "{topology}");
            kept.into_iter().for_each(DeferredReply::finish);
            assert_eq!(patient.line(), "ok defer-kept 1", "{topology}");
            let left = std::mem::take(&mut *server.kept.lock().unwrap());
            assert!(left.iter().all(DeferredReply::is_abandoned), "{topology}");
            drop(left);
            until("all bytes are given back", || server.handle.snapshot().net.buffered_bytes < 70_000);
            assert_eq!(server.stop().abandoned, 0, "{topology}");
        }
    }
}

/// The connection's place is used again before its reply is complete.
#[test]
fn one_whose_peer_has_left_is_for_nobody() {
    for (policy, config) in servers() {
        let name = named(&(policy.clone(), config.clone()));
        let server = start(policy, config.half_close_grace_ms(0));
        let mut leaving = server.connect();
        leaving.send("defer-kept 1\n");
        let kept = take(&server, 1);
        assert!(!kept[0].is_abandoned(), "{name}");
        drop(leaving);
        until("the peer is known to be gone", || kept[0].is_abandoned());
        until("its connection is closed", || server.handle.snapshot().net.connections_open == 0);
        let mut other = server.connect();
        other.send("defer-kept 2\n");
        let others = take(&server, 1);
        kept.into_iter().for_each(DeferredReply::finish);
        others.into_iter().for_each(DeferredReply::finish);
        assert_eq!(other.line(), "ok defer-kept 2", "{name}");
        assert_eq!(other.ask("short"), "ok short", "{name}");
        until("its bytes are given back", || server.handle.snapshot().net.buffered_bytes < 70_000);
        assert_eq!(server.stop().abandoned, 0, "{name}");
    }
}

/// A handler may take the end of the peer's side for its end.
#[test]
fn one_whose_peer_has_only_ended_its_side_is_sent() {
    const FOR_EVER_MS: u64 = 1_000_000_000;
    for (policy, config) in servers() {
        let name = named(&(policy.clone(), config.clone()));
        let server = start(policy, config.half_close_grace_ms(FOR_EVER_MS));
        let mut client = server.connect();
        client.send("defer-kept\n");
        let kept = take(&server, 1);
        assert!(!kept[0].has_peer_ended(), "{name}");
        client.stream.shutdown(Half::Write).unwrap();
        until("the peer has ended its side", || kept[0].has_peer_ended());
        assert!(!kept[0].is_abandoned(), "{name}");
        kept.into_iter().for_each(DeferredReply::finish);
        assert_eq!(client.rest(), "ok defer-kept\n", "{name}");
        let handle = server.handle.clone();
        assert!(!handle.is_stopping(), "{name}");
        assert_eq!(server.stop().abandoned, 0, "{name}");
        assert!(handle.is_stopping(), "{name}");
    }
}

#[test]
fn datagrams_overtake_and_leave_half_of_the_buffers_to_others() {
    for (policy, topology) in [
        (Policy::c_fcfs(), Topology::Inline),
        (Policy::c_fcfs(), Topology::Dedicated),
        (Policy::d_fcfs(), Topology::Distributed),
        (Policy::stealing(), Topology::Distributed),
    ] {
        let config = config(topology, PreemptPolicy::None).queue_capacity(4);
        let server = start(policy, config);
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        let send = |line: &str| client.send_to(line.as_bytes(), server.udp).unwrap();
        let mut reply = [0; 200];
        let mut receive = || {
            let len = client.recv(&mut reply).unwrap();
            String::from_utf8_lossy(&reply[..len]).trim_end().to_owned()
        };
        for line in ["fail", "drop"] {
            send(&format!("defer-{line} 1\n"));
            assert!(receive().starts_with('!'), "{line}");
        }
        send("defer-kept 1\n");
        let kept = take(&server, 1);
        send("short 2\n");
        assert_eq!(receive(), "ok short 2");
        kept.into_iter().for_each(DeferredReply::finish);
        assert_eq!(receive(), "ok defer-kept 1");
        let mut count = 0;
        let refused = loop {
            send(&format!("defer-kept {count}\n"));
            let kept = || server.kept.lock().unwrap().len();
            until("it is deferred", || kept() > count);
            client.set_nonblocking(true).unwrap();
            count += 1;
            if deferred(&server) < count as u64 {
                client.set_nonblocking(false).unwrap();
                break receive();
            }
            client.set_nonblocking(false).unwrap();
            assert!(count < 1000, "all buffers wait");
        };
        assert!(refused.starts_with("!too many replies"), "{refused}");
        send("short 3\n");
        assert_eq!(receive(), "ok short 3", "there are buffers for others");
        let kept = take(&server, count);
        kept.into_iter().for_each(DeferredReply::finish);
        for number in 0..count - 1 {
            assert_eq!(receive(), format!("ok defer-kept {number}"));
        }
        assert_eq!(server.stop().abandoned, 0);
    }
}

#[test]
fn a_stopping_server_waits_for_them_and_not_for_ever() {
    for topology in [Topology::Inline, Topology::Dedicated] {
        let config = |drain_ms| config(topology, PreemptPolicy::None).drain_timeout_ms(drain_ms);
        let server = start(Policy::c_fcfs(), config(30_000));
        let mut client = server.connect();
        client.send("defer-kept 1\n");
        let kept = take(&server, 1);
        let completing = thread::spawn(move || {
            thread::sleep(Duration::from_millis(50));
            kept.into_iter().for_each(DeferredReply::finish);
        });
        assert_eq!(server.stop().abandoned, 0);
        assert_eq!(client.line(), "ok defer-kept 1");
        completing.join().unwrap();

        let server = start(Policy::c_fcfs(), config(50));
        let mut client: Client = server.connect();
        client.send("defer-kept 1\n");
        let kept = take(&server, 1);
        assert_eq!(server.stop().abandoned, 1);
        kept.into_iter().for_each(DeferredReply::finish);
        assert_eq!(client.rest(), "", "no handler is left to send it");
    }
}
