//! Requests that yield anywhere, to another thread of their worker.

#![cfg(target_os = "linux")]

use std::os::unix::process::CommandExt;
use std::process::Command;

use psp_server::{Config, PreemptPolicy, TypeSpec};

use crate::common::until;
use crate::rig::{Setup, start, start_with, yields_at_checkpoints_only};

fn kernel_thread() -> Config {
    Config::default().preempt(PreemptPolicy::KernelThread).contexts_per_worker(8)
}

/// A handler that sleeps holds up only its own client.
#[test]
fn a_handler_that_blocks_yields_too() {
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

/// A request that needs a lock of a preempted request waits for that request, which has the core meanwhile.
/// This worker serves no other requests until then, unless the waiting request is preempted in its turn.
#[test]
fn a_lock_of_a_preempted_request_is_waited_for() {
    let server = start(kernel_thread());
    let mut holder = server.begin("keep 0");
    let mut needing = server.connect();
    needing.send("need 1\n");
    until("it waits", || server.handle.snapshot().types[0].arrivals == 1 && server.preempted() > 0);
    let mut short = server.connect();
    assert_eq!(short.ask("short 1"), "ok short 1");
    server.gates.open(0);
    assert_eq!(holder.line(), "ok keep 0");
    assert_eq!(needing.line(), "ok need 1");
    assert_eq!(server.stop().abandoned, 0);
}

#[test]
fn within_no_preempt_a_request_keeps_its_worker() {
    let server = start(kernel_thread());
    let mut long = server.begin("hold 0");
    let before = server.preempted();
    let mut short = server.connect();
    short.send("short 1\n");
    until("it waits", || server.handle.snapshot().types[0].arrivals == 1);
    assert_eq!(server.preempted(), before);
    server.gates.open(0);
    assert_eq!(long.line(), "ok hold 0");
    assert_eq!(short.line(), "ok short 1");
    assert_eq!(server.stop().abandoned, 0);
}

#[test]
fn a_type_that_is_cooperative_yields_at_checkpoints_only() {
    let long = TypeSpec::new("long").preempt(PreemptPolicy::Cooperative);
    let server = start_with(kernel_thread(), Setup::of_long(long));
    yields_at_checkpoints_only(server, |server| {
        until("it waits", || server.handle.snapshot().types[0].arrivals == 2);
    });
}

#[test]
fn a_type_that_is_never_preempted_runs_to_its_end() {
    let long = TypeSpec::new("long").preempt(PreemptPolicy::None);
    let server = start_with(kernel_thread(), Setup::of_long(long));
    let mut spinning = server.begin("spin 0");
    let mut short = server.connect();
    short.send("short 1\n");
    until("it waits", || server.handle.snapshot().types[0].arrivals == 1);
    server.gates.open(0);
    assert_eq!(spinning.line(), "ok spin 0");
    assert_eq!(short.line(), "ok short 1");
    assert_eq!(server.preempted(), 0);
    assert_eq!(server.stop().abandoned, 0);
}

/// A user that may not raise a thread from SCHED_IDLE again, and has no other privilege.
const NOBODY: u32 = 65_534;

/// Preempted threads keep their standing then and share the core. If the tests have no privilege to give up,
/// they show that themselves.
#[test]
fn without_privilege_requests_yield_too() {
    let tests = [
        "kernel_thread::a_handler_that_blocks_yields_too",
        "kernel_thread::a_lock_of_a_preempted_request_is_waited_for",
        "every_mechanism::preempted_requests_of_many_connections_all_go_on",
        "moving::a_preempted_request_goes_on_at_another_worker_with_its_thread",
    ];
    let run = Command::new(std::env::current_exe().unwrap())
        .arg("--exact")
        .args(tests)
        .uid(NOBODY)
        .gid(NOBODY)
        .output();
    let output = match run {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            return psp_skip::skip("no right to become another user");
        }
        Err(error) => panic!("{error}"),
    };
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(text.contains(&format!("{} passed", tests.len())), "{text}");
}
