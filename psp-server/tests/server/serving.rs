//! A server with a user's protocol, end to end over TCP and UDP.

use std::io::{Read, Write};
use std::net::{Shutdown as Half, TcpStream, UdpSocket};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::common::{Client, PATIENCE, TestServer, handler, lines, policies_of_workers, start, until};
use psp_server::telemetry::WorkerSnapshot;
use psp_server::{Config, Policy, PreemptPolicy, Topology};

fn shapes() -> Vec<(Topology, Config)> {
    let mut shapes = Vec::new();
    for topology in [Topology::Inline, Topology::Dedicated] {
        for workers in [1, 2, 4] {
            shapes.push((topology, Config::default().workers(workers)));
        }
    }
    shapes
}

fn two_workers() -> Config {
    Config::default().workers(2)
}

/// A client whose long request waits at the gate.
fn long_request_in_flight(server: &TestServer) -> Client {
    let mut client = server.connect();
    client.send("wait here\n");
    until("the long request runs", || server.gate.waiting.load(Ordering::SeqCst) > 0);
    client
}

#[test]
fn pipelined_replies_keep_their_order_in_every_shape() {
    for policy in [Policy::c_fcfs(), Policy::darc()] {
        for (topology, config) in shapes() {
            let server = start(policy.clone(), topology, config.clone());
            server.gate.open();
            let mut client = server.connect();
            let requests: Vec<String> = (0..3000)
                .map(|i| match i % 7 {
                    3 => format!("wait {i}"),
                    5 => format!("?unknown {i}"),
                    _ => format!("short {i}"),
                })
                .collect();
            client.send(&(requests.join("\n") + "\n"));
            for request in &requests {
                assert_eq!(client.line(), format!("ok {request}"), "{topology} {config:?}");
            }
            let snapshot = server.handle.snapshot();
            let completed: u64 = snapshot.types.iter().map(|ty| ty.completions).sum();
            let arrived: u64 = snapshot.types.iter().map(|ty| ty.arrivals).sum();
            assert_eq!((arrived, completed), (3000, 3000));
            assert_eq!(server.stop().abandoned, 0);
        }
    }
}

#[test]
fn short_requests_pass_a_long_one_under_darc() {
    for topology in [Topology::Inline, Topology::Dedicated] {
        let server = start(Policy::darc(), topology, two_workers());
        let mut long = long_request_in_flight(&server);
        let mut short = server.connect();
        for i in 0..1000 {
            assert_eq!(short.ask(&format!("short {i}")), format!("ok short {i}"));
        }
        assert_eq!(server.gate.waiting.load(Ordering::SeqCst), 1, "the long request still runs");
        server.gate.open();
        assert_eq!(long.line(), "ok wait here");
    }
}

#[test]
fn requests_split_at_any_byte_are_served() {
    let server = start(Policy::darc(), Topology::Inline, two_workers());
    let mut client = server.connect();
    for byte in "short 1\nshort 2\n".bytes() {
        client.send(std::str::from_utf8(&[byte]).unwrap());
    }
    assert_eq!(client.line(), "ok short 1");
    assert_eq!(client.line(), "ok short 2");
}

#[test]
fn a_panicking_handler_costs_its_own_request() {
    for topology in [Topology::Inline, Topology::Dedicated] {
        let server = start(Policy::darc(), topology, two_workers());
        let mut client = server.connect();
        client.send("short 1\npanic now\nshort 2\n");
        assert_eq!(client.line(), "ok short 1");
        assert_eq!(client.line(), "!failed panic now");
        assert_eq!(client.line(), "ok short 2");
        let panics: u64 = server.handle.snapshot().workers.iter().map(|w| w.panics).sum();
        assert_eq!(panics, 1);
    }
}

#[test]
fn a_reply_over_the_limit_becomes_an_error() {
    let config = two_workers().reply_bytes_max(5000);
    let server = start(Policy::darc(), Topology::Dedicated, config);
    let mut client = server.connect();
    client.send("short 1\nbig 100000\nshort 2\n");
    assert_eq!(client.line(), "ok short 1");
    assert_eq!(client.line(), "!larger than 5000 big 100000");
    assert_eq!(client.line(), "ok short 2");
}

