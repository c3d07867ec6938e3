//! Workers that receive for themselves and run each other's requests.

use std::sync::atomic::Ordering;

use psp_server::policy::PolicyError;
use psp_server::{Config, Policy, Topology};

use crate::common::{Client, TestServer, start_tcp, until};

/// Enough connections for every worker to have some.
const CLIENTS: usize = 64;

fn policies() -> [Policy; 4] {
    [
        Policy::stealing(),
        Policy::darc_distributed(),
        Policy::jsq(),
        Policy::synergy(),
    ]
}

fn start(policy: Policy, config: Config) -> TestServer {
    start_tcp(policy, Topology::Distributed, config)
}

fn clients(server: &TestServer) -> Vec<Client> {
    (0..CLIENTS).map(|_| server.connect()).collect()
}

/// What workers took from each other and handed over.
fn moved(server: &TestServer) -> (u64, u64) {
    let workers = server.handle.snapshot().workers;
    let stolen = workers.iter().map(|worker| worker.stolen).sum();
    (
        stolen,
        workers.iter().map(|worker| worker.handed_over).sum(),
    )
}

fn wait_for(server: &TestServer, waiting: usize) {
    until("requests wait at the gate", || {
        server.gate.waiting.load(Ordering::SeqCst) == waiting
    });
}

#[test]
fn replies_keep_their_order_whoever_runs_the_requests() {
    for policy in policies() {
        for workers in [1, 2, 3] {
            let server = start(policy.clone(), Config::default().workers(workers));
            server.gate.open();
            let mut clients = clients(&server);
            let requests: Vec<String> = (0..200)
                .map(|i| match i % 7 {
                    3 => format!("wait {i}"),
                    4 => format!("big {}", i * 1000),
                    5 => format!("?unknown {i}"),
                    _ => format!("short {i}"),
                })
                .collect();
            std::thread::scope(|scope| {
                for client in &mut clients {
                    let requests = &requests;
                    scope.spawn(move || {
                        client.send(&(requests.join("\n") + "\n"));
                        for request in requests {
                            let reply = client.line();
                            assert!(reply.ends_with(&format!("ok {request}")), "{request}");
                        }
                    });
                }
            });
            let all = (CLIENTS * requests.len()) as u64;
            let snapshot = server.handle.snapshot();
            let arrived: u64 = snapshot.types.iter().map(|ty| ty.arrivals).sum();
            let completed: u64 = snapshot.types.iter().map(|ty| ty.completions).sum();
            assert_eq!((arrived, completed), (all, all), "{policy}");
            assert_eq!(snapshot.net.connections_open, CLIENTS as u64);
            drop(clients);
            assert_eq!(server.stop().abandoned, 0);
        }
    }
}

#[test]
fn an_idle_worker_runs_what_was_received_behind_a_long_request() {
    let server = start(Policy::stealing(), Config::default().workers(2));
    let mut clients = clients(&server);
    let mut holders = Vec::new();
    // While both workers are held, whatever comes is read at once afterwards.
    while server.gate.waiting.load(Ordering::SeqCst) < 2 {
        let mut holder = server.connect();
        holder.send("wait first\n");
        holders.push(holder);
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let gate = &server.gate;
    let mut long = clients.pop().expect("a client");
    long.send("hold second\n");
    for client in &mut clients {
        client.send("short\n");
    }
    gate.open();
    for client in &mut clients {
        assert_eq!(client.line(), "ok short");
    }
    assert_eq!(long.line(), "ok hold second");
    for holder in &mut holders {
        assert_eq!(holder.line(), "ok wait first");
    }
    assert_eq!(server.stop().abandoned, 0);
}

#[test]
fn another_policy_is_refused_with_the_reason() {
    let server = start(Policy::stealing(), Config::default().workers(2));
    for name in Policy::NAMES {
        let policy: Policy = name.parse().unwrap();
        let is_local = policy.is_local();
        let set = server.handle.set_policy(policy);
        match name {
            "stealing" => assert_eq!(set, Ok(())),
            _ if is_local => assert_eq!(set, Err(PolicyError::Kept(name.to_owned()))),
            _ => assert_eq!(set, Err(PolicyError::NotDistributed(name.to_owned()))),
        }
    }
    assert_eq!(server.connect().ask("short"), "ok short");
}

#[test]
fn a_server_that_stops_answers_what_waits_at_any_worker() {
    for policy in policies() {
        let server = start(policy.clone(), Config::default().workers(2));
        let mut clients = clients(&server);
        for client in &mut clients {
            assert_eq!(client.ask("short"), "ok short");
        }
        for client in &mut clients {
            client.send("wait here\n");
        }
        wait_for(
            &server,
            if policy == Policy::darc_distributed() {
                1
            } else {
                2
            },
        );
        server.handle.shut_down();
        server.gate.open();
        for client in &mut clients {
            assert_eq!(client.rest(), "ok wait here\n", "{policy}");
        }
        let moved = moved(&server);
        assert_eq!(server.stop().abandoned, 0, "{moved:?}");
    }
}
