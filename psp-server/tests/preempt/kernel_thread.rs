//! Requests that give way anywhere, to another thread of their worker.

#![cfg(target_os = "linux")]

use std::time::Instant;

use psp_server::{Config, PreemptPolicy, TypeSpec};

use crate::common::until;
use crate::rig::{RigServer, start, start_with};

fn kernel_thread() -> Config {
    Config {
        preempt: PreemptPolicy::KernelThread,
        contexts_per_worker: 8,
        ..Config::default()
    }
}

fn preempted(server: &RigServer) -> u64 {
    server.handle.snapshot().workers[0].preempted
}

#[test]
fn short_requests_pass_a_long_one_without_checkpoints() {
    const SHORTS: u64 = 200;
    let server = start(kernel_thread());
    let start = Instant::now();
    let mut long = server.begin("burn 0");
    let mut short = server.connect();
    for i in 0..SHORTS {
        assert_eq!(short.ask(&format!("work {i}")), format!("ok work {i}"));
    }
    server.gates.open(0);
    assert_eq!(long.line(), "ok burn 0");
    // The short ones are read while the long one has the worker.
    assert!(preempted(&server) >= SHORTS);
    // They shared one worker: counting the long one's time away would make the sum too large.
    let elapsed_ns = start.elapsed().as_nanos() as u64;
    let snapshot = server.handle.snapshot();
    assert_eq!(snapshot.workers[0].completions, SHORTS + 1);
    let served_ns = snapshot.workers[0].service_ns_total;
    assert!(served_ns <= elapsed_ns, "{served_ns} of {elapsed_ns}");
    assert_eq!(server.stop().abandoned, 0);
}

#[test]
fn preempted_requests_of_many_connections_all_go_on() {
    let server = start(kernel_thread());
    let mut longs: Vec<_> = (0..6).map(|i| server.begin(&format!("burn {i}"))).collect();
    for (gate, long) in longs.iter_mut().enumerate() {
        server.gates.open(gate);
        assert_eq!(long.line(), format!("ok burn {gate}"));
    }
    assert_eq!(server.stop().abandoned, 0);
}

#[test]
fn a_panic_after_a_preemption_costs_its_own_request() {
    let server = start(kernel_thread());
    let mut other = server.begin("burn 0");
    let mut failing = server.begin("fail 1");
    let before = preempted(&server);
    until("each was preempted", || preempted(&server) >= before + 4);
    server.gates.open(1);
    assert_eq!(failing.line(), "!failed fail 1");
    assert_eq!(failing.ask("short 1"), "ok short 1");
    server.gates.open(0);
    assert_eq!(other.line(), "ok burn 0");
    assert_eq!(server.handle.snapshot().workers[0].panics, 1);
}

/// A handler that sleeps holds up nobody but its own client.
#[test]
fn a_handler_that_blocks_gives_way_too() {
    let server = start(kernel_thread());
    let mut blocked = server.begin("block 0");
    let mut short = server.connect();
    for i in 0..20 {
        assert_eq!(short.ask(&format!("short {i}")), format!("ok short {i}"));
    }
    server.gates.open(0);
    assert_eq!(blocked.line(), "ok block 0");
    assert_eq!(server.stop().abandoned, 0);
}

/// Whoever needs a lock that a preempted request holds waits for that request, which has the core
/// meanwhile. Requests that do not need it are not served by this worker until then, unless the one
/// that waits is preempted in its turn.
#[test]
fn a_lock_of_a_preempted_request_is_waited_for() {
    let server = start(kernel_thread());
    let mut holder = server.begin("lock 0");
    let mut needing = server.connect();
    needing.send("need 1\n");
    until("it waits", || {
        server.handle.snapshot().types[0].arrivals == 1 && preempted(&server) > 0
    });
    let mut short = server.connect();
    assert_eq!(short.ask("short 1"), "ok short 1");
    server.gates.open(0);
    assert_eq!(holder.line(), "ok lock 0");
    assert_eq!(needing.line(), "ok need 1");
    assert_eq!(server.stop().abandoned, 0);
}

#[test]
fn within_no_preempt_a_request_keeps_its_worker() {
    let server = start(kernel_thread());
    let mut long = server.begin("hold 0");
    let before = preempted(&server);
    let mut short = server.connect();
    short.send("short 1\n");
    until("it waits", || {
        server.handle.snapshot().types[0].arrivals == 1
    });
    assert_eq!(preempted(&server), before);
    server.gates.open(0);
    assert_eq!(long.line(), "ok hold 0");
    assert_eq!(short.line(), "ok short 1");
    assert_eq!(server.stop().abandoned, 0);
}

#[test]
fn a_type_that_is_cooperative_gives_way_at_checkpoints_only() {
    let long = TypeSpec::new("long").preempt(PreemptPolicy::Cooperative);
    let server = start_with(kernel_thread(), long);
    let mut spinning = server.begin("spin 0");
    let mut short = server.connect();
    assert_eq!(short.ask("short 1"), "ok short 1");
    assert!(preempted(&server) > 0);
    server.gates.open(0);
    assert_eq!(spinning.line(), "ok spin 0");

    let mut burning = server.begin("burn 1");
    let before = preempted(&server);
    short.send("short 2\n");
    until("it waits", || {
        server.handle.snapshot().types[0].arrivals == 2
    });
    assert_eq!(preempted(&server), before);
    server.gates.open(1);
    assert_eq!(burning.line(), "ok burn 1");
    assert_eq!(short.line(), "ok short 2");
    assert_eq!(server.stop().abandoned, 0);
}

#[test]
fn a_type_that_is_never_preempted_runs_to_its_end() {
    let long = TypeSpec::new("long").preempt(PreemptPolicy::None);
    let server = start_with(kernel_thread(), long);
    let mut spinning = server.begin("spin 0");
    let mut short = server.connect();
    short.send("short 1\n");
    until("it waits", || {
        server.handle.snapshot().types[0].arrivals == 1
    });
    server.gates.open(0);
    assert_eq!(spinning.line(), "ok spin 0");
    assert_eq!(short.line(), "ok short 1");
    assert_eq!(preempted(&server), 0);
    assert_eq!(server.stop().abandoned, 0);
}

#[test]
fn a_server_stops_with_a_request_suspended() {
    let server = start(Config {
        drain_timeout_ms: 1,
        ..kernel_thread()
    });
    let _first = server.begin("burn 0");
    let _second = server.begin("burn 1");
    assert!(server.stop().abandoned > 0);
}