#[test]
fn a_full_typed_queue_refuses_its_type_only() {
    let config = two_workers().queue_capacity(2);
    let server = start(Policy::darc(), Topology::Inline, config);
    let mut running = long_request_in_flight(&server);
    let mut waiting: Vec<_> = (0..2).map(|_| server.connect()).collect();
    for client in &mut waiting {
        client.send("wait too\n");
    }
    until("both wait", || server.handle.snapshot().types[1].arrivals == 3);
    let mut refused = server.connect();
    assert_eq!(refused.ask("wait as well"), "!busy long wait as well");
    assert_eq!(refused.ask("short"), "ok short");
    assert_eq!(server.handle.snapshot().types[1].rejections, 1);
    assert_eq!(server.handle.snapshot().types[0].rejections, 0);
    server.gate.open();
    assert_eq!(running.line(), "ok wait here");
    for client in &mut waiting {
        assert_eq!(client.line(), "ok wait too");
    }
}

#[test]
fn malformed_input_is_answered_and_closed() {
    let server = start(Policy::darc(), Topology::Inline, two_workers());
    let mut client = server.connect();
    client.send("short\n\0garbage that is never read\n");
    assert_eq!(client.line(), "ok short");
    assert_eq!(client.line(), "!malformed: zero byte");
    assert_eq!(client.line(), "", "closed");
    assert_eq!(server.handle.snapshot().net.malformed, 1);
    assert_eq!(server.connect().ask("short"), "ok short");
}

#[test]
fn half_closed_connections_get_all_their_replies() {
    for topology in [Topology::Inline, Topology::Dedicated] {
        let server = start(Policy::darc(), topology, two_workers());
        server.gate.open();
        let mut client = server.connect();
        client.send("short 1\nwait 2\nbig 300000\nshort 3\nunfinished");
        client.stream.shutdown(Half::Write).unwrap();
        assert_eq!(client.line(), "ok short 1");
        assert_eq!(client.line(), "ok wait 2");
        assert_eq!(client.line().len(), 300_000 + "ok big 300000".len());
        assert_eq!(client.line(), "ok short 3");
        assert_eq!(client.line(), "", "closed");
        until("the slot is free", || server.handle.snapshot().net.connections_open == 0);
    }
}

#[test]
fn a_slow_reader_holds_back_only_itself() {
    for topology in [Topology::Inline, Topology::Dedicated] {
        let server = start(Policy::darc(), topology, two_workers());
        let mut slow = server.connect();
        // The client asks for 200 MB of replies. The server may hold one reply beyond its high-water mark, and
        // the kernel as much as its socket buffers take.
        slow.send(&"big 1000000\n".repeat(200));
        let mut other = server.connect();
        until("the slow reader's socket is full", || {
            other.ask("short") == "ok short" && server.handle.snapshot().net.buffered_bytes > 0
        });
        for _ in 0..1000 {
            assert_eq!(other.ask("short"), "ok short");
        }
        let high_water = server.handle.config().output_high_water_bytes as u64;
        let held = server.handle.snapshot().net.buffered_bytes;
        assert!(held < high_water + 1_100_000, "held {held} bytes");
        assert!(server.handle.snapshot().types[1].completions < 200);
        for _ in 0..200 {
            assert_eq!(slow.line().len(), 1_000_000 + "ok big 1000000".len());
        }
    }
}

#[test]
fn peers_over_the_buffer_budget_are_closed_and_others_served() {
    const BUDGET: usize = 3_000_000;
    // The bytes of a read count before its connection is closed for them.
    const READ: usize = 2 << 20;
    for topology in [Topology::Inline, Topology::Dedicated] {
        let config = two_workers().buffered_bytes_max(BUDGET);
        let server = start(Policy::darc(), topology, config);
        let mut greedy: Vec<_> = (0..12).map(|_| server.connect()).collect();
        for client in &mut greedy {
            // The server may close the connection before it has read all.
            let _ = client.stream.write_all(&[b'x'; 900_000]);
        }
        until("some are over the budget", || server.handle.snapshot().net.connections_over_budget > 0);
        assert_eq!(server.connect().ask("short"), "ok short");
        until("the budget is kept", || {
            let buffered = server.handle.snapshot().net.buffered_bytes as usize;
            assert!(buffered <= BUDGET + READ, "{buffered}");
            buffered <= BUDGET
        });
    }
}

#[test]
fn replies_over_the_buffer_budget_become_errors_while_they_grow() {
    const ATTEMPTS: usize = 20;
    for topology in [Topology::Inline, Topology::Dedicated] {
        assert!((0..ATTEMPTS).any(|_| replies_over_the_budget(topology)));
    }
}

