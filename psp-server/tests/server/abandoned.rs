//! Peers that leave: their waiting requests are dropped, and their running requests are told.

use std::collections::BTreeSet;
use std::net::{Shutdown as Half, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

use crate::common::{Client, PATIENCE, TestServer, handler, lines, start, until};
use psp_server::telemetry::TypeSnapshot;
use psp_server::{Config, Policy, PreemptPolicy, ServerHandle, Topology, checkpoint, is_abandoned};

/// A grace that no client of these tests exceeds.
const LONG_GRACE_MS: u64 = 600_000;

/// Bytes of a reply that no socket takes at once.
const LONG_REPLY: usize = 20_000_000;

/// Servers that run one long request at a time.
fn one_at_a_time() -> [(Policy, Topology, usize); 4] {
    [
        (Policy::c_fcfs(), Topology::Dedicated, 1),
        (Policy::darc(), Topology::Dedicated, 2),
        (Policy::darc(), Topology::Inline, 2),
        (Policy::edf(), Topology::Dedicated, 1),
    ]
}

fn start_with((policy, topology, workers): (Policy, Topology, usize), half_close_grace_ms: u64) -> TestServer {
    let config = Config::default().workers(workers).half_close_grace_ms(half_close_grace_ms);
    start(policy, topology, config)
}

fn long(server: &TestServer) -> TypeSnapshot {
    server.handle.snapshot().types[1].clone()
}

/// Clients whose long requests wait, one of them at the gate. It comes first.
fn waiting(server: &TestServer, count: u64) -> Vec<Client> {
    let mut clients = Vec::new();
    for number in 0..count {
        let mut client = server.connect();
        client.send(&format!("wait {number}\n"));
        until("the request has arrived", || long(server).arrivals == number + 1);
        clients.push(client);
    }
    until("the first request runs", || server.gate.waiting.load(Ordering::SeqCst) == 1);
    clients
}

fn left(server: &TestServer) -> u64 {
    server.handle.snapshot().net.connections_abandoned
}

#[test]
fn requests_of_closed_connections_are_dropped_and_counted() {
    for shape in one_at_a_time() {
        let server = start_with(shape, 0);
        let mut clients = waiting(&server, 7);
        let mut first = clients.remove(0);
        drop(clients);
        until("the server knows that six have left", || left(&server) == 6);
        let mut next = server.connect();
        next.send("wait behind them\n");
        until("the next request has arrived", || long(&server).arrivals == 8);
        server.gate.open();
        assert_eq!(next.line(), "ok wait behind them");
        assert_eq!(first.line(), "ok wait 0");
        let long = long(&server);
        let ran = (long.completions, long.turns.turns);
        assert_eq!((long.abandoned, ran), (6, (2, 2)), "none of them ran");
        until("their connections are closed", || server.handle.snapshot().net.connections_open == 2);
        assert_eq!(server.stop().abandoned, 0);
    }
}

#[test]
fn a_late_end_counts_and_an_early_one_does_not() {
    let server = start_with((Policy::c_fcfs(), Topology::Dedicated, 1), 20);
    let clients = waiting(&server, 3);
    let arrived = Instant::now();
    until("the grace is long over", || arrived.elapsed().as_secs() > 0);
    drop(clients);
    until("the server knows that all have left", || left(&server) == 3);
    server.gate.open();
    until("two requests are dropped", || long(&server).abandoned == 2);
    assert_eq!(long(&server).completions, 1, "it ran already");
}

#[test]
fn half_closed_peers_are_answered() {
    for shape in one_at_a_time() {
        let server = start_with(shape, LONG_GRACE_MS);
        let mut clients = waiting(&server, 3);
        for client in &mut clients {
            client.send("wait again\nshort\n");
            client.stream.shutdown(Half::Write).unwrap();
        }
        server.gate.open();
        for (number, client) in clients.iter_mut().enumerate() {
            assert_eq!(client.line(), format!("ok wait {number}"));
            assert_eq!(client.line(), "ok wait again");
            assert_eq!(client.line(), "ok short");
            assert_eq!(client.line(), "", "closed");
        }
        assert_eq!((left(&server), long(&server).abandoned), (0, 0));
    }
}

/// A client whose long reply waits in the server, since it reads nothing. A worker would send the rest.
fn within_a_long_reply(server: &TestServer) -> Client {
    let mut client = server.connect();
    client.send(&format!("big {LONG_REPLY}\n"));
    until("the reply is written", || long(server).completions == 1);
    until("it waits", || server.handle.snapshot().net.buffered_bytes > 0);
    client
}

#[test]
fn a_connection_that_is_reset_within_a_long_reply_is_closed() {
    for topology in [Topology::Dedicated, Topology::Inline] {
        let server = start_with((Policy::c_fcfs(), topology, 2), LONG_GRACE_MS);
        // To close with a reply unread resets the connection.
        drop(within_a_long_reply(&server));
        until("the connection is closed", || server.handle.snapshot().net.connections_open == 0);
        let net = server.handle.snapshot().net;
        assert_eq!((net.buffered_bytes, long(&server).abandoned), (0, 0));
        assert_eq!(server.stop().abandoned, 0);
    }
}

#[test]
fn a_long_reply_is_sent_to_its_end_to_a_peer_that_is_taken_for_gone() {
    let server = start_with((Policy::c_fcfs(), Topology::Dedicated, 2), 0);
    let mut client = within_a_long_reply(&server);
    client.stream.shutdown(Half::Write).unwrap();
    let reply = client.rest();
    assert_eq!(reply.len(), LONG_REPLY + format!("ok big {LONG_REPLY}\n").len());
    until("the connection is closed", || server.handle.snapshot().net.connections_open == 0);
}

#[test]
fn a_reset_counts_within_the_grace() {
    let server = start_with((Policy::darc(), Topology::Inline, 2), LONG_GRACE_MS);
    let mut first = waiting(&server, 1).remove(0);
    let mut client = server.connect();
    client.send("short\n");
    client.stream.peek(&mut [0]).unwrap();
    client.send("wait behind\n");
    until("the request has arrived", || long(&server).arrivals == 2);
    // To close with a reply unread resets the connection.
    drop(client);
    until("the server knows that it has left", || left(&server) == 1);
    server.gate.open();
    assert_eq!(first.line(), "ok wait 0");
    until("the request is dropped", || long(&server).abandoned == 1);
    assert_eq!(long(&server).completions, 1);
}

/// A server whose requests run until their peers leave.
struct Watching {
    address: SocketAddr,
    handle: ServerHandle,
    /// Requests that have begun.
    begun: Arc<AtomicUsize>,
    /// Requests that saw their peers leave.
    ended: Arc<Mutex<BTreeSet<String>>>,
    thread: Option<JoinHandle<()>>,
}

impl Watching {
    fn start(preempt: PreemptPolicy, workers: usize) -> Self {
        let policy = match preempt {
            PreemptPolicy::None => Policy::c_fcfs(),
            _ => Policy::sq().quantum_us(500.0),
        };
        let (begun, ended) = <(Arc<AtomicUsize>, Arc<Mutex<BTreeSet<String>>>)>::default();
        let (begins, ends) = (begun.clone(), ended.clone());
        let server = lines()
            .policy(policy)
            .config(
                Config::default()
                    .workers(workers)
                    .topology(Topology::Dedicated)
                    .half_close_grace_ms(0)
                    .preempt(preempt),
            )
            .handler(handler(move |request, _| {
                begins.fetch_add(1, Ordering::SeqCst);
                let name = String::from_utf8_lossy(request.payload).trim_end().to_owned();
                let deadline = Instant::now() + PATIENCE;
                while !is_abandoned() && Instant::now() < deadline {
                    (0..64).for_each(|_| std::hint::spin_loop());
                    checkpoint();
                }
                if request.is_abandoned() {
                    ends.lock().unwrap().insert(name);
                }
            }))
            .build()
            .unwrap();
        let (address, handle) = (server.local_addrs()[0], server.handle());
        let run = move || {
            server.run().unwrap();
        };
        Self {
            address,
            handle,
            begun,
            ended,
            thread: Some(std::thread::spawn(run)),
        }
    }

    fn ended(&self) -> Vec<String> {
        self.ended.lock().unwrap().iter().cloned().collect()
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.handle.shut_down();
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

#[test]
fn a_running_request_learns_that_its_peer_has_left() {
    for (preempt, workers) in [
        (PreemptPolicy::None, 2),
        (PreemptPolicy::Cooperative, 1),
        #[cfg(target_os = "linux")]
        (PreemptPolicy::KernelThread, 1),
    ] {
        let server = Watching::start(preempt, workers);
        let connect = |name: &str| {
            let mut client = Client::new(TcpStream::connect(server.address).unwrap());
            client.send(&format!("{name}\n"));
            client
        };
        let (first, second) = (connect("first"), connect("second"));
        until("both run, or take turns", || server.begun.load(Ordering::SeqCst) == 2);
        drop(second);
        until("the second request ends", || !server.ended().is_empty());
        assert_eq!(server.ended(), ["second"], "{preempt}: each has its own peer");
        drop(first);
        until("the first request ends", || server.ended().len() == 2);
    }
}
