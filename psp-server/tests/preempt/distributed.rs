//! Workers that receive for themselves, and a timer core that preempts their long requests for those that wait.

use std::sync::atomic::Ordering;
use std::time::Duration;

use psp_server::policy::Synergy;
use psp_server::{Config, Policy, PreemptPolicy, Topology, TypeSpec};

use crate::common::{Client, until};
use crate::rig::{MECHANISMS, RigServer, Setup, start_with};

/// Enough connections for each of two workers to have some.
const CLIENTS: usize = 64;

/// Types whose lengths are known, and far apart.
fn start(config: Config, policy: impl Into<Policy>) -> RigServer {
    let ms = Duration::from_millis;
    let setup = Setup {
        policy: policy.into(),
        topology: Topology::Distributed,
        short: TypeSpec::new("short").service_time(ms(1)).slo(ms(10)),
        long: TypeSpec::new("long").service_time(ms(100)).slo(ms(1000)),
    };
    start_with(config, setup)
}

/// Policies that give requests quanta whatever their workers are reserved for.
fn policies() -> [Policy; 4] {
    [
        Policy::jsq().quantum_us(1.0),
        Policy::synergy(),
        Synergy::default().wait_queue(false).into(),
        Synergy::default()
            .adaptive_quantum(false)
            .quantum_us(20.0)
            .conditional_preemption(false)
            // Several turns of threads that preempt threads: with less, the wait queue is always congested, and what is
            // new does not begin.
            .congestion_threshold_us(20_000.0)
            .into(),
    ]
}

#[test]
fn short_requests_pass_a_long_one_on_the_only_worker() {
    for preempt in MECHANISMS.iter().copied() {
        for policy in policies() {
            const SHORTS: u64 = 20;
            let server = start(Config::default().preempt(preempt), policy.clone());
            let mut long = server.begin("spin 0");
            let mut short = server.connect();
            for i in 0..SHORTS {
                let reply = short.ask(&format!("work {i}"));
                assert_eq!(reply, format!("ok work {i}"), "{preempt} {policy}");
            }
            // A short one that comes before the long one resumes needs no preemption.
            assert!(server.interrupted() > 0, "{preempt} {policy}");
            server.gates.open(0);
            assert_eq!(long.line(), "ok spin 0");
            // Nothing is counted any more.
            let turns = &server.handle.snapshot().workers[0].turns;
            assert!(turns.preemptions_asked >= turns.preemptions_honoured, "{preempt} {policy}: {turns:?}");
            assert_eq!(server.stop().abandoned, 0);
        }
    }
}

#[test]
fn a_policy_without_quanta_runs_a_long_request_to_its_end() {
    for policy in [Policy::stealing(), Policy::darc_distributed()] {
        let server = start(Config::default(), policy.clone());
        let mut long = server.begin("spin 0");
        let mut short = server.connect();
        short.send("short 0\n");
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(server.preempted(), 0, "{policy}");
        server.gates.open(0);
        assert_eq!(long.line(), "ok spin 0");
        assert_eq!(short.line(), "ok short 0");
    }
}

#[test]
fn without_a_mechanism_requests_run_to_their_ends() {
    let config = Config::default().preempt(PreemptPolicy::None);
    let server = start(config, Policy::synergy());
    let mut long = server.begin("spin 0");
    let mut short = server.connect();
    short.send("short 0\n");
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(server.preempted(), 0);
    server.gates.open(0);
    assert_eq!(long.line(), "ok spin 0");
    assert_eq!(short.line(), "ok short 0");
}

/// The requests of a pipeline behind the long one, which the worker has read and not looked at.
#[test]
fn what_lies_in_a_buffer_passes_a_long_request_too() {
    for preempt in MECHANISMS.iter().copied() {
        let server = start(Config::default().preempt(preempt), Policy::synergy());
        let mut first = server.connect();
        let mut long = server.begin("spin 0");
        // All are read at once. Behind each `work` the worker gives their connection back, and could go on with the
        // long one.
        first.send("work 1\nwhat\nwork 2\nwhat\nwork 3\n");
        for line in ["work 1", "what", "work 2", "what", "work 3"] {
            assert_eq!(first.line(), format!("ok {line}"), "{preempt}");
        }
        server.gates.open(0);
        assert_eq!(long.line(), "ok spin 0");
    }
}

#[test]
fn long_requests_take_turns_and_all_end() {
    for preempt in MECHANISMS.iter().copied() {
        // By default those that Synergy preempted wait until nothing else is to run.
        for policy in policies().into_iter().filter(|policy| *policy != Policy::synergy()) {
            let server = start(Config::default().preempt(preempt), policy);
            let mut longs: Vec<_> = (0..10).map(|gate| server.begin(&format!("spin {gate}"))).collect();
            for (gate, long) in longs.iter_mut().enumerate() {
                server.gates.open(gate);
                assert_eq!(long.line(), format!("ok spin {gate}"));
            }
            assert_eq!(server.stop().abandoned, 0);
        }
    }
}

