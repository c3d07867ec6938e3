//! Servers behind a load balancer.

use std::ops::ControlFlow;

use proptest::prelude::*;
use psp_policy::Policy;
use psp_sim::simulator::{Cluster, Outcome, SimError, SimPlan, SimPolicy, Spread, simulate};
use psp_sim::workload::Workload;

const SPREADS: [Spread; 3] = [Spread::Jsq, Spread::TwoChoices, Spread::Random];

fn plan(policy: impl Into<SimPolicy>, load: f64, cluster: Cluster) -> SimPlan {
    let workload = Workload::named("high-bimodal").unwrap();
    let mut plan = SimPlan::new(workload, policy, 4, load).requests(100_000);
    plan.cluster = cluster;
    plan.hints = true;
    plan
}

fn run(plan: &SimPlan) -> Outcome {
    simulate(plan, &mut |_| ControlFlow::Continue(())).unwrap()
}

fn eight(spread: Spread, feedback_delay_ns: u64) -> Cluster {
    Cluster { servers: 8, spread, feedback_delay_ns }
}

fn p99(policy: Policy, cluster: Cluster) -> f64 {
    run(&plan(policy, 0.7, cluster)).worst_slowdown(0.99)
}

#[test]
fn what_knows_more_spreads_better() {
    for policy in [Policy::c_fcfs(), Policy::darc()] {
        let p99s = SPREADS.map(|spread| p99(policy.clone(), eight(spread, 0)));
        assert!(p99s.is_sorted(), "{}: {p99s:?}", policy.name());
        // Scheduling within the servers does not make up for chance between them.
        assert!(p99s[2] > 1.2 * p99s[0], "{}: {p99s:?}", policy.name());
    }
}

#[test]
fn late_feedback_makes_the_shortest_queue_the_longest() {
    let [at_once, late, too_late] =
        [0, 10_000, 1_000_000].map(|delay_ns| p99(Policy::c_fcfs(), eight(Spread::Jsq, delay_ns)));
    let random = p99(Policy::c_fcfs(), eight(Spread::Random, 0));
    assert!(at_once < late && late < too_late, "{at_once} {late} {too_late}");
    // All requests of the delay go to the same server.
    assert!(too_late > random, "{too_late} {random}");
    // Two choices do not follow each other so closely.
    let two_choices = p99(Policy::c_fcfs(), eight(Spread::TwoChoices, 1_000_000));
    assert!(two_choices < too_late, "{two_choices} {too_late}");
}

#[test]
fn requests_arrive_for_all_servers_and_all_servers_serve() {
    for spread in SPREADS {
        let outcome = run(&plan(Policy::c_fcfs(), 0.7, eight(spread, 5_000)));
        let alone = run(&plan(Policy::c_fcfs(), 0.7, Cluster::default()));
        assert!((outcome.offered_rps / alone.offered_rps - 8.0).abs() < 1e-6);
        assert!((outcome.utilization - 0.7).abs() < 0.02, "{outcome:?}");
        assert_eq!(outcome.worker_utilization.len(), 32);
        assert!((outcome.workers_mean - 32.0).abs() < 1e-9);
        let servers = outcome.worker_utilization.chunks(4);
        let means: Vec<f64> = servers.map(|server| server.iter().sum::<f64>() / 4.0).collect();
        let even = means.iter().all(|mean| (0.65..0.75).contains(mean));
        assert!(even, "{spread}: {means:?}");
    }
}

#[test]
fn one_server_behind_a_balancer_is_one_server() {
    let alone = run(&plan(Policy::darc(), 0.8, Cluster::default()));
    for spread in SPREADS {
        let cluster = Cluster { servers: 1, spread, feedback_delay_ns: 7_000 };
        assert_eq!(run(&plan(Policy::darc(), 0.8, cluster)), alone);
    }
}

#[test]
fn ideals_are_one_server() {
    for ideal in [SimPolicy::Ps, SimPolicy::Srpt] {
        let plan = plan(ideal, 0.5, eight(Spread::Jsq, 0));
        assert!(matches!(plan.validate(), Err(SimError::Cluster(_))));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever runs within the servers and between them: each request leaves once, and no sooner than it can.
    #[test]
    fn nothing_is_lost(
        policy in proptest::sample::select(&Policy::NAMES),
        spread in proptest::sample::select(&SPREADS[..]),
        servers in 1_usize..9,
        workers in 1_usize..5,
        feedback_delay_ns in prop_oneof![Just(0), 1_u64..1_000_000],
        load in 0.1..2.5,
        queue_capacity in 1_usize..50,
        seed: u64,
    ) {
        let policy: SimPolicy = policy.parse().unwrap();
        let cluster = Cluster { servers, spread, feedback_delay_ns };
        let mut plan = plan(policy, load, cluster).requests(2_000);
        plan.workers = workers;
        plan.queue_capacity = queue_capacity;
        plan.preemption = true;
        plan.seed = seed;
        plan.each = true;
        if plan.validate().is_err() {
            // A policy that needs more workers.
            return Ok(());
        }
        let outcome = run(&plan);
        prop_assert_eq!(outcome.arrived, 2_000);
        prop_assert_eq!(outcome.completed + outcome.rejected, 2_000);
        prop_assert_eq!(outcome.each.len() as u64, outcome.completed);
        prop_assert!(outcome.types.iter().all(|ty| ty.completed == 0 || ty.slowdown.at(0.0) >= 1.0));
        prop_assert_eq!(run(&plan), outcome);
    }
}
