//! Messages that are pushed to connections.

use std::io::Write;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{self, sleep};
use std::time::Duration;

use bytes::Bytes;
use psp_server::protocols::Sink;
use psp_server::{
    Config, Policy, Push, PushBatch, PushError, Request, RequestType, Server, ServerHandle, SpawnedServer, Topology,
    TypeSpec,
};

use crate::common::{Client, Gate, Lines, OfLines, Spawned, classifier, handler, lines, until};

/// Requests: `listen` leaves a handle with the test, `wait ..` waits at the gate, `first ..` puts what was pushed in
/// front of its reply when the gate is open; every line is echoed with `ok`.
struct Pushing {
    server: Option<SpawnedServer>,
    handle: ServerHandle,
    gate: Arc<Gate>,
    pushes: Arc<Mutex<Vec<Push>>>,
}

fn start(topology: Topology, config: Config) -> Pushing {
    let (gate, pushes) = (Arc::<Gate>::default(), Arc::<Mutex<Vec<Push>>>::default());
    let (at, listeners) = (gate.clone(), pushes.clone());
    let policy = match topology {
        Topology::Distributed => Policy::d_fcfs(),
        _ => Policy::darc(),
    };
    let server = lines()
        .types([
            TypeSpec::new("short").service_time(Duration::from_micros(1)),
            TypeSpec::new("long").service_time(Duration::from_millis(10)),
        ])
        .classifier(classifier(|line| {
            RequestType::new(u32::from(line.starts_with(b"wait") || line.starts_with(b"first")))
        }))
        .policy(policy)
        .config(config.topology(topology).workers(2))
        .handler(handler(move |request, reply| {
            match request.payload.trim_ascii_end() {
                b"listen" => listeners.lock().unwrap().extend(request.pusher()),
                line if line.starts_with(b"wait") => at.wait(),
                line if line.starts_with(b"first") => {
                    at.wait();
                    reply.put_pushed();
                }
                _ => {}
            }
            reply.put(b"ok ");
            reply.put(request.payload);
        }))
        .spawned();
    Pushing {
        handle: server.handle().clone(),
        server: Some(server),
        gate,
        pushes,
    }
}

impl Pushing {
    fn connect(&self) -> Client {
        let address = self.server.as_ref().unwrap().local_addrs()[0];
        Client::new(TcpStream::connect(address).unwrap())
    }

    /// A client that listens, and the way to it.
    fn listener(&self) -> (Client, Push) {
        let mut client = self.connect();
        assert_eq!(client.ask("listen"), "ok listen");
        let push = self.pushes.lock().unwrap().pop().unwrap();
        (client, push)
    }

    fn stop(mut self) {
        let report = self.server.take().unwrap().stop();
        assert_eq!(report.abandoned, 0);
        assert_eq!(self.handle.snapshot().net.buffered_bytes, 0);
    }
}

impl Drop for Pushing {
    fn drop(&mut self) {
        self.gate.open();
    }
}

const TOPOLOGIES: [Topology; 3] = [Topology::Inline, Topology::Dedicated, Topology::Distributed];

fn message(text: impl std::fmt::Display) -> Bytes {
    Bytes::from(format!("{text}\n"))
}

#[test]
fn messages_come_in_order_and_between_replies() {
    const MESSAGES: usize = 3000;
    const REQUESTS: usize = 2000;
    for topology in TOPOLOGIES {
        let server = start(topology, Config::default());
        let (mut client, push) = server.listener();
        let padding = "x".repeat(300);
        let pushing = thread::spawn(move || {
            for number in 0..MESSAGES {
                push.send(message(number)).unwrap();
                if number % 64 == 0 {
                    thread::yield_now();
                }
            }
        });
        let requests: String = (0..REQUESTS).map(|number| format!("{number} {padding}\n")).collect();
        let mut stream = client.stream.try_clone().unwrap();
        let sending = thread::spawn(move || {
            stream.write_all(requests.as_bytes()).unwrap();
        });
        let (mut messages, mut replies) = (0, 0);
        while messages < MESSAGES || replies < REQUESTS {
            let line = client.line();
            if let Some(reply) = line.strip_prefix("ok ") {
                assert_eq!(reply, format!("{replies} {padding}"), "{topology}");
                replies += 1;
            } else {
                assert_eq!(line, messages.to_string(), "{topology}");
                messages += 1;
            }
        }
        pushing.join().unwrap();
        sending.join().unwrap();
        server.stop();
    }
}

#[test]
fn a_request_that_comes_later_is_answered_later() {
    for topology in TOPOLOGIES {
        let server = start(topology, Config::default());
        let mut clients: Vec<_> = (0..3).map(|_| server.listener()).collect();
        for round in 0..200 {
            let mut batch = PushBatch::default();
            for (_, push) in &clients {
                batch.send(push, message(round)).unwrap();
            }
            if round % 2 == 0 {
                batch.flush();
            }
            for (client, _) in &mut clients {
                let reply = client.ask("more");
                assert_eq!((reply, client.line()), (round.to_string(), "ok more".into()));
            }
        }
        server.stop();
    }
}

