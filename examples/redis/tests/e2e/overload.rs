//! More long requests than the server can queue: the server refuses requests of their type and
//! serves all others.
//!
//! Redis has no typed queues, so these tests apply to psp-redis only.

use crate::common::{Connection, Options, Server, encode_line, wait_until};

const WORKERS: usize = 2;
const QUEUE_CAPACITY: usize = 4;
/// A request that finds the queue full is refused at once. `bursts.rs` has the tests of requests that wait. With two
/// contexts a worker holds one request at a time, whether it runs or waits.
const CONFIG: &str = "[server]
queue-capacity = 4
backpressure-ms = 0
contexts-per-worker = 2
";
/// Many more than can run and wait at once.
const SLEEPERS: usize = 40;

/// With the usual queues and number of contexts all of them wait at once.
const USUAL_CONFIG: &str = "";

fn start(policy: &'static str, topology: &'static str) -> Server {
    start_with(policy, topology, CONFIG)
}

fn start_with(policy: &'static str, topology: &'static str, config: &'static str) -> Server {
    let options = Options {
        policy: Some(policy),
        topology: Some(topology),
        workers: Some(WORKERS),
        config: Some(config),
        ..Options::default()
    };
    Server::start_with(&options)
}

/// A server whose workers come and go.
fn start_range() -> Server {
    let options = Options {
        config: Some("[server]\nworkers = \"2..3\"\n"),
        ..Options::default()
    };
    Server::start_with(&options)
}

fn long_requests_are_refused_and_gets_are_not(policy: &'static str, topology: &'static str) {
    psp_harness::only_psp!();
    let server = start(policy, topology);
    let shape = format!("{policy}, {topology}");
    let mut witness = server.connect();
    assert_eq!(witness.ask("SET key value"), "+OK");
    let mut sleepers: Vec<Connection> = (0..SLEEPERS).map(|_| server.connect()).collect();
    for round in 0..3 {
        for sleeper in &mut sleepers {
            sleeper.send(encode_line("DEBUG SLEEP 0.1"));
        }
        for _ in 0..20 {
            assert_eq!(witness.ask("GET key"), "\"value\"", "{shape}");
        }
        let replies: Vec<String> = sleepers.iter_mut().map(|sleeper| sleeper.reply().to_string()).collect();
        let done = replies.iter().filter(|reply| *reply == "+OK").count();
        let refused = replies.iter().filter(|reply| reply.starts_with("-BUSY ")).count();
        assert_eq!(done + refused, SLEEPERS, "{shape}: {replies:?}");
        assert!(done >= QUEUE_CAPACITY, "{shape}, round {round}: the server served only {done}");
        assert!(refused > 0, "{shape}, round {round}: the server refused none");
        // The queue is empty again.
        assert_eq!(witness.ask("DEBUG SLEEP 0.001"), "+OK", "{shape}");
    }
}

#[test]
fn darc_inline_refuses_the_overloading_type_alone() {
    long_requests_are_refused_and_gets_are_not("darc", "inline");
}

#[test]
fn darc_dedicated_refuses_the_overloading_type_alone() {
    long_requests_are_refused_and_gets_are_not("darc", "dedicated");
}

#[test]
fn fixed_priority_inline_refuses_the_overloading_type_alone() {
    long_requests_are_refused_and_gets_are_not("fixed-priority", "inline");
}

#[test]
fn fixed_priority_dedicated_refuses_the_overloading_type_alone() {
    long_requests_are_refused_and_gets_are_not("fixed-priority", "dedicated");
}

/// Administration works while far more requests wait than there are workers, for longer than the test takes.
fn administration_goes_on(topology: &'static str) {
    psp_harness::only_psp!();
    let server = start_with("darc", topology, USUAL_CONFIG);
    let mut sleepers: Vec<Connection> = (0..SLEEPERS).map(|_| server.connect()).collect();
    for sleeper in &mut sleepers {
        sleeper.send(encode_line("DEBUG SLEEP 60"));
    }
    let mut operator = server.connect();
    wait_until("all of them have begun", || {
        let list = operator.request(&["CLIENT", "LIST"]).to_string();
        list.matches("cmd=debug").count() == SLEEPERS
    });
    // They sleep without their workers, and INFO counts that. Each looks for its client now and then, so that some may
    // be awake.
    wait_until("INFO has them as requests that wait", || {
        let info = operator.info("psp");
        let of_types = |name: &str| -> usize {
            let fields = info.split([',', '\r']);
            let counts = fields.filter_map(|field| field.strip_prefix(name));
            counts.map(|count| count.parse::<usize>().unwrap()).sum()
        };
        of_types("blocked=") > WORKERS && of_types("waits=") >= SLEEPERS
    });
    // These get their replies long before a sleeper's, or the connection times out.
    assert!(operator.info("clients").contains("connected_clients:"), "{topology}");
    let list = operator.request(&["CLIENT", "LIST"]).to_string();
    assert_eq!(list.matches("cmd=").count(), SLEEPERS + 1, "{topology}");
    assert_eq!(operator.ask("CONFIG SET timeout 1000"), "+OK", "{topology}");
    assert_eq!(operator.ask("CONFIG SET policy cscq"), "+OK", "{topology}");
    let policy = operator.ask("CONFIG GET policy");
    assert!(policy.contains("cscq"), "{topology}: {policy}");
}

#[test]
fn info_has_the_range_of_workers_and_how_many_are_present() {
    psp_harness::only_psp!();
    let server = start_range();
    let info = server.connect().info("psp");
    for line in [
        "psp_workers:3",
        "psp_workers_min:2",
        "psp_workers_went:0",
        "psp_arbiter_registered:0",
        "psp_arbiter_cores:0",
    ] {
        assert!(info.lines().any(|found| found == line), "{line} in {info}");
    }
    let present = { info.lines() }.find_map(|line| line.strip_prefix("psp_workers_present:"));
    assert!(matches!(present, Some("2" | "3")), "{info}");
}

#[test]
fn administration_goes_on_inline() {
    administration_goes_on("inline");
}

#[test]
fn administration_goes_on_dedicated() {
    administration_goes_on("dedicated");
}

#[test]
fn one_pipelining_connection_does_not_fill_a_queue() {
    for topology in ["inline", "dedicated"] {
        psp_harness::only_psp!();
        let server = start("darc", topology);
        let mut client = server.connect();
        client.send(encode_line("DEBUG SLEEP 0.002").repeat(SLEEPERS));
        for position in 0..SLEEPERS {
            assert_eq!(client.reply().to_string(), "+OK", "{topology}, reply {position}");
        }
    }
}
