//! Requests that wait without their workers.

use std::ops::ControlFlow;

use psp_policy::Policy;
use psp_sim::simulator::{Outcome, SimError, SimPlan, SimPolicy, simulate};
use psp_sim::workload::{Distribution, Workload, WorkloadType};

const SERVICE_NS: u64 = 10_000;
const WAIT_NS: u64 = 1_000_000;

/// All requests take 10 us of service in the mean, and wait this long after half of it.
fn waiting(wait_ns: u64) -> Workload {
    let ty = WorkloadType {
        name: "A".to_owned(),
        share: 1.0,
        service_ns: SERVICE_NS,
        distribution: Distribution::Exponential,
        wait_ns,
        slo_ns: None,
        weight: None,
    };
    Workload::of_types("waiting", vec![ty])
}

fn plan(policy: impl Into<SimPolicy>, workers: usize, load: f64, wait_ns: u64) -> SimPlan {
    SimPlan::new(waiting(wait_ns), policy, workers, load).requests(300_000)
}

fn run(plan: &SimPlan) -> Outcome {
    simulate(plan, &mut |_| ControlFlow::Continue(())).unwrap()
}

/// Mean time in the system beside the service and the wait, as a multiple of the service time.
fn queueing(outcome: &Outcome, wait_ns: u64) -> f64 {
    let latency_ns = outcome.types[0].latency_ns.mean();
    (latency_ns - wait_ns as f64) / SERVICE_NS as f64 - 1.0
}

/// If they kept their workers, they would need 91 times what there is.
#[test]
fn who_waits_takes_nothing_from_throughput() {
    for policy in [Policy::c_fcfs(), Policy::darc(), Policy::mq(), Policy::stealing(), Policy::synergy()] {
        for migrates in [true, false] {
            let name = format!("{policy}, migrates: {migrates}");
            let mut plan = plan(policy.clone(), 4, 0.9, WAIT_NS);
            plan.migrates = migrates;
            plan.preemption = true;
            let outcome = run(&plan);
            assert_eq!((outcome.completed, outcome.rejected), (300_000, 0), "{name}");
            let error = outcome.utilization / 0.9 - 1.0;
            assert!(error.abs() < 0.02, "{name}: {}", outcome.utilization);
            let least_ns = outcome.types[0].latency_ns.min();
            assert!(least_ns >= WAIT_NS * 99 / 100, "{name}: {least_ns}");
        }
    }
}

/// On one worker they queue twice, each time for half of the service. Those that resume go first; Cobham's
/// formula gives them and the others together as much queueing as M/M/1 has. The formula is for requests
/// that resume at random times.
#[test]
fn two_halves_queue_as_long_as_one_whole() {
    let load = 0.6;
    let exact = load / (1.0 - load);
    for wait_ns in [0, 10 * WAIT_NS] {
        let outcome = run(&plan(Policy::c_fcfs(), 1, load, wait_ns));
        let queued = queueing(&outcome, wait_ns);
        let error = queued / exact - 1.0;
        assert!(error.abs() < 0.1, "{wait_ns} ns: {queued}, exactly {exact}");
    }
}

#[test]
fn the_wait_is_no_slowdown() {
    let mut plan = plan(Policy::c_fcfs(), 4, 0.01, WAIT_NS);
    plan.workload.types[0].distribution = Distribution::Fixed;
    let outcome = run(&plan);
    let least_ns = outcome.types[0].latency_ns.min();
    assert!((1_009_000..=1_010_000).contains(&least_ns), "{least_ns}");
    let slowdown = outcome.overall.at(0.99);
    assert!((1.0..1.02).contains(&slowdown), "{slowdown}");
}

/// Two workers, each with room for 50 requests: 100 of them fit into a wait and their service.
#[test]
fn contexts_bound_what_waits() {
    let run_with = |contexts| {
        let mut plan = plan(Policy::darc(), 2, 0.9, WAIT_NS);
        plan.workload.types[0].distribution = Distribution::Fixed;
        plan.migrates = false;
        plan.contexts = contexts;
        let outcome = run(&plan);
        (outcome.completed, outcome.utilization)
    };
    let (_, unbounded) = run_with(None);
    assert!(unbounded > 0.88, "{unbounded}");
    let (completed, bounded) = run_with(Some(50));
    let most = 50.0 * SERVICE_NS as f64 / WAIT_NS as f64;
    assert!(bounded < most && bounded > 0.9 * most, "{bounded} of {most}");
    assert!(completed > 100_000, "{completed}");
}

#[test]
fn phases_change_waits_and_ideals_know_none() {
    let text = "
        [[type]]
        name = \"A\"
        share = 1.0
        service_us = 10.0
        wait_us = 50.0
        [[phase]]
        requests = 1000
        [[phase]]
        [[phase.type]]
        name = \"A\"
        wait_us = 0.0
    ";
    let workload = Workload::from_toml("file", text).unwrap();
    assert_eq!(workload.types[0].wait_ns, 50_000);
    let waits = workload.phases.iter().map(|phase| phase.types[0].wait_ns);
    assert_eq!(waits.collect::<Vec<_>>(), [50_000, 0]);
    assert_eq!(workload.dilated(10).unwrap().types[0].wait_ns, 500_000);
    let plan = SimPlan::new(workload, SimPolicy::Ps, 2, 0.5);
    let refused = simulate(&plan, &mut |_| ControlFlow::Continue(())).unwrap_err();
    assert!(matches!(refused, SimError::Waits(_)), "{refused}");
}
