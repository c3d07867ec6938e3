//! Workers that receive for themselves: each has connections of its own, and drives those of a worker that runs a long
//! request.

use std::collections::HashSet;
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use psp_server::protocols::Sink;
use psp_server::sync::Semaphore;
use psp_server::{
    Config, DeferredReply, Policy, PreemptPolicy, Reply, Request, RequestType, Server, ServerBuilder, Topology,
    TypeSpec, WorkerId, no_preempt, sleep, wait,
};

use crate::common::{
    Client, Gate, Lines, OfLines, Spawned, TestServer, UdpClient, classifier, handler, lines, policies_of_workers,
    start as start_with_udp, start_tcp, start_unix, until, workers_of_long_requests,
};

/// Enough connections for every worker to have some: one of three has none once in 10^10 times.
const CLIENTS: usize = 64;

fn start(config: Config) -> TestServer {
    start_under(&Policy::d_fcfs(), config)
}

fn start_under(policy: &Policy, config: Config) -> TestServer {
    start_tcp(policy.clone(), Topology::Distributed, config)
}

/// The same for clients on a Unix socket, which all workers share.
fn start_shared(policy: &Policy, config: Config) -> TestServer {
    start_unix(policy.clone(), Topology::Distributed, config)
}

/// Servers with two workers under each policy, and under two of them with a Unix socket.
fn servers() -> impl Iterator<Item = TestServer> {
    let on_tcp = policies_of_workers().map(|policy| start_under(&policy, two_workers()));
    let on_unix = [Policy::d_fcfs(), Policy::darc_distributed()];
    let on_unix = on_unix.map(|policy| start_shared(&policy, two_workers()));
    on_tcp.into_iter().chain(on_unix)
}

fn two_workers() -> Config {
    Config::default().workers(2)
}

fn clients(server: &TestServer) -> Vec<Client> {
    (0..CLIENTS).map(|_| server.connect()).collect()
}

/// All policies but `jsq`, under which a request stays in the queue that it has joined, also behind a long one.
fn policies_that_pass_requests_on() -> impl Iterator<Item = Policy> {
    let policies = policies_of_workers().into_iter();
    policies.filter(|policy| *policy != Policy::jsq())
}

/// Requests that each worker has completed.
fn completions(server: &TestServer) -> Vec<u64> {
    let workers = server.handle.snapshot().workers;
    workers.iter().map(|worker| worker.completions).collect()
}

#[test]
fn replies_keep_their_order_and_all_workers_run_requests() {
    for workers in [1, 2, 3] {
        let server = start(Config::default().workers(workers));
        server.gate.open();
        let mut clients = clients(&server);
        let requests: Vec<String> = (0..200)
            .map(|i| match i % 7 {
                3 => format!("wait {i}"),
                5 => format!("?unknown {i}"),
                _ => format!("short {i}"),
            })
            .collect();
        for client in &mut clients {
            client.send(&(requests.join("\n") + "\n"));
        }
        for client in &mut clients {
            for request in &requests {
                assert_eq!(client.line(), format!("ok {request}"));
            }
        }
        let all = (CLIENTS * requests.len()) as u64;
        let snapshot = server.handle.snapshot();
        let arrived: u64 = snapshot.types.iter().map(|ty| ty.arrivals).sum();
        let completed: u64 = snapshot.types.iter().map(|ty| ty.completions).sum();
        assert_eq!((arrived, completed), (all, all));
        let turns: u64 = snapshot.types.iter().map(|ty| ty.turns.turns).sum();
        let of_workers: Vec<u64> = { snapshot.workers.iter() }.map(|worker| worker.turns.turns).collect();
        assert_eq!(turns, of_workers.iter().sum::<u64>());
        let completions = completions(&server);
        assert_eq!(completions.len(), workers);
        assert_eq!(completions.iter().sum::<u64>(), all);
        for (completed, turns) in completions.iter().zip(of_workers) {
            assert!(*completed > 0 && turns > 0, "{completions:?}");
        }
        assert_eq!(snapshot.net.connections_open, CLIENTS as u64);
        assert_eq!(server.stop().abandoned, 0);
    }
}

/// Has `client` run a long request, which does not end before the gate opens.
fn run_long(server: &TestServer, client: &mut Client) {
    server.gate.close();
    client.send("wait here\n");
    until("the long request runs", || server.gate.waiting.load(Ordering::SeqCst) == 1);
}