/// Returns `false` where the machine was so busy that clients lost their connections: those that read nothing for a
/// second do, if others need their room.
fn replies_over_the_budget(topology: Topology) -> bool {
    const STALE: Duration = Duration::from_secs(1);
    let config = two_workers().buffered_bytes_max(30_000_000);
    let server = start(Policy::darc(), topology, config);
    let mut patient = server.connect();
    assert_eq!(patient.ask("big 22600000"), "!larger than 22500000 big 22600000");
    let mut greedy: Vec<_> = (0..12).map(|_| server.connect()).collect();
    let began = Instant::now();
    for client in &mut greedy {
        client.send("big 20000000\n");
    }
    until("all are answered", || server.handle.snapshot().types[1].completions == 13);
    let snapshot = server.handle.snapshot();
    if snapshot.net.connections_over_budget > 0 && began.elapsed() >= STALE {
        return false;
    }
    let refused = |worker: &WorkerSnapshot| worker.replies_over_budget;
    let refused: u64 = snapshot.workers.iter().map(refused).sum();
    assert!((1..12).contains(&refused), "{refused}");
    assert_eq!(server.connect().ask("short"), "ok short");
    let replies = greedy.iter_mut().map(Client::line);
    let told = replies.filter(|reply| reply == "!out of buffers big 20000000");
    assert_eq!(told.count() as u64, refused);
    assert_eq!(snapshot.net.connections_over_budget, 0);
    until("nothing is held", || {
        patient.ask("short") == "ok short" && server.handle.snapshot().net.buffered_bytes < 1 << 20
    });
    let len = patient.ask("big 20000000").len();
    assert_eq!(len, 20_000_000 + "ok big 20000000".len());
    true
}

#[test]
fn connections_over_the_limit_are_told_so() {
    let config = two_workers().connections_max(2);
    let server = start(Policy::darc(), Topology::Inline, config);
    let mut first = server.connect();
    assert_eq!(first.ask("short"), "ok short");
    let mut second = server.connect();
    assert_eq!(second.ask("short"), "ok short");
    assert_eq!(server.connect().line(), "!too many connections");
    drop(first);
    until("the place is free", || server.handle.snapshot().net.connections_open == 1);
    assert_eq!(server.connect().ask("short"), "ok short");
    assert_eq!(server.handle.snapshot().net.connections_refused, 1);
}

#[test]
fn idle_connections_are_closed_and_busy_ones_are_not() {
    let config = two_workers().idle_timeout_s(1);
    let server = start(Policy::darc(), Topology::Inline, config);
    let mut idle = server.connect();
    assert_eq!(idle.ask("short"), "ok short");
    let mut waiting = long_request_in_flight(&server);
    assert_eq!(idle.line(), "", "closed by the server");
    assert_eq!(server.handle.snapshot().net.connections_timed_out, 1);
    server.gate.open();
    assert_eq!(waiting.line(), "ok wait here");
}

/// What comes slowly comes all the same. A few bytes now and then are nothing.
#[test]
fn a_client_that_sends_a_long_request_is_not_idle() {
    const PIECES: usize = 40;
    let config = two_workers().idle_timeout_s(2);
    let server = start(Policy::darc(), Topology::Inline, config);
    let (mut sends, mut trickles) = (server.connect(), server.connect());
    for _ in 0..PIECES {
        sends.send(&"x".repeat(1024));
        // It may be closed by now.
        let _closed = trickles.stream.write_all(b"x");
        std::thread::sleep(Duration::from_millis(100));
    }
    sends.send("\n");
    assert_eq!(sends.line(), format!("ok {}", "x".repeat(PIECES * 1024)));
    assert_eq!(trickles.line(), "", "closed by the server");
    assert_eq!(server.handle.snapshot().net.connections_timed_out, 1);
}

#[test]
fn quit_answers_and_closes() {
    let server = start(Policy::darc(), Topology::Inline, two_workers());
    let mut client = server.connect();
    client.send("quit\nnever run\n");
    assert_eq!(client.line(), "ok quit");
    assert_eq!(client.line(), "");
}

#[test]
fn a_stopping_server_answers_the_requests_that_it_has() {
    for topology in [Topology::Inline, Topology::Dedicated] {
        let server = start(Policy::darc(), topology, two_workers());
        let mut long = long_request_in_flight(&server);
        let mut idle = server.connect();
        assert_eq!(idle.ask("short"), "ok short");
        server.handle.shut_down();
        assert_eq!(idle.line(), "", "idle connections are closed");
        until("no new connections", || std::net::TcpStream::connect(server.address).is_err());
        server.gate.open();
        assert_eq!(long.line(), "ok wait here");
        assert_eq!(server.stop().abandoned, 0);
    }
}