/// What is pushed while a worker has the connection comes after the reply, or before it if the handler wants that.
#[test]
fn a_running_request_chooses_the_side_of_its_reply() {
    for topology in TOPOLOGIES {
        for (line, order) in [("wait 1", [1, 0]), ("first 1", [0, 1])] {
            let server = start(topology, Config::default());
            let (mut client, push) = server.listener();
            client.send(&format!("{line}\n"));
            let waiting = || server.gate.waiting.load(std::sync::atomic::Ordering::SeqCst);
            until("the request runs", || waiting() == 1);
            push.send(message("pushed")).unwrap();
            server.gate.open();
            let lines = [client.line(), client.line()];
            let expected = ["pushed".to_owned(), format!("ok {line}")];
            assert_eq!(order.map(|at| lines[at].clone()), expected, "{topology}");
            server.stop();
        }
    }
}

#[test]
fn a_peer_that_does_not_read_holds_nobody_up_and_a_bounded_memory() {
    const BUDGET: usize = 8 << 20;
    for topology in TOPOLOGIES {
        let server = start(topology, Config::default().buffered_bytes_max(BUDGET));
        let (mut silent, to_silent) = server.listener();
        let (mut reading, to_reading) = server.listener();
        let long = message("y".repeat(100_000));
        let mut refused = 0;
        for _ in 0..400 {
            match to_silent.send(long.clone()) {
                Err(error) => {
                    assert_eq!(error, PushError::NoRoom, "{topology}");
                    refused += 1;
                }
                Ok(()) => assert!(to_silent.queued_bytes() <= BUDGET, "{topology}"),
            }
            to_reading.send(message("short")).unwrap();
            assert_eq!(reading.line(), "short", "{topology}");
        }
        assert!(refused > 0, "{topology}");
        let held = server.handle.snapshot().net.buffered_bytes;
        assert!(held <= BUDGET as u64 + 70_000, "{topology}: {held}");
        to_silent.close();
        assert_eq!(to_silent.send(long), Err(PushError::Gone), "{topology}");
        assert!(silent.rest().len() < 40_000_000, "{topology}");
        until("all bytes are given back", || {
            let net = server.handle.snapshot().net;
            net.buffered_bytes < 70_000 && net.connections_open == 1
        });
        assert_eq!(reading.ask("more"), "ok more", "{topology}");
        server.stop();
    }
}

/// Messages to several peers that do not read use the budget up. Those are evicted, and no other peer.
#[test]
fn the_slowest_are_evicted_for_those_who_read() {
    const BUDGET: usize = 8 << 20;
    const SILENT: usize = 6;
    for topology in TOPOLOGIES {
        let server = start(topology, Config::default().buffered_bytes_max(BUDGET));
        let mut silent: Vec<_> = (0..SILENT).map(|_| server.listener()).collect();
        let (mut reading, to_reading) = server.listener();
        let mut gone = 0;
        while gone == 0 {
            for (number, (_, push)) in silent.iter().enumerate() {
                let long = message(number.to_string().repeat(100_000));
                gone += usize::from(push.send(long) == Err(PushError::Gone));
                let long = message("r".repeat(100_000));
                assert_eq!(to_reading.send(long), Ok(()), "{topology}");
                assert_eq!(reading.line().len(), 100_000, "{topology}");
                // A peer has some time to read before it counts as slow.
                sleep(Duration::from_millis(1));
            }
        }
        assert_eq!(reading.ask("more"), "ok more", "{topology}");
        assert!(server.handle.snapshot().net.connections_over_budget > 0);
        silent.clear();
        drop(to_reading);
        server.stop();
    }
}

/// A long message to many counts once.
#[test]
fn what_many_do_not_read_counts_once() {
    const LISTENERS: usize = 60;
    const BUDGET: usize = 8 << 20;
    for topology in TOPOLOGIES {
        let server = start(topology, Config::default().buffered_bytes_max(BUDGET));
        let silent: Vec<_> = (0..LISTENERS).map(|_| server.listener()).collect();
        let long = message("y".repeat(100_000));
        let queued = || silent.iter().map(|(_, push)| push.queued_bytes()).min();
        // The sockets take some.
        while queued() < Some(BUDGET / 4) {
            let mut batch = PushBatch::default();
            for (_, push) in &silent {
                assert_eq!(batch.send(push, long.clone()), Ok(()), "{topology}");
            }
        }
        assert_eq!(server.handle.snapshot().net.connections_over_budget, 0);
        // A drain does not wait for them.
        server.stop();
    }
}

/// The connection's place is used again by another one.
#[test]
fn a_connection_that_is_gone_is_an_error() {
    for topology in TOPOLOGIES {
        let server = start(topology, Config::default().half_close_grace_ms(0));
        let (client, push) = server.listener();
        drop(client);
        until("the connection is closed", || push.is_gone());
        let mut others: Vec<_> = (0..8).map(|_| server.listener()).collect();
        assert_eq!(push.send(message("late")), Err(PushError::Gone));
        push.close();
        for (number, (client, push)) in others.iter_mut().enumerate() {
            push.send(message(number)).unwrap();
            assert_eq!(client.line(), number.to_string(), "{topology}");
        }
        server.stop();
    }
}

