//! The methods as clients see them, over TCP and UDP, under every policy.

use std::collections::HashMap;

use crate::common::{Server, ask, end};
use psp_harness::wait_until;
use psp_rpc_client::envelope::Status;
use psp_rpc_client::methods::{Numbers, Total, Work};
use psp_rpc_client::{Client, decode};
use psp_server::Policy;

const DEDICATED: [&str; 4] = ["--topology", "dedicated", "--workers", "2"];
/// Long enough that a response that arrives earlier has not waited for this request.
const LONG: Work = Work { duration_us: 2_000_000 };

/// The longest work that the server accepts.
const VERY_LONG: Work = Work { duration_us: 10_000_000 };

fn flags<'a>(policy: &'a str, shape: &[&'a str]) -> Vec<&'a str> {
    [&["--policy", policy][..], shape].concat()
}

fn every_method_answers(client: &mut Client, shape: &str) {
    let echo = ask(client, "Echo", b"hello".to_vec());
    assert_eq!((echo.status(), &echo.payload[..]), (Status::Ok, &b"hello"[..]), "{shape}");
    for method in ["Spin", "Sleep"] {
        let response = ask(client, method, &Work { duration_us: 200 });
        assert_eq!(end(&response), (Status::Ok, ""), "{shape}: {method}");
    }
    let values: Vec<i64> = (0..100).map(|number| (number * 37) % 100 - 50).collect();
    let numbers = Numbers { values };
    let total: Total = decode(&ask(client, "Sum", &numbers)).unwrap();
    assert_eq!(total.value, -50, "{shape}");
    let sorted: Numbers = decode(&ask(client, "Sort", &numbers)).unwrap();
    assert_eq!(sorted.values, (-50..50).collect::<Vec<i64>>(), "{shape}");
    let stats = ask(client, "Stats", Vec::new());
    assert_eq!(stats.status(), Status::Ok, "{shape}");
}

#[test]
fn every_policy_serves_every_method() {
    for (topology, policies) in [("dedicated", &Policy::NAMES[..]), ("inline", &Policy::names_to_completion())] {
        for policy in policies {
            let shape = ["--topology", topology, "--workers", "2"];
            let server = Server::start(&flags(policy, &shape));
            let name = format!("{policy}, {topology}");
            every_method_answers(&mut server.connect(), &name);
            every_method_answers(&mut server.datagrams(), &name);
            let spoken = server.stats().policy;
            assert!(spoken.starts_with(policy), "{name}: {spoken}");
        }
    }
}

#[test]
fn a_large_request_is_sorted() {
    let server = Server::start(&[]);
    let values: Vec<i64> = (0..200_000_i64).map(|number| number * 7_919 % 200_003).collect();
    let mut expected = values.clone();
    expected.sort_unstable();
    let sorted: Numbers = decode(&ask(&mut server.connect(), "Sort", &Numbers { values })).unwrap();
    assert_eq!(sorted.values, expected);
}

/// Submits a long request and then short ones. Returns the ids in the order of the responses, relative to
/// the id of the long request.
fn order(client: &mut Client) -> Vec<u64> {
    let long = client.submit("Sleep", 0, &LONG).unwrap();
    for number in 0..5_u8 {
        client.submit("Echo", 0, vec![number]).unwrap();
    }
    let order = (0..6).map(|_| {
        let response = client.receive().expect("a response");
        assert_eq!(response.status(), Status::Ok);
        response.id - long
    });
    order.collect()
}

#[test]
fn short_calls_pass_a_long_one() {
    for (policy, workers) in [("c-fcfs", "2"), ("darc", "2"), ("mq quantum-us=500", "1")] {
        let shape = ["--topology", "dedicated", "--workers", workers];
        let server = Server::start(&flags(policy, &shape));
        for (transport, mut client) in [("UDP", server.datagrams()), ("TCP", server.connect())] {
            let order = order(&mut client);
            assert_eq!(order.last(), Some(&0), "{policy} {transport}: {order:?}");
        }
    }
}

#[test]
fn one_at_a_time_a_connection_keeps_its_order_and_other_connections_do_not_wait() {
    let config = "[server]\nrequests-per-connection-max = 1\n";
    let server = Server::start_with(&flags("darc", &DEDICATED), config);
    assert_eq!(order(&mut server.connect()), [0, 1, 2, 3, 4, 5]);
    let (mut slow, mut fast) = (server.connect(), server.connect());
    // A request that waits has a turn before and one after.
    let before = server.stats_of("work-long").turns;
    slow.submit("Sleep", 0, &VERY_LONG).unwrap();
    wait_until("the long request has begun", || server.stats_of("work-long").turns > before);
    for _ in 0..20 {
        ask(&mut fast, "Echo", Vec::new());
    }
    assert_eq!(server.stats_of("work-long").completions, 1);
}

#[test]
fn each_of_many_requests_in_flight_gets_one_response() {
    const CLIENTS: usize = 8;
    const REQUESTS: u64 = 500;
    /// Datagrams in flight: fewer than the server's buffers.
    const WINDOW: usize = 32;
    let server = Server::start(&flags("darc", &DEDICATED));
    let payload = |id: u64| format!("request {id}").into_bytes();
    std::thread::scope(|scope| {
        for index in 0..CLIENTS {
            let server = &server;
            scope.spawn(move || {
                let mut client = if index % 2 == 0 {
                    server.connect()
                } else {
                    server.datagrams()
                };
                let mut open = HashMap::new();
                let mut submitted = 0;
                while submitted < REQUESTS || !open.is_empty() {
                    while submitted < REQUESTS && open.len() < WINDOW {
                        submitted += 1;
                        let id = if submitted % 20 == 0 {
                            client.submit("Spin", 0, &Work { duration_us: 300 })
                        } else {
                            client.submit("Echo", 0, payload(submitted))
                        };
                        let expected = if submitted % 20 == 0 {
                            Vec::new()
                        } else {
                            payload(submitted)
                        };
                        assert_eq!(open.insert(id.unwrap(), expected), None);
                    }
                    let response = client.receive().expect("a response");
                    assert_eq!(response.status(), Status::Ok);
                    assert_eq!(open.remove(&response.id), Some(response.payload));
                }
            });
        }
    });
    let spins = CLIENTS as u64 * REQUESTS / 20;
    assert_eq!(server.stats_of("work-long").completions, spins);
    assert_eq!(server.stats_of("short").completions, CLIENTS as u64 * REQUESTS - spins);
}
