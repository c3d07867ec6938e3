//! DARC with lending beside other policies, in virtual time: 14 workers, and 0.7 us from the decision
//! to preempt to the freed worker, for every policy. `docs/lending.md` has the full figures. These
//! tests use loads at which the policies differ by a wide margin.

use std::ops::ControlFlow;

use psp_policy::Policy;
use psp_sim::simulator::{ClassifierModel, Costs, Outcome, SimPlan, simulate};
use psp_sim::workload::Workload;

use crate::worst::worst_of;

const WORKERS: usize = 14;
const PREEMPT_NS: u64 = 700;
const P999: f64 = 0.999;
const SLO_SLOWDOWN: f64 = 10.0;

fn plan(workload: &str, policy: Policy, load: f64, requests: u64) -> SimPlan {
    let workload = Workload::named(workload).unwrap();
    let mut plan = SimPlan::new(workload, policy, WORKERS, load).requests(requests);
    plan.costs = Costs { preempt_ns: PREEMPT_NS, ..Costs::default() };
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

#[test]
fn it_keeps_the_slo_where_darc_and_fixed_priority_break_it() {
    for (workload, load) in [("high-bimodal", 0.945), ("rocksdb", 0.945), ("tpcc", 0.93)] {
        let [lending, darc] =
            [Policy::darc_lending(), Policy::darc()].map(|policy| worst(workload, policy, load, 120_000));
        assert!(lending <= SLO_SLOWDOWN, "{workload}: {lending}");
        assert!(darc > SLO_SLOWDOWN, "{workload}: {darc}");
    }
    let [lending, priority] =
        [Policy::darc_lending(), Policy::fixed_priority()].map(|policy| worst("high-bimodal", policy, 0.6, 60_000));
    assert!(lending <= SLO_SLOWDOWN, "{lending}");
    assert!(priority > SLO_SLOWDOWN, "{priority}");
}

#[test]
fn it_keeps_the_slo_where_most_requests_are_short() {
    for workload in ["extreme-bimodal", "zippydb"] {
        let [lending, darc] =
            [Policy::darc_lending(), Policy::darc()].map(|policy| worst(workload, policy, 0.93, 400_000));
        assert!(lending <= SLO_SLOWDOWN, "{workload}: {lending}");
        assert!(darc > SLO_SLOWDOWN, "{workload}: {darc}");
    }
}

#[test]
fn shorts_are_served_at_once_while_there_are_workers_to_spare() {
    for policy in [Policy::darc_lending(), Policy::darc()] {
        let name = policy.to_string();
        let outcome = run(&plan("high-bimodal", policy, 0.5, 60_000));
        let short = &outcome.types[0].slowdown;
        assert!(short.at(0.99) <= 1.05, "{name}: {}", short.at(0.99));
        assert!(short.at(P999) <= 2.0, "{name}: {}", short.at(P999));
    }
}

#[test]
fn a_widely_spread_type_keeps_the_slo_that_c_fcfs_breaks() {
    let [lending, c_fcfs] =
        [Policy::darc_lending(), Policy::c_fcfs()].map(|policy| worst("lognormal", policy, 0.5, 300_000));
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
            let of_type =
                |ty: &psp_sim::simulator::TypeOutcome| [0.5, 0.99, P999, 1.0].map(|quantile| ty.slowdown.at(quantile));
            outcome.types.iter().map(of_type).collect::<Vec<_>>()
        };
        assert_eq!(latencies(Policy::darc_lending()), latencies(Policy::darc()), "{workload}");
    }
}

/// The worst slowdowns of lending and of DARC when a preemption costs 5 us.
fn worst_with_dear_preemption(workload: &str, load: f64) -> [f64; 2] {
    [Policy::darc_lending(), Policy::darc()].map(|policy| {
        let mut plan = plan(workload, policy, load, 150_000);
        plan.costs.preempt_ns = 5_000;
        worst_of(&run(&plan))
    })
}

#[test]
fn a_dear_preemption_breaks_no_slo_that_darc_keeps() {
    for (workload, load) in [("high-bimodal", 0.89), ("trimodal", 0.88), ("lognormal", 0.38)] {
        let [lending, darc] = worst_with_dear_preemption(workload, load);
        assert!(darc <= SLO_SLOWDOWN, "{workload}: {darc}");
        assert!(lending <= SLO_SLOWDOWN, "{workload}: {lending}");
    }
}

#[test]
fn where_a_dear_preemption_does_not_pay_darc_remains() {
    for (workload, load) in [("extreme-bimodal", 0.7), ("exponential", 0.5)] {
        let [lending, darc] = worst_with_dear_preemption(workload, load);
        assert_eq!(lending, darc, "{workload}");
    }
}

#[test]
fn a_random_classifier_costs_it_less_than_half_of_what_it_costs_darc() {
    let [lending, darc] = [Policy::darc_lending(), Policy::darc()].map(|policy| {
        let mut plan = plan("high-bimodal", policy, 0.7, 120_000);
        plan.classifier = ClassifierModel::Random;
        // The first window shows that types say nothing about service times, and how far service times vary.
        plan.warmup = 60_000;
        worst_of(&run(&plan))
    });
    assert!(2.0 * lending < darc, "{lending} against {darc}");
}
