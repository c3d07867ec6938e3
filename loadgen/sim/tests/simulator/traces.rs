//! Traces of simulations: in order, and with the figures of the outcome.

use std::ops::ControlFlow;

use psp_sim::simulator::{Outcome, SimError, SimPlan, SimPolicy, TraceWindow, simulate};
use psp_sim::workload::Workload;
use psp_trace::{Checked, check};

/// Longer than the simulations of these tests.
const ALL: TraceWindow = TraceWindow { from_ns: 0, length_ns: u64::MAX };

fn plan(policy: &str, trace: TraceWindow) -> SimPlan {
    let workload = Workload::named("high-bimodal").unwrap();
    let policy: SimPolicy = policy.parse().unwrap();
    let mut plan = SimPlan::new(workload, policy, 4, 0.8).requests(5_000);
    plan.warmup = 0;
    plan.preemption = true;
    plan.trace = Some(trace);
    plan
}

fn run(plan: &SimPlan) -> (Outcome, Checked) {
    let outcome = simulate(plan, &mut |_| ControlFlow::Continue(())).unwrap();
    let mut text = Vec::new();
    outcome.trace.as_ref().unwrap().write(plan, &mut text).unwrap();
    let checked = check(&String::from_utf8(text).unwrap());
    (outcome, checked.unwrap_or_else(|error| panic!("{error}")))
}

#[test]
fn a_trace_of_all_has_what_the_outcome_counts_under_every_policy() {
    for name in SimPolicy::names().filter(|name| !["ps", "srpt"].contains(name)) {
        let mut plan = plan(name, ALL);
        plan.queue_capacity = 16;
        plan.costs.steal_ns = 300;
        plan.costs.preempt_ns = 200;
        plan.costs.channel_ns = 100;
        let (outcome, checked) = run(&plan);
        let expected = Checked {
            workers: 4,
            turns: (outcome.completed + outcome.preemptions) as usize,
            requests: 5_000,
            replied: outcome.completed as usize,
            refused: outcome.rejected as usize,
            gave_way: outcome.preemptions as usize,
            stolen: outcome.steals as usize,
            preemptions: checked.preemptions,
            ..Checked::default()
        };
        assert_eq!(checked, expected, "{name}");
        assert!(checked.preemptions >= checked.gave_way, "{name}");
    }
}

#[test]
fn requests_wait_without_a_worker_in_a_trace() {
    let mut plan = plan("c-fcfs", ALL);
    for ty in &mut plan.workload.types {
        ty.wait_ns = 20_000;
    }
    let (outcome, checked) = run(&plan);
    assert_eq!(checked.waits, 5_000);
    assert_eq!(checked.replied as u64, outcome.completed);
}

#[test]
fn a_window_cuts_what_is_around_it() {
    let window = TraceWindow { from_ns: 10_000_000, length_ns: 1_000_000 };
    let mut plan = plan("mq", window);
    plan.warmup = 500;
    let (_, checked) = run(&plan);
    let per_ms = plan.offered_rps() / 1e3;
    let requests = checked.requests as f64;
    assert!(requests > per_ms * 0.5 && requests < per_ms * 2.0, "{checked}");
    assert!(checked.unfinished > 0, "the load is high: some are cut");
}

#[test]
fn the_ideals_have_no_turns_to_tell_of() {
    for name in ["ps", "srpt"] {
        let plan = plan(name, ALL);
        let refused = simulate(&plan, &mut |_| ControlFlow::Continue(())).unwrap_err();
        assert!(matches!(refused, SimError::Trace(_)), "{refused}");
        assert!(refused.to_string().starts_with(name));
    }
}
