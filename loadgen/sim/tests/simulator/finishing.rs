//! Sparing requests that are about to finish pays, in virtual time: 14 workers, 10 us for a
//! preemption, requests that resume on their home worker. `docs/policies.md` has the rule.

use std::ops::ControlFlow;

use psp_policy::{DarcLending, Mq, Policy, Sq};
use psp_sim::simulator::{Costs, Outcome, SimPlan, simulate};
use psp_sim::workload::Workload;

use crate::worst::worst_of;

fn run(workload: &str, policy: Policy, load: f64) -> Outcome {
    let workload = Workload::named(workload).unwrap();
    let mut plan = SimPlan::new(workload, policy, 14, load).requests(120_000);
    plan.costs = Costs { preempt_ns: 10_000, ..Costs::default() };
    plan.preemption = true;
    plan.migrates = false;
    plan.contexts = Some(32);
    plan.hints = true;
    let outcome = simulate(&plan, &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(outcome.rejected, 0);
    outcome
}

/// Each policy without sparing, and with the sparing of live servers.
fn policies() -> [[Policy; 2]; 2] {
    [
        [Sq::default().spare_finishing(false).into(), Sq::default().into()],
        [Mq::default().spare_finishing(false).into(), Mq::default().into()],
    ]
}

/// TPC-C's requests of 5.7 and 6 us end shortly after their quantum of 5 us.
#[test]
fn it_pays_where_quanta_end_shortly_before_requests_do() {
    for pair in policies() {
        let name = pair[0].name().to_owned();
        let [without, with] = pair.map(|policy| run("tpcc", policy, 0.5));
        let [often, seldom] = [&without, &with].map(|outcome| outcome.preemptions);
        assert!(2 * seldom < often, "{name}: {seldom} of {often}");
        let [without, with] = [&without, &with].map(worst_of);
        assert!(2.0 * with < without, "{name}: {with} of {without}");
    }
}

#[test]
fn it_does_no_harm_where_requests_have_many_quanta() {
    let lending = [DarcLending::default().spare_finishing(false).into(), DarcLending::default().into()];
    for (pair, load) in policies().into_iter().zip([0.38; 2]).chain([(lending, 0.85)]) {
        let name = pair[0].name().to_owned();
        let [without, with] = pair.map(|policy| worst_of(&run("high-bimodal", policy, load)));
        assert!(with < 1.1 * without, "{name}: {with} of {without}");
    }
}
