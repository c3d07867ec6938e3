//! The portfolio finds the policy that a workload needs, in virtual time. `docs/portfolio.md` has the full figures.

use std::ops::ControlFlow;

use psp_policy::Policy;
use psp_sim::simulator::{Outcome, simulate};
use psp_sim::tournament::{Cell, Extent, Search};

use crate::worst::worst_of;

const SLOWDOWN: f64 = 10.0;

/// Mix 14 of the tournament on 6 workers, where types of up to 20 us are beside one of 6 ms.
fn run(policy: &str, load: f64) -> Outcome {
    let cell = Cell {
        mix: 14,
        workers: 6,
        slowdown: SLOWDOWN,
        preempt_ns: 2_000,
        migrates: false,
    };
    let policy: Policy = policy.parse().unwrap();
    let extent = Extent {
        requests: 30_000,
        tolerance: 0.01,
    };
    let mut plan = Search::new(cell, 1, policy).plan(extent);
    plan.load = load;
    simulate(&plan, &mut |_| ControlFlow::Continue(())).unwrap()
}

/// The largest slowdown that a type has at p99.9.
fn worst(policy: &str, load: f64) -> f64 {
    let outcome = run(policy, load);
    assert_eq!(outcome.completed, outcome.arrived, "{policy}");
    worst_of(&outcome)
}

#[test]
fn where_lending_is_late_it_chooses_a_policy_that_is_not() {
    assert!(worst("darc-lending", 0.55) > 2.0 * SLOWDOWN);
    assert!(worst("darc delta=4", 0.55) < SLOWDOWN);
    assert!(worst("portfolio", 0.55) < SLOWDOWN);
}
