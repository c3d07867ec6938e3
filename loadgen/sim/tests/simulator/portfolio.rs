//! The portfolio finds the policy that a workload needs, in virtual time. `docs/portfolio.md` has the full figures.

use std::ops::ControlFlow;

use psp_policy::Policy;
use psp_sim::simulator::{Outcome, simulate};
use psp_sim::tournament::{Cell, Extent, Search};

use crate::worst::worst_of;

/// Mix 14 of the tournament on 6 workers, where types of up to 20 us are beside one of 6 ms.
const LATE: Cell = Cell {
    mix: 14,
    workers: 6,
    slowdown: 10.0,
    preempt_ns: 2_000,
    migrates: false,
};
/// Mix 1 on 32 workers, which are mostly idle but for bursts of a long type.
const BURSTS: Cell = Cell {
    mix: 1,
    workers: 32,
    slowdown: 20.0,
    preempt_ns: 2_000,
    migrates: false,
};

fn run(cell: Cell, policy: &str, load: f64, requests: u64) -> Outcome {
    let policy: Policy = policy.parse().unwrap();
    let extent = Extent { requests, relative_tolerance: 0.01 };
    let mut plan = Search::new(cell, 1, policy).plan(extent);
    plan.load = load;
    simulate(&plan, &mut |_| ControlFlow::Continue(())).unwrap()
}

/// The largest slowdown that a type has at p99.9, in parts of what it may be.
fn worst(cell: Cell, policy: &str, load: f64, requests: u64) -> f64 {
    let outcome = run(cell, policy, load, requests);
    assert_eq!(outcome.completed, outcome.arrived, "{policy}");
    worst_of(&outcome) / cell.slowdown
}

#[test]
fn where_lending_is_late_it_chooses_a_policy_that_is_not() {
    let worst = |policy| worst(LATE, policy, 0.55, 30_000);
    assert!(worst("darc-lending") > 2.0);
    assert!(worst("darc delta=4") < 1.0);
    assert!(worst("portfolio") < 1.0);
}

/// Until the burst all candidates are level.
#[test]
fn it_chooses_what_sustains_a_burst_before_there_is_one() {
    let worst = |policy| worst(BURSTS, policy, 0.86, 60_000);
    assert!(worst("darc-lending") > 1.5);
    assert!(worst("darc-lending darc.delta=4") < 0.5);
    assert!(worst("portfolio") < 0.5);
}
