//! Requests that are interrupted wherever they are.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use psp_server::{BuildError, Config, PreemptPolicy, Reply, Request, Server};

use crate::common::{Lines, until};
use crate::rig::start;

fn signal() -> Config {
    Config {
        preempt: PreemptPolicy::Signal,
        ..Config::default()
    }
}

#[test]
fn a_handler_nobody_vouched_for_is_refused() {
    let error = Server::builder()
        .tcp("127.0.0.1:0")
        .framing(Lines)
        .handler(|_: Request<'_, ()>, _: &mut Reply<'_>| {})
        .preempt(PreemptPolicy::Signal)
        .build()
        .err()
        .unwrap();
    assert!(matches!(
        error,
        BuildError::Setting {
            setting: "preempt",
            ..
        }
    ));
    assert!(error.to_string().contains("SignalPreemptible"), "{error}");
}

#[test]
fn what_was_asked_within_no_preempt_is_done_at_its_end() {
    let server = start(signal());
    // Holds while gate 0 is closed, then spins until gate 1 is open.
    let mut long = server.begin("hold-then-spin 0");
    let mut short = server.connect();
    short.send("short 1\n");
    until("it waits", || server.handle.snapshot().types[0].queued == 1);
    assert_eq!(server.preempted(), 0);
    server.gates.open(0);
    assert_eq!(short.line(), "ok short 1");
    assert!(server.preempted() >= 1);
    server.gates.open(1);
    assert_eq!(long.line(), "ok hold-then-spin 0");
}

#[test]
fn a_system_call_is_interrupted_and_begun_again() {
    let server = start(signal());
    let mut long = server.begin("block 0");
    let mut short = server.connect();
    for i in 0..100 {
        assert_eq!(short.ask(&format!("short {i}")), format!("ok short {i}"));
    }
    server.gates.open(0);
    assert_eq!(long.line(), "ok block 0");
}

#[test]
fn a_borrow_held_without_no_preempt_fails_the_request_that_meets_it() {
    let server = start(signal());
    let mut holder = server.begin("borrow 0");
    let mut other = server.connect();
    assert_eq!(other.ask("borrow-briefly"), "!failed borrow-briefly");
    assert_eq!(other.ask("short 1"), "ok short 1", "the worker lives");
    server.gates.open(0);
    assert_eq!(holder.line(), "ok borrow 0");
    assert_eq!(other.ask("borrow-briefly"), "ok borrow-briefly");
}

#[test]
fn a_lock_held_without_no_preempt_is_found_taken_on_the_same_thread() {
    let server = start(signal());
    let mut holder = server.begin("lock 0");
    let mut other = server.connect();
    // One that waited for it would wait for ever, and the worker with it.
    assert_eq!(other.ask("try-lock"), "taken try-lock");
    server.gates.open(0);
    assert_eq!(holder.line(), "ok lock 0");
    assert_eq!(other.ask("try-lock"), "ok try-lock");
}