#[test]
fn a_peer_that_never_pauses_does_not_keep_the_server_from_stopping() {
    for topology in [Topology::Inline, Topology::Dedicated] {
        let server = start(Policy::darc(), topology, two_workers());
        let client = server.connect();
        let (mut sender, mut receiver) = (client.stream.try_clone().unwrap(), client.stream);
        std::thread::scope(|scope| {
            scope.spawn(move || while sender.write_all(&b"short\n".repeat(100)).is_ok() {});
            scope.spawn(move || while receiver.read(&mut [0; 4096]).is_ok_and(|len| len > 0) {});
            until("it is served", || server.handle.snapshot().types[0].completions > 10_000);
            assert_eq!(server.stop().abandoned, 0);
        });
    }
}

/// Requests whose replies the system does not hold for a client that does not read.
const UNREAD: usize = 600_000;

/// A client that has read none of its replies.
fn has_not_read(server: &TestServer) -> TcpStream {
    let mut client = server.connect().stream;
    client.write_all(&b"short\n".repeat(UNREAD)).unwrap();
    until("all have run", || server.handle.snapshot().types[0].completions == UNREAD as u64);
    client
}

#[test]
fn a_server_that_stops_does_not_wait_for_clients_that_read_nothing() {
    const HOUR_MS: u64 = 3_600_000;
    for topology in [Topology::Inline, Topology::Dedicated] {
        let config = two_workers().drain_timeout_ms(HOUR_MS);
        let server = start(Policy::c_fcfs(), topology, config);
        let _silent = has_not_read(&server);
        let handle = server.handle.clone();
        assert_eq!(server.stop().abandoned, 0, "{topology}");
        assert_eq!(handle.snapshot().net.connections_timed_out, 1, "{topology}");
    }
}

/// A socket takes more only once a third of its buffer is free, and that takes such a client seconds.
#[test]
fn a_server_that_stops_waits_for_clients_that_read_slowly() {
    let config = two_workers().drain_timeout_ms(60_000);
    let server = start(Policy::c_fcfs(), Topology::Inline, config);
    let handle = server.handle.clone();
    let mut slow = has_not_read(&server);
    let read = std::thread::scope(|scope| {
        let reads = scope.spawn(|| {
            let (mut piece, mut text) = (vec![0; 16 * 1024], Vec::new());
            while let Ok(count @ 1..) = slow.read(&mut piece) {
                text.extend_from_slice(&piece[..count]);
                std::thread::sleep(Duration::from_millis(60));
            }
            text
        });
        assert_eq!(server.stop().abandoned, 0);
        reads.join().unwrap()
    });
    assert!(read == b"ok short\n".repeat(UNREAD), "{} bytes", read.len());
    assert_eq!(handle.snapshot().net.connections_timed_out, 0);
}

#[test]
fn a_stuck_request_is_abandoned_at_the_deadline() {
    let config = two_workers().drain_timeout_ms(50);
    let server = start(Policy::darc(), Topology::Dedicated, config);
    let gate = server.gate.clone();
    let _long = long_request_in_flight(&server);
    assert_eq!(server.stop().abandoned, 1);
    gate.open();
}

/// Two requests run and the others wait. The idle connection has nothing to give up.
#[test]
fn every_connection_and_datagram_with_a_request_at_the_deadline_counts_as_abandoned() {
    let config = two_workers().drain_timeout_ms(50);
    let server = start(Policy::c_fcfs(), Topology::Dedicated, config);
    let gate = server.gate.clone();
    let mut idle = server.connect();
    assert_eq!(idle.ask("short"), "ok short");
    let mut clients: Vec<_> = (0..5).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send("wait here\nwait there\n");
    }
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for _ in 0..2 {
        socket.send_to(b"wait here\n", server.udp).unwrap();
    }
    until("all have arrived", || server.handle.snapshot().types[1].arrivals == 12);
    assert_eq!(server.stop().abandoned, 7);
    gate.open();
}

