//! Long requests beside other programs that want all cores. The server's threads get what those get.

use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle, available_parallelism};
use std::time::{Duration, Instant};

use crate::common::{Connection, Server, encode};

const ELEMENTS: usize = 10_000;
const KEYS: usize = 10_000;
const SUM: &str = "local sum = 0 for term = 1, tonumber(ARGV[1]) do sum = sum + term end return sum";
/// Requests that run on workers.
const LONG: [&[&str]; 4] = [
    &["LRANGE", "list", "0", "-1"],
    &["KEYS", "*"],
    &["SORT", "list"],
    &["EVAL", SUM, "0", "500000"],
];
const ROUNDS: usize = 5;
/// A worker has a third of its core beside two loops, and waits for some of their slices. One of nice value 19 would
/// have a hundredth of it.
const TIMES_MAX: u32 = 30;
/// Each topology, with a policy.
const SETUPS: [(&str, &str); 3] = [("inline", "darc"), ("dedicated", "darc"), ("distributed", "synergy")];

/// Programs that compute without end: two for each core.
struct OtherPrograms {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl OtherPrograms {
    fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let count = 2 * available_parallelism().map_or(2, NonZero::get);
        let compute = |stop: Arc<AtomicBool>| thread::spawn(move || while !stop.load(Ordering::Relaxed) {});
        let threads = (0..count).map(|_| compute(stop.clone())).collect();
        Self { stop, threads }
    }
}

impl Drop for OtherPrograms {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().unwrap();
        }
    }
}

fn start(topology: &'static str, policy: &'static str) -> Server {
    let server = Server::start_under(topology, policy, 2);
    let mut client = server.connect();
    let elements = (0..ELEMENTS).map(|element| element.to_string());
    let push: Vec<String> = ["RPUSH", "list"].map(str::to_owned).into_iter().chain(elements).collect();
    assert_eq!(client.request(&push).to_string(), ELEMENTS.to_string());
    let pairs = (0..KEYS).flat_map(|key| [format!("key:{key}"), "value".to_owned()]);
    let set: Vec<String> = std::iter::once("MSET".to_owned()).chain(pairs).collect();
    assert_eq!(client.request(&set).to_string(), "+OK");
    server
}

/// The time of all long requests, one after the other: medians of some rounds.
fn time_of_long(client: &mut Connection) -> Duration {
    let median = |request: &[&str]| {
        let mut times = [Duration::ZERO; ROUNDS];
        for time in &mut times {
            let sent = Instant::now();
            let reply = client.request(request).to_string();
            *time = sent.elapsed();
            assert!(!reply.starts_with('-'), "{reply}");
        }
        times.sort();
        times[ROUNDS / 2]
    };
    LONG.map(median).iter().sum()
}

#[test]
fn long_requests_go_on_beside_other_programs() {
    for (topology, policy) in SETUPS {
        let server = start(topology, policy);
        let mut client = server.connect();
        let alone = time_of_long(&mut client);
        let others = OtherPrograms::start();
        let beside = time_of_long(&mut client);
        drop(others);
        assert!(
            beside < TIMES_MAX * alone,
            "{topology}: {alone:?} alone, {beside:?} beside other programs"
        );
    }
}

#[test]
fn a_terminated_server_answers_a_long_request_beside_other_programs() {
    // Less than a second alone.
    let request = encode(&["EVAL", SUM, "0", "10000000"]);
    for (topology, policy) in SETUPS {
        let mut server = start(topology, policy);
        let mut client = server.connect();
        let _others = OtherPrograms::start();
        client.send([encode(&["ECHO", "started"]), request.clone()].concat());
        assert_eq!(client.reply().to_string(), "\"started\"", "{topology}");
        server.terminate();
        assert_eq!(client.reply().to_string(), "50000005000000", "{topology}");
        assert_eq!(client.read_to_close(), b"", "{topology}");
        assert_eq!(server.wait_for_exit().code(), Some(0), "{topology}");
    }
}