/// Of the 64 connections some belong to the worker that runs the long request, whichever that is.
#[test]
fn a_long_request_holds_up_no_other_connection() {
    for server in servers() {
        let mut clients = clients(&server);
        for long in 0..8 {
            run_long(&server, &mut clients[long]);
            for round in 0..3 {
                for (number, client) in clients.iter_mut().enumerate() {
                    if number != long {
                        let request = format!("short {round} {number}");
                        assert_eq!(client.ask(&request), format!("ok {request}"));
                    }
                }
            }
            let mut late = server.connect();
            assert_eq!(late.ask("accepted meanwhile"), "ok accepted meanwhile");
            assert_eq!(server.gate.waiting.load(Ordering::SeqCst), 1, "it runs still");
            server.gate.open();
            assert_eq!(clients[long].line(), "ok wait here");
        }
        assert_eq!(server.stop().abandoned, 0);
    }
}

#[test]
fn what_waits_for_all_workers_is_answered_in_order() {
    for policy in policies_of_workers() {
        let server = start_under(&policy, two_workers());
        let mut clients = clients(&server);
        for client in &mut clients {
            client.send("wait here\nshort 1\nwait again\nshort 2\n");
        }
        until("all workers run a request that may", || {
            server.gate.waiting.load(Ordering::SeqCst) >= workers_of_long_requests(&policy)
        });
        server.gate.open();
        for client in &mut clients {
            for request in ["wait here", "short 1", "wait again", "short 2"] {
                assert_eq!(client.line(), format!("ok {request}"));
            }
        }
        assert_eq!(completions(&server).iter().sum::<u64>(), 4 * CLIENTS as u64);
    }
}

#[test]
fn a_connection_that_closes_while_its_port_is_elsewhere_is_closed() {
    for server in servers() {
        let mut clients = clients(&server);
        for client in &mut clients {
            assert_eq!(client.ask("short"), "ok short");
        }
        let mut long = clients.pop().unwrap();
        run_long(&server, &mut long);
        for client in clients.drain(..CLIENTS / 2) {
            drop(client);
        }
        for client in &mut clients {
            client.send("quit\n");
            assert_eq!(client.rest(), "ok quit\n");
        }
        drop(clients);
        until("one connection is left", || server.handle.snapshot().net.connections_open == 1);
        server.gate.open();
        assert_eq!(long.line(), "ok wait here");
        assert_eq!(long.ask("short"), "ok short");
    }
}

/// Requests that wait for something keep the worker on which they began, and their port goes home without them.
#[test]
fn a_request_that_waits_elsewhere_than_its_port_is_finds_it() {
    for policy in policies_that_pass_requests_on() {
        let (gate, permits) = (Arc::new(Gate::default()), Arc::new(Semaphore::new(0)));
        let at = (gate.clone(), permits.clone());
        let server = lines()
            .types(["short", "long"].map(TypeSpec::new))
            .classifier(classifier(|line| RequestType::new(u32::from(line == b"long\n"))))
            .handler(handler(move |request, reply| {
                match request.payload {
                    b"long\n" => at.0.wait(),
                    b"hold\n" => wait(at.1.acquire()).forget(),
                    _ => {}
                }
                reply.put(request.payload);
            }))
            .policy(policy)
            .config(two_workers().contexts_per_worker(CLIENTS + 1))
            .topology(Topology::Distributed)
            .spawned();
        let connect = || server.connect();
        let mut clients: Vec<Client> = (0..CLIENTS).map(|_| connect()).collect();
        for client in &mut clients {
            assert_eq!(client.ask("short"), "short");
        }
        let (long, others) = clients.split_first_mut().unwrap();
        long.send("long\n");
        until("the long request runs", || gate.waiting.load(Ordering::SeqCst) == 1);
        for client in &mut *others {
            client.send("hold\n");
        }
        until("all others wait at one worker", || {
            let types = server.handle().snapshot().types;
            types.iter().map(|ty| ty.waits.blocked).sum::<u64>() == others.len() as u64
        });
        gate.open();
        assert_eq!(long.line(), "long");
        // Its worker has its port again.
        assert_eq!(long.ask("short"), "short");
        permits.add_permits(others.len());
        for client in others {
            assert_eq!(client.line(), "hold");
            assert_eq!(client.ask("short"), "short");
        }
        assert_eq!(server.stop().abandoned, 0);
    }
}