#[test]
fn datagrams_are_answered_in_place() {
    let dispatched = shapes().into_iter();
    let dispatched = dispatched.map(|(topology, config)| (Policy::darc(), topology, config));
    let of_workers = policies_of_workers().into_iter();
    let of_workers = of_workers.map(|policy| (policy, Topology::Distributed, two_workers()));
    for (policy, topology, config) in dispatched.chain(of_workers) {
        let server = start(policy, topology, config);
        server.gate.open();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut buffer = [0; 2048];
        for i in 0..200 {
            let request = if i % 3 == 0 {
                format!("wait {i}\n")
            } else {
                format!("short {i}\n")
            };
            socket.send_to(request.as_bytes(), server.udp).unwrap();
            let (len, from) = socket.recv_from(&mut buffer).unwrap();
            assert_eq!((&buffer[..len], from), (format!("ok {request}").as_bytes(), server.udp));
        }
        // Datagrams with two lines, and with none: dropped and counted.
        socket.send_to(b"a\nb\n", server.udp).unwrap();
        socket.send_to(b"no end", server.udp).unwrap();
        socket.send_to(b"panic please\n", server.udp).unwrap();
        let len = socket.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..len], b"!failed panic please\n");
        assert_eq!(server.handle.snapshot().net.malformed, 2);
        assert_eq!(server.handle.snapshot().net.datagrams_received, 203);
    }
}

#[test]
fn a_full_typed_queue_drops_datagrams_of_its_type_only() {
    let config = two_workers().queue_capacity(2);
    let server = start(Policy::darc(), Topology::Inline, config);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    for i in 0..10 {
        socket.send_to(format!("wait {i}\n").as_bytes(), server.udp).unwrap();
    }
    let long = || server.handle.snapshot().types[1].clone();
    until("all arrived", || long().arrivals == 10);
    let mut buffer = [0; 2048];
    socket.send_to(b"short\n", server.udp).unwrap();
    let len = socket.recv(&mut buffer).unwrap();
    assert_eq!(&buffer[..len], b"ok short\n");
    assert!((7..=8).contains(&long().rejections), "{:?}", long());
    server.gate.open();
    until("the others are answered", || long().completions + long().rejections == 10);
}

#[test]
fn many_clients_at_once_lose_nothing() {
    for (topology, config) in shapes() {
        let server = start(Policy::darc(), topology, config);
        server.gate.open();
        std::thread::scope(|scope| {
            for client in 0..8 {
                let server = &server;
                scope.spawn(move || {
                    let mut connection = server.connect();
                    for i in 0..200 {
                        let request = match (client + i) % 5 {
                            0 => format!("wait {client} {i}"),
                            1 => format!("?{client} {i}"),
                            _ => format!("short {client} {i}"),
                        };
                        assert_eq!(connection.ask(&request), format!("ok {request}"));
                    }
                });
            }
        });
        let completed: u64 = server.handle.snapshot().types.iter().map(|t| t.completions).sum();
        assert_eq!(completed, 1600);
    }
}

#[test]
fn an_endless_line_is_cut_off() {
    let server = start(Policy::darc(), Topology::Inline, two_workers());
    let mut client = server.connect();
    client.send(&"x".repeat((1 << 20) + 100_000));
    let mut text = String::new();
    client.stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut stream = client.stream.try_clone().unwrap();
    stream.read_to_string(&mut text).unwrap();
    assert_eq!(text, "!malformed: the line is too long \n");
}

#[test]
fn policies_that_preempt_are_refused_by_name_if_nothing_can_be_preempted() {
    let refusal = |policy: &Policy, preempt, topology| {
        let server = lines()
            .handler(handler(|_, _| {}))
            .policy(policy.clone())
            .config(two_workers().preempt(preempt).topology(topology))
            .build();
        server.err().map(|error| error.to_string())
    };
    let (none, cooperative) = (PreemptPolicy::None, PreemptPolicy::Cooperative);
    for name in Policy::NAMES {
        let policy: Policy = name.parse().unwrap();
        for (preempt, topology, reason) in [
            (none, Topology::Dedicated, "preempt = none"),
            (cooperative, Topology::Inline, "topology dedicated"),
        ] {
            let refused = refusal(&policy, preempt, topology);
            assert_eq!(refused.is_some(), policy.needs_preemption(), "{name}");
            if let Some(message) = refused {
                let text = format!("policy {name} preempts requests");
                assert!(message.starts_with(&text), "{message}");
                assert!(message.contains(reason), "{message}");
            }
        }
        for topology in [Topology::Auto, Topology::Dedicated] {
            assert_eq!(refusal(&policy, cooperative, topology), None, "{name}");
        }
    }
}
