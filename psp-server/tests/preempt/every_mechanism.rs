//! What holds whatever makes requests give way.

use std::time::Instant;

use psp_server::{Config, TypeSpec};

use crate::common::until;
use crate::rig::{MECHANISMS, start, start_with_quantum};

#[test]
fn short_requests_pass_a_long_one_on_its_own_worker() {
    for &preempt in MECHANISMS {
        const SHORTS: u64 = 100;
        let server = start(Config {
            preempt,
            ..Config::default()
        });
        let start = Instant::now();
        let mut long = server.begin("spin 0");
        let mut short = server.connect();
        for i in 0..SHORTS {
            assert_eq!(short.ask(&format!("work {i}")), format!("ok work {i}"));
        }
        assert!(server.preempted() >= SHORTS);
        server.gates.open(0);
        assert_eq!(long.line(), "ok spin 0");
        // They shared one worker: counting the long one's time away would make the sum too large.
        let elapsed_ns = start.elapsed().as_nanos() as u64;
        let snapshot = server.handle.snapshot();
        assert_eq!(snapshot.workers[0].completions, SHORTS + 1);
        let served_ns = snapshot.workers[0].service_ns_total;
        assert!(served_ns <= elapsed_ns, "{served_ns} of {elapsed_ns}");
        assert_eq!(server.stop().abandoned, 0);
    }
}

#[test]
fn preempted_requests_of_many_connections_all_go_on() {
    for &preempt in MECHANISMS {
        let server = start(Config {
            preempt,
            ..Config::default()
        });
        let mut longs: Vec<_> = (0..10)
            .map(|i| server.begin(&format!("spin {i}")))
            .collect();
        for (gate, long) in longs.iter_mut().enumerate() {
            server.gates.open(gate);
            assert_eq!(long.line(), format!("ok spin {gate}"));
        }
        assert_eq!(server.stop().abandoned, 0);
    }
}

/// If a quantum ran from the hand-over, it would be over before the worker woke, and again when the
/// request went on: nobody would ever be done.
#[test]
fn with_quanta_far_shorter_than_a_wake_requests_get_on() {
    for &preempt in MECHANISMS {
        let config = Config {
            preempt,
            ..Config::default()
        };
        let server = start_with_quantum(config, TypeSpec::new("long"), 0.001);
        let mut clients: Vec<_> = (0..4).map(|_| server.connect()).collect();
        for round in 0..5 {
            for (number, client) in clients.iter_mut().enumerate() {
                client.send(&format!("toil {number}\n"));
            }
            for (number, client) in clients.iter_mut().enumerate() {
                assert_eq!(
                    client.line(),
                    format!("ok toil {number}"),
                    "{preempt} {round}"
                );
            }
        }
        assert!(server.preempted() > 0, "{preempt}");
        assert_eq!(server.stop().abandoned, 0);
    }
}

#[test]
fn a_panic_after_a_preemption_costs_its_own_request() {
    for &preempt in MECHANISMS {
        let server = start(Config {
            preempt,
            ..Config::default()
        });
        let mut other = server.begin("spin 0");
        let mut failing = server.begin("fail 1");
        let before = server.preempted();
        // Both wait for each other's quanta by now.
        until("each was preempted", || server.preempted() >= before + 4);
        server.gates.open(1);
        assert_eq!(failing.line(), "!failed fail 1");
        assert_eq!(failing.ask("short 1"), "ok short 1");
        server.gates.open(0);
        assert_eq!(other.line(), "ok spin 0");
        assert_eq!(server.handle.snapshot().workers[0].panics, 1);
    }
}

#[test]
fn without_a_spare_context_a_request_runs_to_its_end() {
    for &preempt in MECHANISMS {
        let server = start(Config {
            contexts_per_worker: 2,
            preempt,
            ..Config::default()
        });
        let mut first = server.begin("spin 0");
        let mut short = server.connect();
        short.send("short 1\n");
        until("it waits", || {
            server.handle.snapshot().types[0].arrivals == 1
        });
        server.gates.open(0);
        assert_eq!(first.line(), "ok spin 0");
        assert_eq!(short.line(), "ok short 1");
        assert_eq!(server.stop().abandoned, 0);
    }
}

#[test]
fn a_server_stops_with_a_request_suspended() {
    for &preempt in MECHANISMS {
        let server = start(Config {
            drain_timeout_ms: 1,
            preempt,
            ..Config::default()
        });
        let _first = server.begin("spin 0");
        let _second = server.begin("spin 1");
        assert!(server.stop().abandoned > 0);
    }
}