#[test]
fn a_server_that_stops_while_a_port_is_elsewhere_answers_what_it_has_received() {
    for policy in policies_that_pass_requests_on() {
        let server = start_under(&policy, two_workers());
        let mut clients = clients(&server);
        let mut long = clients.pop().unwrap();
        run_long(&server, &mut long);
        for client in &mut clients {
            assert_eq!(client.ask("short"), "ok short");
            client.send("last\n");
        }
        server.handle.shut_down();
        for client in &mut clients {
            assert_eq!(client.rest(), "ok last\n");
        }
        server.gate.open();
        assert_eq!(long.rest(), "ok wait here\n");
        assert_eq!(server.stop().abandoned, 0);
    }
}

#[test]
fn a_server_that_stops_answers_what_all_its_workers_have_received() {
    for policy in policies_of_workers() {
        let server = start_under(&policy, two_workers());
        let mut clients = clients(&server);
        for client in &mut clients {
            assert_eq!(client.ask("short"), "ok short");
        }
        for client in &mut clients {
            client.send("wait here\n");
        }
        until("all workers run a request that may", || {
            server.gate.waiting.load(Ordering::SeqCst) >= workers_of_long_requests(&policy)
        });
        server.handle.shut_down();
        server.gate.open();
        for client in &mut clients {
            assert_eq!(client.rest(), "ok wait here\n");
        }
        assert_eq!(server.stop().abandoned, 0);
    }
}

#[test]
fn a_worker_that_is_stuck_is_left_behind() {
    for policy in policies_of_workers() {
        let server = start_under(&policy, two_workers().drain_timeout_ms(50));
        let mut client = server.connect();
        client.send("wait here\n");
        until("the request runs", || server.gate.waiting.load(Ordering::SeqCst) == 1);
        let gate = server.gate.clone();
        assert_eq!(server.handle.snapshot().net.connections_open, 1);
        assert_eq!(server.stop().abandoned, 1);
        gate.open();
    }
}

#[test]
fn a_second_server_does_not_share_the_port_of_a_first() {
    let server = start(two_workers());
    let second = Server::builder()
        .tcp(server.address)
        .framing(Lines)
        .handler(handler(|_, _| {}))
        .policy(Policy::d_fcfs())
        .workers(2)
        .topology(Topology::Distributed)
        .build();
    let refused = second.err().expect("the port is taken").to_string();
    assert!(refused.contains("in use"), "{refused}");
}

#[test]
fn the_limit_of_connections_is_that_of_all_workers() {
    let server = start(two_workers().connections_max(CLIENTS));
    let mut clients = clients(&server);
    for client in &mut clients {
        assert_eq!(client.ask("short"), "ok short");
    }
    assert_eq!(server.connect().line(), "!too many connections");
    clients.pop();
    until("a place is free", || server.handle.snapshot().net.connections_open < CLIENTS as u64);
    assert_eq!(server.connect().ask("short"), "ok short");
}

#[test]
fn a_panic_costs_its_own_request_on_any_worker() {
    let server = start(two_workers());
    let mut clients = clients(&server);
    for client in &mut clients {
        assert_eq!(client.ask("panic now"), "!failed panic now");
        assert_eq!(client.ask("short"), "ok short");
    }
    let workers = server.handle.snapshot().workers;
    let panics: Vec<u64> = workers.iter().map(|worker| worker.panics).collect();
    assert!(panics.iter().all(|&panics| panics > 0), "{panics:?}");
    assert_eq!(panics.iter().sum::<u64>(), CLIENTS as u64);
}

/// Replies that are deferred, and the workers that have their connections.
type Kept = Arc<Mutex<Vec<(WorkerId, DeferredReply)>>>;

fn finish_all(kept: &Kept) {
    let kept = no_preempt(|| std::mem::take(&mut *kept.lock().unwrap()));
    kept.into_iter().for_each(|(_, reply)| reply.finish());
}

