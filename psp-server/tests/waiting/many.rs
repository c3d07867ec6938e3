//! Ten thousand requests that wait at once.

use std::net::UdpSocket;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use psp_server::{Policy, PreemptPolicy, Topology};

use crate::common::{PATIENCE, until};
use crate::rig::{DEEP_BYTES, config, start};

const REQUESTS: usize = 10_000;
/// More than a request needs that waits: the pages of its stack that were used, its executor and its datagram.
const BYTES_MAX: usize = DEEP_BYTES + 16 * 1024;

/// The memory of this process, in bytes.
fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
}

/// Datagrams, so that the test needs no file descriptors.
#[test]
#[cfg(target_os = "linux")]
fn ten_thousand_wait_at_once_and_their_memory_comes_back() {
    let config = config(Topology::Dedicated, PreemptPolicy::None)
        .contexts_per_worker(REQUESTS)
        .queue_capacity(2 * REQUESTS);
    let server = start(Policy::c_fcfs(), config);
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.set_nonblocking(true).unwrap();
    let before = resident_bytes();
    let begun = || server.begun.load(Ordering::SeqCst);
    let deadline = Instant::now() + PATIENCE;
    while begun() < REQUESTS {
        assert!(Instant::now() < deadline, "{} wait", begun());
        let sent = begun();
        for _ in 0..64.min(REQUESTS - sent) {
            client.send_to(b"deep\n", server.udp).unwrap();
        }
        let patience = Instant::now() + Duration::from_millis(20);
        while begun() < REQUESTS.min(sent + 64) && Instant::now() < patience {
            std::thread::yield_now();
        }
    }
    let waiting = resident_bytes();
    let each = waiting.saturating_sub(before) / REQUESTS;
    println!("{each} bytes for each of {REQUESTS} that wait");
    assert!((DEEP_BYTES..BYTES_MAX).contains(&each), "{each} bytes each");
    let mut other = server.connect();
    assert_eq!(other.ask("short"), "ok short");
    server.gate.open();
    let completed = || {
        let types = server.handle.snapshot().types;
        types.iter().map(|it| it.completions).sum::<u64>()
    };
    until("all are answered", || completed() > REQUESTS as u64);
    until("their stacks' memory is given back", || {
        resident_bytes() < before + (waiting - before) / 2
    });
    assert_eq!(server.stop().abandoned, 0);
}
