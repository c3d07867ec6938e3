//! Requests that are interrupted at any instruction.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::sync::atomic::Ordering;
use std::time::Duration;

use psp_server::{BuildError, Config, PreemptPolicy, Reply, Request};

use crate::common::{lines, until};
use crate::rig::{HANDLER_MAY_RETURN, start};

fn signal() -> Config {
    Config::default().preempt(PreemptPolicy::Signal)
}

#[test]
fn a_handler_that_is_not_signal_preemptible_is_refused() {
    let error = lines()
        .handler(|_: Request<'_, ()>, _: &mut Reply<'_>| {})
        .preempt(PreemptPolicy::Signal)
        .build()
        .err()
        .unwrap();
    assert!(matches!(error, BuildError::Preempt { preempt: PreemptPolicy::Signal, .. }));
    assert!(error.to_string().contains("SignalPreemptible"), "{error}");
}

#[test]
fn a_request_that_is_asked_within_no_preempt_yields_at_its_end() {
    let server = start(signal());
    // Holds while gate 0 is closed, then spins until gate 1 is open.
    let mut long = server.begin("hold-then-spin 0");
    let mut short = server.connect();
    short.send("short 1\n");
    until("the short request waits", || server.handle.snapshot().types[0].queued == 1);
    assert_eq!(server.preempted(), 0);
    server.gates.open(0);
    assert_eq!(short.line(), "ok short 1");
    assert!(server.preempted() >= 1);
    server.gates.open(1);
    assert_eq!(long.line(), "ok hold-then-spin 0");
}

/// The request is not suspended within the handler, and not forgotten when the handler returns.
#[test]
fn a_request_in_another_signals_handler_yields_when_that_returns() {
    let server = start(signal());
    // Spins in the handler of SIGUSR2, and then until gate 1 is open.
    let mut long = server.begin("signalled 0");
    let mut short = server.connect();
    short.send("short 1\n");
    let asked = || server.handle.snapshot().workers[0].turns.preemptions_asked;
    until("the long request is asked", || asked() == 1);
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(server.preempted(), 0, "the handler runs on");
    HANDLER_MAY_RETURN.store(true, Ordering::Release);
    assert_eq!(short.line(), "ok short 1");
    assert!(server.preempted() >= 1);
    for i in 0..10 {
        assert_eq!(short.ask(&format!("short {i}")), format!("ok short {i}"));
    }
    server.gates.open(1);
    assert_eq!(long.line(), "ok signalled 0");
    assert_eq!(server.stop().abandoned, 0);
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
    // A request that waited for the lock would wait for ever, and the worker with it.
    assert_eq!(other.ask("try-lock"), "taken try-lock");
    server.gates.open(0);
    assert_eq!(holder.line(), "ok lock 0");
    assert_eq!(other.ask("try-lock"), "ok try-lock");
}