/// The worker sees no event of its sockets: a timer is due, or another thread wakes the request.
#[test]
fn one_that_has_waited_passes_a_long_one() {
    for preempt in MECHANISMS.iter().copied() {
        for policy in policies() {
            let server = start(Config::default().preempt(preempt), policy.clone());
            // The worker reads all three at once, and does not sleep between their turns.
            let mut holding = server.begin("hold 0");
            let mut napping = server.connect();
            let mut dozing = server.connect();
            let mut long = server.connect();
            napping.send("nap 0\n");
            dozing.send("doze 1\n");
            long.send("spin 2\n");
            let before = server.gates.begun.load(Ordering::SeqCst);
            server.gates.open(0);
            assert_eq!(holding.line(), "ok hold 0");
            until("the long request runs", || server.gates.begun.load(Ordering::SeqCst) > before);
            assert_eq!(napping.line(), "ok nap 0", "{preempt} {policy}");
            server.gates.open(1);
            assert_eq!(dozing.line(), "ok doze 1", "{preempt} {policy}");
            server.gates.open(2);
            assert_eq!(long.line(), "ok spin 2");
            assert_eq!(server.stop().abandoned, 0);
        }
    }
}

/// The worker of the short requests is lent to a long one, and taken back for short ones that no worker has read. Half
/// of them came to the other worker, which does not yield and has left its port.
#[test]
fn darc_without_a_dispatcher_takes_back_what_it_lent() {
    for preempt in MECHANISMS.iter().copied() {
        let config = Config::default().workers(2).preempt(preempt);
        let server = start(config, Policy::darc_distributed());
        let mut shorts: Vec<Client> = (0..CLIENTS).map(|_| server.connect()).collect();
        for short in &mut shorts {
            assert_eq!(short.ask("short 1"), "ok short 1");
        }
        let turns_of = |worker: usize| server.handle.snapshot().workers[worker].turns.turns;
        let before = [0, 1].map(turns_of);
        let mut longs = vec![server.begin("spin 0")];
        let mut begin_another = || {
            let mut long = server.connect();
            long.send("spin 1\n");
            longs.push(long);
            std::thread::sleep(Duration::from_millis(5));
        };
        // The worker of the long ones reads nothing meanwhile. If it paused, it has begun several.
        until("both workers run a long request", || {
            begin_another();
            [0, 1].map(turns_of).iter().zip(before).all(|(&now, before)| now > before)
        });
        // The lent worker may be between two long ones when the short ones come.
        until("a long request yields to short ones", || {
            let before = server.preempted();
            for short in &mut shorts {
                short.send("short 2\n");
            }
            for short in &mut shorts {
                assert_eq!(short.line(), "ok short 2");
            }
            let yielded = server.preempted() > before;
            // A worker of long ones may have taken what the lent one ran.
            if !yielded {
                begin_another();
            }
            yielded
        });
        (0..2).for_each(|gate| server.gates.open(gate));
        for (number, long) in longs.iter_mut().enumerate() {
            assert_eq!(long.line(), format!("ok spin {}", number.min(1)));
        }
        assert_eq!(server.stop().abandoned, 0);
    }
}

#[test]
fn a_type_that_does_not_yield_is_not_asked() {
    let setup = Setup {
        policy: Policy::synergy(),
        topology: Topology::Distributed,
        ..Setup::of_long(TypeSpec::new("long").preempt(PreemptPolicy::None))
    };
    let server = start_with(Config::default(), setup);
    let mut long = server.begin("spin 0");
    let mut short = server.connect();
    short.send("short 0\n");
    std::thread::sleep(Duration::from_millis(20));
    let turns = &server.handle.snapshot().workers[0].turns;
    assert_eq!((turns.preemptions_asked, turns.preemptions_late), (0, 0));
    server.gates.open(0);
    assert_eq!(long.line(), "ok spin 0");
    assert_eq!(short.line(), "ok short 0");
}

#[test]
fn a_request_that_does_not_yield_is_late_once() {
    let config = Config::default().preempt_warn_ms(1);
    let server = start(config, Policy::synergy());
    let mut long = server.begin("block 0");
    let mut short = server.connect();
    short.send("short 0\n");
    let late = || server.handle.snapshot().workers[0].turns.preemptions_late;
    until("it is late", || late() > 0);
    std::thread::sleep(Duration::from_millis(5));
    assert_eq!(late(), 1);
    server.gates.open(0);
    assert_eq!(long.line(), "ok block 0");
    assert_eq!(short.line(), "ok short 0");
    let turns = &server.handle.snapshot().workers[0].turns;
    let counted = (turns.preemptions_asked, turns.preemptions_honoured);
    assert_eq!(counted, (1, 0), "it was over first");
}

#[test]
fn a_server_that_stops_while_requests_are_suspended_answers_them() {
    for preempt in MECHANISMS.iter().copied() {
        let config = Config::default().workers(2).preempt(preempt);
        // In turn, so that each begins: one that was preempted at once would wait for the end of another.
        let server = start(config, Synergy::default().wait_queue(false));
        let mut longs: Vec<_> = (0..6).map(|gate| server.begin(&format!("spin {gate}"))).collect();
        server.handle.shut_down();
        (0..6).for_each(|gate| server.gates.open(gate));
        for (gate, long) in longs.iter_mut().enumerate() {
            assert_eq!(long.rest(), format!("ok spin {gate}\n"));
        }
        assert_eq!(server.stop().abandoned, 0);
    }
}
