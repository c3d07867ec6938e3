//! Promises that hold for every mechanism of preemption.

use std::time::{Duration, Instant};

use psp_server::{Config, Policy, TypeSpec};

use crate::common::until;
use crate::rig::{COMPUTED, MECHANISMS, Setup, start, start_with};

#[test]
fn short_requests_pass_a_long_one_on_its_own_worker() {
    for &preempt in MECHANISMS {
        const SHORTS: u64 = 100;
        let server = start(Config::default().preempt(preempt));
        let start = Instant::now();
        let mut long = server.begin("spin 0");
        let mut short = server.connect();
        for i in 0..SHORTS {
            assert_eq!(short.ask(&format!("work {i}")), format!("ok work {i}"));
        }
        assert!(server.preempted() >= SHORTS);
        server.gates.open(0);
        assert_eq!(long.line(), "ok spin 0");
        // They shared one worker: if the long request's time between turns counted, the sum would be too large.
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
        let server = start(Config::default().preempt(preempt));
        let mut longs: Vec<_> = (0..10).map(|i| server.begin(&format!("spin {i}"))).collect();
        for (gate, long) in longs.iter_mut().enumerate() {
            server.gates.open(gate);
            assert_eq!(long.line(), format!("ok spin {gate}"));
        }
        assert_eq!(server.stop().abandoned, 0);
    }
}

/// The only worker of the short requests is lent to a long one, and taken back for a short one.
#[test]
fn darc_takes_back_what_it_lent() {
    for &preempt in MECHANISMS {
        let config = Config::default().workers(2).preempt(preempt);
        let ms = Duration::from_millis;
        let setup = Setup {
            policy: Policy::darc_lending(),
            short: TypeSpec::new("short").service_time(ms(1)).slo(ms(10)),
            long: TypeSpec::new("long").service_time(ms(10)).slo(ms(100)),
            ..Setup::default()
        };
        let server = start_with(config, setup);
        let mut longs = [0, 1].map(|gate| server.begin(&format!("spin {gate}")));
        assert_eq!(server.preempted(), 0, "each has a worker");
        let mut short = server.connect();
        assert_eq!(short.ask("short 1"), "ok short 1", "{preempt}");
        assert!(server.preempted() > 0);
        for (gate, long) in longs.iter_mut().enumerate() {
            server.gates.open(gate);
            assert_eq!(long.line(), format!("ok spin {gate}"));
        }
        assert_eq!(server.stop().abandoned, 0);
    }
}

#[test]
fn policies_change_while_requests_run_wait_and_are_suspended_and_none_is_lost() {
    for &preempt in MECHANISMS {
        const LONGS: usize = 4;
        const SHORTS: u64 = 3;
        let server = start(Config::default().workers(2).preempt(preempt));
        let sharing = server.handle.policy();
        for name in Policy::NAMES {
            let before = server.preempted();
            let mut longs: Vec<_> = (0..LONGS).map(|gate| server.begin(&format!("spin {gate}"))).collect();
            assert!(server.preempted() > before, "some are suspended");
            let mut shorts: Vec<_> = (0..SHORTS).map(|_| server.connect()).collect();
            for short in &mut shorts {
                short.send("short 1\n");
            }
            let policy: Policy = name.parse().unwrap();
            server.handle.set_policy(policy).unwrap();
            (0..LONGS).for_each(|gate| server.gates.open(gate));
            for (gate, long) in longs.iter_mut().enumerate() {
                assert_eq!(long.line(), format!("ok spin {gate}"), "{preempt} {name}");
            }
            for short in &mut shorts {
                assert_eq!(short.line(), "ok short 1", "{preempt} {name}");
            }
            (0..LONGS).for_each(|gate| server.gates.close(gate));
            server.handle.set_policy(sharing.clone()).unwrap();
        }
        let types = server.handle.snapshot().types;
        let rounds = Policy::NAMES.len() as u64;
        let completed = [SHORTS * rounds, LONGS as u64 * rounds];
        assert_eq!([types[0].completions, types[1].completions], completed);
        assert_eq!(server.stop().abandoned, 0);
    }
}

#[test]
fn a_panic_after_a_preemption_costs_its_own_request() {
    for &preempt in MECHANISMS {
        let server = start(Config::default().preempt(preempt));
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
        let server = start(Config::default().contexts_per_worker(2).preempt(preempt));
        let mut first = server.begin("spin 0");
        let mut short = server.connect();
        short.send("short 1\n");
        until("it waits", || server.handle.snapshot().types[0].arrivals == 1);
        server.gates.open(0);
        assert_eq!(first.line(), "ok spin 0");
        assert_eq!(short.line(), "ok short 1");
        assert_eq!(server.stop().abandoned, 0);
    }
}

#[test]
fn a_server_stops_with_a_request_suspended() {
    for &preempt in MECHANISMS {
        let server = start(Config::default().drain_timeout_ms(1).preempt(preempt));
        let _first = server.begin("spin 0");
        let _second = server.begin("spin 1");
        assert!(server.stop().abandoned > 0);
    }
}

#[test]
fn what_others_compute_meanwhile_is_not_on_a_requests_timer() {
    for &preempt in MECHANISMS {
        let server = start(Config::default().preempt(preempt));
        let mut long = server.begin("time 0");
        assert_eq!(server.connect().ask("compute"), "ok compute");
        server.gates.open(0);
        assert_eq!(long.line(), "ok time 0");
        let (own, wall) = *server.gates.timed.lock().unwrap();
        assert!(own > Duration::ZERO && own <= wall - COMPUTED, "{own:?}");
        assert_eq!(server.stop().abandoned, 0);
    }
}