/// Another thread writes the replies first, then another worker, and then no worker does.
#[test]
fn a_deferred_reply_finds_its_connection_whoever_writes_it() {
    let kept = Kept::default();
    let at = kept.clone();
    let server = lines()
        .handler(handler(move |request, reply| {
            if request.payload == b"finish all\n" {
                finish_all(&at);
                return reply.put(b"finished\n");
            }
            if request.payload == b"nap\n" {
                sleep(Duration::from_millis(1));
                return reply.put(b"awake\n");
            }
            let mut later = reply.defer();
            later.put(request.payload);
            no_preempt(|| at.lock().unwrap().push((request.worker, later)));
        }))
        .policy(Policy::d_fcfs())
        .config(two_workers())
        .topology(Topology::Distributed)
        .spawned();
    let (handle, address) = (server.handle().clone(), server.local_addrs()[0]);
    let connect = || Client::new(TcpStream::connect(address).unwrap());
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| connect()).collect();
    let defer_all = |clients: &mut [Client]| {
        for (number, client) in clients.iter_mut().enumerate() {
            client.send(&format!("later {number}\n"));
        }
        until("all replies are deferred", || kept.lock().unwrap().len() == CLIENTS);
        assert_eq!(handle.snapshot().net.replies_deferred, CLIENTS as u64);
        for worker in [0, 1] {
            let is_there = |(at, _): &(WorkerId, _)| *at == WorkerId(worker);
            assert!(kept.lock().unwrap().iter().any(is_there));
        }
    };
    let by_worker = || assert_eq!(connect().ask("finish all"), "finished");
    let finishes: [&dyn Fn(); 2] = [&|| finish_all(&kept), &by_worker];
    for finish in finishes {
        defer_all(&mut clients);
        finish();
        for (number, client) in clients.iter_mut().enumerate() {
            assert_eq!(client.line(), format!("later {number}"));
        }
        assert_eq!(handle.snapshot().net.replies_deferred, 0);
    }
    defer_all(&mut clients);
    kept.lock().unwrap().clear();
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.line(), format!("!failed later {number}"));
    }
    assert_eq!(handle.snapshot().net.deferred_failed, CLIENTS as u64);
    for client in &mut clients {
        assert_eq!(client.ask("nap"), "awake");
    }
    let waits = handle.snapshot().types.into_iter().map(|ty| ty.waits);
    let counted = waits.fold((0, 0), |(waits, blocked), counted| (waits + counted.waits, blocked + counted.blocked));
    assert_eq!(counted, (CLIENTS as u64, 0));
    // Those who wait for deferred replies keep the server from its end.
    defer_all(&mut clients);
    handle.shut_down();
    until("it stops", || handle.is_stopping());
    finish_all(&kept);
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.rest(), format!("later {number}\n"));
    }
    assert_eq!(server.join().unwrap().abandoned, 0);
}

/// Whichever worker is woken accepts, and each gets its turn.
#[test]
fn connections_of_a_shared_socket_are_spread_evenly() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("server.sock");
    let server = Server::builder()
        .unix(&path)
        .framing(Lines)
        .handler(handler(|request, reply| {
            reply.put(format!("{}\n", request.worker.0).as_bytes());
        }))
        .policy(Policy::d_fcfs())
        .workers(2)
        .topology(Topology::Distributed)
        .spawned();
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| Client::unix(&path)).collect();
    // A worker also has the other's connections as long as it is not known that requests are short.
    until("each worker has half of the connections", || {
        let workers = clients.iter_mut().map(|client| client.ask("which worker"));
        workers.filter(|worker| worker == "0").count() == CLIENTS / 2
    });
    drop(server);
    assert!(!path.exists(), "the last worker removes the file");
}

fn start_udp(policy: &Policy) -> TestServer {
    start_with_udp(policy.clone(), Topology::Distributed, two_workers())
}

/// So many sockets that both workers get datagrams of some.
fn udp_clients(server: &TestServer) -> Vec<UdpClient> {
    (0..CLIENTS).map(|_| UdpClient::new(server.udp)).collect()
}

#[test]
fn a_long_request_in_a_datagram_holds_up_no_other_datagram() {
    for policy in policies_that_pass_requests_on() {
        let server = start_udp(&policy);
        let clients = udp_clients(&server);
        for round in 0..4 {
            server.gate.close();
            let long = &clients[round];
            long.send("wait here");
            // Behind it in the same socket, and in the same turn of its worker.
            for number in 0..8 {
                long.send(&format!("short behind {number}"));
            }
            let behind: HashSet<String> = (0..8).map(|_| long.line()).collect();
            assert_eq!(behind.len(), 8, "{behind:?}");
            assert!(behind.iter().all(|line| line.starts_with("ok short behind ")));
            for (number, client) in clients.iter().enumerate() {
                if number != round {
                    let request = format!("short {number}");
                    assert_eq!(client.ask(&request), format!("ok {request}"), "{policy:?}");
                }
            }
            // Under some policies short requests overtake it first.
            until("the long request runs", || server.gate.waiting.load(Ordering::SeqCst) == 1);
            assert!(!long.has_line(), "it is over");
            server.gate.open();
            assert_eq!(long.line(), "ok wait here");
        }
        let net = server.handle.snapshot().net;
        assert_eq!(net.datagrams_received, 4 * (9 + CLIENTS as u64 - 1));
        assert_eq!(server.stop().abandoned, 0);
    }
}

