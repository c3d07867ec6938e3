//! Traces of servers under load: their form, and the order of what they tell.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use psp_server::protocols::Sink;
use psp_server::{Config, Policy, PreemptPolicy, RequestType, SpawnedServer, Topology, TypeSpec};
use psp_trace::{Checked, check};
use serde_json::Value;

use super::common::{Client, OfLines, PATIENCE, Spawned, TestServer, classifier, handler, lines, start_tcp};
use super::{admin, get};

/// The trace of so many milliseconds, which is in order.
fn trace(port: SocketAddr, ms: u64) -> (Checked, String) {
    let (status, text) = get(port, &format!("/trace?ms={ms}"));
    assert_eq!(status, 200, "{text}");
    match check(&text) {
        Ok(checked) => (checked, text),
        Err(error) => panic!("{error}"),
    }
}

/// Calls `body` while clients send requests one after the other: two of them short ones in pipelines, and two long
/// ones. So long requests hold both workers, whichever has which connection, and short ones wait.
fn under_load<T>(connect: impl Fn() -> Client + Sync, long: &str, body: impl FnOnce() -> T) -> T {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for number in 0..4 {
            let (connect, is_over) = (&connect, &is_over);
            scope.spawn(move || {
                let mut client = connect();
                while !is_over.load(Ordering::Relaxed) {
                    if number % 2 == 0 {
                        client.ask(long);
                        continue;
                    }
                    client.send("a\nb\nc\n");
                    for expected in ["ok a", "ok b", "ok c"] {
                        assert_eq!(client.line(), expected);
                    }
                }
            });
        }
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
        is_over.store(true, Ordering::Relaxed);
        match result {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Traces of a server under load until one has what is wanted.
fn traced(server: &TestServer, long: &str, is_wanted: impl Fn(&Checked, &str) -> bool) -> String {
    let port = admin(server);
    under_load(
        || server.connect(),
        long,
        || {
            let deadline = Instant::now() + PATIENCE;
            loop {
                let (checked, text) = trace(port, 50);
                assert_eq!((checked.workers, checked.dropped), (2, 0));
                if is_wanted(&checked, &text) {
                    return text;
                }
                assert!(Instant::now() < deadline, "{checked}");
            }
        },
    )
}

fn config() -> Config {
    Config::default().workers(2).admin("0")
}

#[test]
fn every_topology_tells_of_its_requests() {
    for (topology, policy) in [
        (Topology::Dedicated, Policy::darc()),
        (Topology::Inline, Policy::c_fcfs()),
        (Topology::Distributed, Policy::d_fcfs()),
        (Topology::Distributed, Policy::darc_distributed()),
    ] {
        let server = start_tcp(policy.clone(), topology, config());
        let names = ["\"short\"", "\"long\"", "\"waiting short\""];
        let text = traced(&server, "spin 2000", |checked, text| {
            let has_all = names.iter().all(|name| text.contains(name));
            has_all && checked.replied > 20 && checked.turns > 20
        });
        let file: Value = serde_json::from_str(&text).unwrap();
        let about = &file["otherData"];
        assert_eq!(about["topology"], topology.to_string());
        assert_eq!(about["policy"], policy.spelled());
        let events = file["traceEvents"].as_array().unwrap();
        let replies = events.iter().filter(|event| event["ph"] == "e");
        let replies = replies.filter_map(|event| event["args"]["replies"].as_u64());
        assert!(replies.max() >= Some(1));
    }
}

#[test]
fn requests_that_yield_have_several_turns() {
    let by = |preempt| config().preempt(preempt);
    for (topology, policy, config) in [
        (Topology::Dedicated, Policy::mq().quantum_us(50), by(PreemptPolicy::Cooperative)),
        (Topology::Dedicated, Policy::mq().quantum_us(50), by(PreemptPolicy::KernelThread)),
    ] {
        let server = start_tcp(policy, topology, config);
        traced(&server, "spin 20000", |checked, _| checked.gave_way > 0 && checked.preemptions > 0);
    }
    // The timer core asks there.
    let policy = Policy::synergy();
    let server = start_tcp(policy, Topology::Distributed, by(PreemptPolicy::Cooperative));
    traced(&server, "spin 50000", |checked, _| checked.gave_way > 0 && checked.preemptions > 0);
}

#[test]
fn workers_that_take_requests_from_each_other_say_so() {
    let server = start_tcp(Policy::stealing(), Topology::Distributed, config());
    traced(&server, "spin 5000", |checked, _| checked.stolen > 0);
}

/// A server whose long requests sleep.
fn sleeping() -> SpawnedServer {
    lines()
        .types([TypeSpec::new("short"), TypeSpec::new("long")])
        .classifier(classifier(|line| RequestType::new(line.starts_with(b"sleep").into())))
        .policy(Policy::c_fcfs())
        .config(config().topology(Topology::Dedicated))
        .handler(handler(|request, reply| {
            if request.request_type == RequestType::new(1) {
                psp_server::sleep(Duration::from_millis(1));
            }
            reply.put(b"ok ");
            reply.put(request.payload);
        }))
        .spawned()
}

#[test]
fn waits_are_within_their_requests() {
    let server = sleeping();
    let port = server.handle().admin_addr().unwrap();
    let address = server.local_addrs()[0];
    let connect = || Client::new(TcpStream::connect(address).unwrap());
    under_load(connect, "sleep", || {
        let deadline = Instant::now() + PATIENCE;
        while trace(port, 50).0.waits == 0 {
            assert!(Instant::now() < deadline);
        }
    });
    server.stop();
}

#[test]
fn there_is_one_trace_at_a_time_and_it_is_given_up_with_its_client() {
    let server = start_tcp(Policy::darc(), Topology::Dedicated, config());
    let port = admin(&server);
    let mut first = TcpStream::connect(port).unwrap();
    first.set_read_timeout(Some(PATIENCE)).unwrap();
    first.write_all(b"GET /trace?ms=10000 HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let deadline = Instant::now() + PATIENCE;
    let refused = loop {
        let (status, text) = get(port, "/trace?ms=1");
        if status == 409 {
            break text;
        }
        assert_eq!(status, 200);
        assert!(Instant::now() < deadline);
    };
    assert!(refused.contains("another trace"), "{refused}");
    drop(first);
    while get(port, "/trace?ms=1").0 != 200 {
        assert!(Instant::now() < deadline);
    }
}

#[test]
fn the_time_is_bounded_and_the_answer_is_a_file() {
    let server = start_tcp(Policy::darc(), Topology::Dedicated, config());
    let port = admin(&server);
    for query in ["ms=0", "ms=10001", "ms=x", "us=5"] {
        let (status, text) = get(port, &format!("/trace?{query}"));
        assert_eq!(status, 400, "{query}");
        assert!(text.contains("from 1 to 10000"), "{text}");
    }
    let mut stream = TcpStream::connect(port).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = format!("GET /trace?ms=1 HTTP/1.1\r\nhost: {port}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("content-type: application/json"), "{head}");
    assert!(head.contains("-trace.json\""), "{head}");
    assert_eq!(check(body).unwrap().requests, 0);
    let foreign = "GET /trace?ms=1 HTTP/1.1\r\nhost: example.org\r\nconnection: close\r\n\r\n";
    assert_eq!(super::exchange(port, foreign).0, 421);
    let (_, page) = get(port, "/");
    assert!(page.contains("trace?ms=200"), "the page has a link");
}
