//! A request that waits leaves its worker to others.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use psp_server::{Policy, PreemptPolicy, Topology};

use crate::common::until;
use crate::rig::{config, named, servers, start};

#[test]
fn one_that_waits_lets_others_run_and_goes_on_when_it_is_woken() {
    for server in servers() {
        let name = named(&server);
        let running = start(server.0, server.1);
        let mut waiting: Vec<_> = (0..8).map(|_| running.connect()).collect();
        for client in &mut waiting {
            client.send("gate\n");
        }
        until("all wait", || running.begun.load(Ordering::SeqCst) == 8);
        let mut other = running.connect();
        for round in 0..50 {
            assert_eq!(other.ask(&format!("short {round}")), format!("ok short {round}"), "{name}");
            assert_eq!(other.ask("spin 10"), "ok spin 10", "{name}");
            running.gate.disturb();
        }
        running.gate.open();
        for client in &mut waiting {
            assert_eq!(client.line(), "ok gate", "{name}");
        }
        assert_eq!(other.ask("nap 3"), "ok nap 3", "{name}");
        assert_eq!(other.ask("nap-held 3"), "ok nap-held 3", "{name}");
        assert_eq!(other.ask("yield 100"), "ok yield 100", "{name}");
        assert_eq!(running.stop().abandoned, 0, "{name}");
    }
}

/// Short requests come all the time, and take part of the workers' time. All requests that are woken go on before many
/// more short ones have run.
#[test]
fn what_is_woken_goes_on_soon_beside_many_short_ones() {
    const CLIENTS: usize = 4;
    const PIPELINED: usize = 8;
    const ROUNDS: usize = 5;
    const WAITING: usize = 16;
    // Some turns of all clients' pipelines.
    const PASSED_MAX: usize = 8 * CLIENTS * PIPELINED;
    for server in servers() {
        let name = named(&server);
        let running = start(server.0, server.1);
        let mut waiting: Vec<_> = (0..WAITING).map(|_| running.connect()).collect();
        let is_over = AtomicBool::new(false);
        let mut passed: Vec<_> = thread::scope(|scope| {
            for mut client in (0..CLIENTS).map(|_| running.connect()) {
                let is_over = &is_over;
                scope.spawn(move || {
                    while !is_over.load(Ordering::Relaxed) {
                        client.send(&"short\n".repeat(PIPELINED));
                        (0..PIPELINED).for_each(|_| assert_eq!(client.line(), "ok short"));
                        thread::sleep(Duration::from_millis(2));
                    }
                });
            }
            let rounds = (1..=ROUNDS).map(|round| {
                waiting.iter_mut().for_each(|client| client.send("gate\n"));
                let all_wait = || running.begun.load(Ordering::SeqCst) == round * WAITING;
                until("all wait", all_wait);
                let before = running.shorts.begun.load(Ordering::SeqCst);
                running.gate.open();
                waiting.iter_mut().for_each(|client| assert_eq!(client.line(), "ok gate"));
                running.gate.close();
                let at_passes = std::mem::take(&mut *running.shorts.at_passes.lock().unwrap());
                at_passes.into_iter().max().unwrap() - before
            });
            let passed = rounds.collect();
            is_over.store(true, Ordering::Relaxed);
            passed
        });
        passed.sort_unstable();
        println!("{name}: {passed:?}");
        assert!(passed[ROUNDS / 2] <= PASSED_MAX, "{name}: {passed:?}");
        assert_eq!(running.stop().abandoned, 0, "{name}");
    }
}

#[test]
fn one_that_yields_lets_a_shorter_one_run_on_its_only_worker() {
    for preempt in [PreemptPolicy::None, PreemptPolicy::Cooperative] {
        let config = config(Topology::Dedicated, preempt).workers(1);
        let server = start(Policy::darc(), config);
        let mut yielding = server.connect();
        yielding.send("yield-until\n");
        until("it yields", || server.begun.load(Ordering::SeqCst) == 1);
        assert_eq!(server.connect().ask("short-open"), "ok short-open");
        assert_eq!(yielding.line(), "ok yield-until");
        server.stop();
    }
}

/// Two workers that were held for 50 ms by each request would give 40 answers a second.
#[test]
fn many_wait_at_once() {
    const CLIENTS: usize = 200;
    const ROUNDS: u32 = 4;
    let nap = Duration::from_millis(50);
    for (policy, topology, preempt) in [
        (Policy::darc(), Topology::Inline, PreemptPolicy::Cooperative),
        (Policy::darc(), Topology::Dedicated, PreemptPolicy::Cooperative),
        (Policy::mq(), Topology::Dedicated, PreemptPolicy::Cooperative),
        (Policy::c_fcfs(), Topology::Dedicated, PreemptPolicy::None),
    ] {
        let policy: Policy = policy;
        let name = format!("{policy:?} {topology}");
        let server = start(policy, config(topology, preempt));
        let mut clients: Vec<_> = (0..CLIENTS).map(|_| server.connect()).collect();
        let mut shorts = server.connect();
        let started = Instant::now();
        let napping = thread::spawn(move || {
            for _ in 0..ROUNDS {
                for client in &mut clients {
                    client.send("nap 50\n");
                }
                for client in &mut clients {
                    assert_eq!(client.line(), "ok nap 50");
                }
            }
        });
        let mut answered = 0;
        while !napping.is_finished() {
            assert_eq!(shorts.ask("short"), "ok short", "{name}");
            answered += 1;
        }
        napping.join().unwrap();
        let held = nap * (CLIENTS as u32 * ROUNDS / 2);
        let took = started.elapsed();
        println!("{name}: {took:?} of {held:?}, {answered} short");
        assert!(took < held / 5, "{name}: {took:?} of {held:?}");
        assert!(answered > 10, "{name}: {answered}");
        assert_eq!(server.stop().abandoned, 0, "{name}");
    }
}

/// A request that runs to its end begins where no waiting request is at home.
#[test]
fn a_long_request_leaves_its_worker_to_one_that_waits() {
    for policy in [Policy::c_fcfs(), Policy::fixed_priority(), Policy::sjf()] {
        let name = format!("{policy:?}");
        let server = start(policy, config(Topology::Dedicated, PreemptPolicy::None));
        let (mut waiting, mut long) = (server.connect(), server.connect());
        waiting.send("gate\n");
        until("it waits", || server.begun.load(Ordering::SeqCst) == 1);
        long.send("nap-held 2000\n");
        until("the long one runs", || server.begun.load(Ordering::SeqCst) == 2);
        server.gate.open();
        assert_eq!(waiting.line(), "ok gate", "{name}");
        let completed: u64 = server.handle.snapshot().types.iter().map(|ty| ty.completions).sum();
        assert!(completed <= 1, "{name}: the long one still runs");
        assert_eq!(long.line(), "ok nap-held 2000", "{name}");
        server.stop();
    }
}