/// Connections and datagrams of both workers wait, and whoever runs a request its client gets the reply.
#[test]
fn datagrams_are_answered_beside_connections_whoever_runs_them() {
    for policy in policies_of_workers() {
        let server = start_udp(&policy);
        let (mut streams, datagrams) = (clients(&server), udp_clients(&server));
        for (number, (stream, datagram)) in streams.iter_mut().zip(&datagrams).enumerate() {
            stream.send(&format!("wait {number}\nshort {number}\n"));
            datagram.send(&format!("wait {number}"));
        }
        until("all workers run a request that may", || {
            server.gate.waiting.load(Ordering::SeqCst) >= workers_of_long_requests(&policy)
        });
        server.gate.open();
        for (number, (stream, datagram)) in streams.iter_mut().zip(&datagrams).enumerate() {
            assert_eq!(stream.line(), format!("ok wait {number}"), "{policy:?}");
            assert_eq!(stream.line(), format!("ok short {number}"), "{policy:?}");
            assert_eq!(datagram.line(), format!("ok wait {number}"), "{policy:?}");
        }
        for (number, datagram) in datagrams.iter().enumerate() {
            let request = format!("panic {number}");
            assert_eq!(datagram.ask(&request), format!("!failed {request}"));
        }
        until("all are counted", || completions(&server).iter().sum::<u64>() == 4 * CLIENTS as u64);
        assert_eq!(server.stop().abandoned, 0);
    }
}

/// One worker runs a request, the queues of both are full of others, and the other worker receives for both.
#[test]
fn datagrams_beyond_the_queues_are_dropped_and_counted_at_all_workers() {
    // No worker is lent.
    let config = two_workers().queue_capacity(2).preempt(PreemptPolicy::None);
    let server = start_with_udp(Policy::darc_distributed(), Topology::Distributed, config);
    let clients = udp_clients(&server);
    for client in &clients {
        client.send("wait here");
    }
    let long = || server.handle.snapshot().types[1].clone();
    let all = CLIENTS as u64;
    until("all have arrived", || long().arrivals == all);
    for client in &clients {
        assert_eq!(client.ask("short"), "ok short");
    }
    let rejected = long().rejections;
    assert!((1..all).contains(&rejected), "{rejected}");
    server.gate.open();
    until("the others are answered", || long().completions + rejected == all);
    assert_eq!(server.stop().abandoned, 0);
}

/// Datagrams that wait in a socket belong to no worker yet.
#[test]
fn a_server_that_stops_answers_the_datagrams_that_all_its_workers_have_received() {
    for policy in policies_of_workers() {
        let server = start_udp(&policy);
        let clients = udp_clients(&server);
        for client in &clients {
            client.send("wait here");
        }
        until("all workers run a request that may", || {
            server.gate.waiting.load(Ordering::SeqCst) >= workers_of_long_requests(&policy)
        });
        let handle = server.handle.clone();
        handle.shut_down();
        server.gate.open();
        assert_eq!(server.stop().abandoned, 0, "{policy:?}");
        let answered = clients.iter().filter(|client| client.has_line()).count() as u64;
        let received = handle.snapshot().net.datagrams_received;
        assert_eq!(answered, received, "{policy:?}");
        assert!(received >= workers_of_long_requests(&policy) as u64);
    }
}

type Handle = fn(Request<'_, ()>, &mut Reply<'_>);
type Builder = ServerBuilder<Lines, fn(&[u8]) -> RequestType, Handle>;
type Change = fn(Builder) -> Builder;

#[test]
fn what_workers_of_their_own_cannot_do_is_refused() {
    fn reply(_: Request<'_, ()>, _: &mut Reply<'_>) {}
    let refusal = |change: Change| {
        let builder = lines()
            .types([psp_server::TypeSpec::new("any")])
            .classifier((|_| RequestType::new(0)) as fn(&[u8]) -> RequestType)
            .handler(reply as Handle)
            .policy(Policy::d_fcfs())
            .workers(2)
            .topology(Topology::Distributed);
        change(builder).build().err().map(|error| error.to_string())
    };
    assert_eq!(refusal(|builder| builder), None);
    let refused: [(Change, &str); 2] = [
        (|builder| builder.workers(1..=2), "a range of workers"),
        (|builder| builder.policy(Policy::darc()), "policy darc needs a net thread"),
    ];
    for (change, reason) in refused {
        let message = refusal(change).expect(reason);
        assert!(message.contains(reason), "{message}");
    }
}