#[test]
fn one_that_listens_is_not_idle() {
    for topology in TOPOLOGIES {
        let server = start(topology, Config::default().idle_timeout_s(1));
        let (mut client, push) = server.listener();
        let mut idle = server.connect();
        assert_eq!(idle.ask("more"), "ok more");
        assert_eq!(idle.rest(), "", "it is closed");
        push.send(message("still here")).unwrap();
        assert_eq!(client.line(), "still here");
        drop(push);
        assert_eq!(client.rest(), "", "no handler sends to it any more");
        server.stop();
    }
}

#[test]
fn a_server_that_stops_sends_what_was_pushed_before() {
    for topology in TOPOLOGIES {
        let server = start(topology, Config::default());
        let mut clients: Vec<_> = (0..50).map(|_| server.listener()).collect();
        let long = message("z".repeat(50_000));
        for (_, push) in &clients {
            push.send(long.clone()).unwrap();
        }
        let pushes: Vec<_> = clients.iter().map(|(_, push)| push.clone()).collect();
        server.stop();
        for (client, _) in &mut clients {
            assert_eq!(client.rest().len(), long.len(), "{topology}");
        }
        assert!(pushes.iter().all(Push::is_gone));
    }
}

/// What the handler of the next test knows.
#[derive(Default)]
struct Chain {
    gate: Gate,
    listeners: Mutex<Vec<Push>>,
    /// The clients' ends of two connections.
    ends: OnceLock<[UnixStream; 2]>,
    /// How many listeners had their message when each request ran.
    sent: Mutex<Vec<usize>>,
}

impl Chain {
    /// `hop N` sends the next request on the other connection, so that it lies in its socket when this one is done.
    fn handle(&self, request: &Request<'_, ()>) {
        match request.payload.trim_ascii_end() {
            b"listen" => self.listeners.lock().unwrap().extend(request.pusher()),
            b"hold" => self.gate.wait(),
            hop => {
                let listeners = self.listeners.lock().unwrap();
                let is_sent = |push: &&Push| push.queued_bytes() == 0;
                let sent = listeners.iter().filter(is_sent).count();
                self.sent.lock().unwrap().push(sent);
                if sent < listeners.len() {
                    let next = usize::from(hop == b"hop 0");
                    let mut end = &self.ends.get().unwrap()[next];
                    end.write_all(format!("hop {next}\n").as_bytes()).unwrap();
                }
            }
        }
    }
}

#[test]
fn requests_run_between_the_messages_to_many_connections() {
    const LISTENERS: usize = 128;
    const MESSAGES_BETWEEN_MAX: usize = 17;
    for (topology, policy) in [
        (Topology::Inline, Policy::c_fcfs()),
        (Topology::Distributed, Policy::d_fcfs()),
        (Topology::Distributed, Policy::stealing()),
    ] {
        let name = format!("{topology}, {policy}");
        let chain = Arc::<Chain>::default();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("server.sock");
        let handling = chain.clone();
        let server = Server::builder()
            .unix(&path)
            .framing(Lines)
            .types([TypeSpec::new("short").service_time(Duration::from_micros(1))])
            .classifier(classifier(|_| RequestType::new(0)))
            .policy(policy)
            .config(Config::default().topology(topology).workers(1))
            .handler(handler(move |request, reply| {
                handling.handle(&request);
                reply.put(b"ok\n");
            }))
            .spawned();
        let mut listeners: Vec<_> = (0..LISTENERS).map(|_| Client::unix(&path)).collect();
        for listener in &mut listeners {
            assert_eq!(listener.ask("listen"), "ok", "{name}");
        }
        let ends = [(); 2].map(|()| UnixStream::connect(&path).unwrap());
        chain.ends.set(ends).unwrap();
        let mut held = Client::unix(&path);
        held.send("hold\n");
        let waiting = || chain.gate.waiting.load(std::sync::atomic::Ordering::SeqCst);
        until("the net thread waits", || waiting() == 1);
        let mut batch = PushBatch::default();
        for push in &*chain.listeners.lock().unwrap() {
            batch.send(push, message("news")).unwrap();
        }
        drop(batch);
        let mut first = &chain.ends.get().unwrap()[0];
        first.write_all(b"hop 0\n").unwrap();
        chain.gate.open();
        for listener in &mut listeners {
            assert_eq!(listener.line(), "news", "{name}");
        }
        let is_over = || chain.sent.lock().unwrap().last() == Some(&LISTENERS);
        until("the last request has run", is_over);
        let sent = chain.sent.lock().unwrap().clone();
        // Other programs may hold up the thread that runs the next request, and more messages leave meanwhile.
        let gaps = sent.windows(2).map(|pair| pair[1] - pair[0]);
        let few = { gaps }.filter(|&gap| gap <= MESSAGES_BETWEEN_MAX).count();
        assert!(2 * few >= sent.len(), "{name}: {sent:?}");
        server.stop();
    }
}
