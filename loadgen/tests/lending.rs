//! DARC with lending against the others, in virtual time: 14 workers, and 0.7 us from the decision
//! to preempt to the freed worker, for all alike. The full figures are in `docs/lending.md`; here
//! are loads at which the policies differ by a wide margin.

use std::ops::ControlFlow;

use psp_loadgen::sim::{ClassifierModel, Costs, Outcome, SimPlan, simulate};
use psp_loadgen::workload::Workload;
use psp_server::Policy;

const WORKERS: usize = 14;
const PREEMPT_NS: u64 = 700;
const P999: f64 = 0.999;
const SLO_SLOWDOWN: f64 = 10.0;

fn plan(workload: &str, policy: Policy, load: f64, requests: u64) -> SimPlan {
    let workload = Workload::named(workload).unwrap();
    let mut plan = SimPlan::new(workload, policy, WORKERS, load).requests(requests);
    plan.costs = Costs {
        preempt_ns: PREEMPT_NS,
        ..Costs::default()
    };
    plan.preemption = true;
    plan.hints = true;
    plan
}

fn run(plan: &SimPlan) -> Outcome {
    simulate(plan, &mut |_| ControlFlow::Continue(())).unwrap()
}

/// The largest slowdown that a type has at p99.9.
fn worst(workload: &str, policy: Policy, load: f64, requests: u64) -> f64 {
    worst_of(&run(&plan(workload, policy, load, requests)))
}

fn worst_of(outcome: &Outcome) -> f64 {
    assert_eq!(outcome.rejected, 0);
    let types = outcome.types.iter();
    types.map(|ty| ty.slowdown.at(P999)).fold(0.0, f64::max)
}

#[test]
fn it_keeps_the_slo_where_darc_and_fixed_priority_break_it() {
    for (workload, load) in [("high-bimodal", 0.945), ("rocksdb", 0.945), ("tpcc", 0.93)] {
        let [lending, darc] = [Policy::darc_lending(), Policy::darc()]
            .map(|policy| worst(workload, policy, load, 120_000));
        assert!(lending <= SLO_SLOWDOWN, "{workload}: {lending}");
        assert!(darc > SLO_SLOWDOWN, "{workload}: {darc}");
    }
    let priority = worst("high-bimodal", Policy::fixed_priority(), 0.6, 60_000);
    assert!(priority > SLO_SLOWDOWN, "{priority}");
}

#[test]
fn it_keeps_the_slo_where_most_requests_are_short() {
    for workload in ["extreme-bimodal", "zippydb"] {
        let [lending, darc] = [Policy::darc_lending(), Policy::darc()]
            .map(|policy| worst(workload, policy, 0.93, 400_000));
        assert!(lending <= SLO_SLOWDOWN, "{workload}: {lending}");
        assert!(darc > SLO_SLOWDOWN, "{workload}: {darc}");
    }
}

#[test]
fn shorts_are_served_at_once_while_there_are_workers_to_spare() {
    let [lending, darc] = [Policy::darc_lending(), Policy::darc()]
        .map(|policy| run(&plan("high-bimodal", policy, 0.5, 60_000)));
    let [lending, darc] = [&lending, &darc].map(|outcome| outcome.types[0].slowdown.at(0.99));
    assert!(lending <= 1.1 * darc, "{lending} against {darc}");
}

#[test]
fn a_single_type_that_is_widely_spread_gets_more_than_from_c_fcfs() {
    let [lending, c_fcfs] = [Policy::darc_lending(), Policy::c_fcfs()]
        .map(|policy| worst("lognormal", policy, 0.5, 300_000));
    assert!(lending <= SLO_SLOWDOWN, "{lending}");
    assert!(c_fcfs > 1.5 * SLO_SLOWDOWN, "{c_fcfs}");
}

#[test]
fn without_preemption_the_outcome_is_that_of_darc() {
    for workload in ["high-bimodal", "tpcc", "lognormal"] {
        let latencies = |policy| {
            let mut plan = plan(workload, policy, 0.85, 60_000);
            plan.preemption = false;
            let outcome = run(&plan);
            let of_type = |ty: &psp_loadgen::sim::TypeOutcome| {
                [0.5, 0.99, P999, 1.0].map(|quantile| ty.slowdown.at(quantile))
            };
            outcome.types.iter().map(of_type).collect::<Vec<_>>()
        };
        assert_eq!(
            latencies(Policy::darc_lending()),
            latencies(Policy::darc()),
            "{workload}"
        );
    }
}

#[test]
fn a_dear_preemption_does_not_make_it_worse_than_darc() {
    for (workload, load) in [
        ("extreme-bimodal", 0.7),
        ("high-bimodal", 0.89),
        ("lognormal", 0.38),
    ] {
        let [lending, darc] = [Policy::darc_lending(), Policy::darc()].map(|policy| {
            let mut plan = plan(workload, policy, load, 150_000);
            plan.costs.preempt_ns = 5_000;
            worst_of(&run(&plan))
        });
        let limit = SLO_SLOWDOWN.max(1.1 * darc);
        assert!(lending <= limit, "{workload}: {lending} against {darc}");
    }
}

#[test]
fn it_survives_a_random_classifier_better_than_darc() {
    let [lending, darc] = [Policy::darc_lending(), Policy::darc()].map(|policy| {
        let mut plan = plan("high-bimodal", policy, 0.7, 120_000);
        plan.classifier = ClassifierModel::Random;
        // Its first window shows that the types say nothing, and how widely they are spread.
        plan.warmup = 60_000;
        worst_of(&run(&plan))
    });
    assert!(2.0 * lending < darc, "{lending} against {darc}");
}
