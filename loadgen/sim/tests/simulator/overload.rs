//! Overload with and without admission.

use std::ops::ControlFlow;

use psp_policy::Policy;
use psp_sim::experiment::{Scope, Slo, Tolerance, capacity};
use psp_sim::simulator::{Outcome, SimPlan, simulate};
use psp_sim::workload::Workload;

const WORKERS: usize = 14;

fn plan(workload: &str, policy: &str, load: f64) -> SimPlan {
    let workload = Workload::named(workload).unwrap();
    let policy: Policy = policy.parse().unwrap();
    let mut plan = SimPlan::new(workload, policy, WORKERS, load).requests(100_000);
    plan.preemption = true;
    plan.hints = true;
    plan.queue_capacity = 1024;
    plan
}

fn admitting(mut plan: SimPlan) -> SimPlan {
    plan.overload = plan.overload.admitting();
    plan
}

fn run(plan: &SimPlan) -> Outcome {
    simulate(plan, &mut |_| ControlFlow::Continue(())).unwrap()
}

#[test]
#[ignore = "figures"]
fn study() {
    let workloads = std::env::var("W").unwrap_or("high-bimodal,extreme-bimodal".into());
    let policies = std::env::var("P").unwrap_or("c-fcfs,darc,sq".into());
    let requests = std::env::var("N").map_or(100_000, |n| n.parse().unwrap());
    for workload in workloads.split(',') {
        for policy in policies.split(',') {
            let slo = Slo { slowdown: 10.0, percentile: 99.9, scope: Scope::PerType };
            let base = plan(workload, policy, 1.0).requests(requests);
            let cap = capacity(&base, &slo, Tolerance::Absolute(0.02), &mut |_| ControlFlow::Continue(())).unwrap();
            println!("{workload} {policy}: capacity {:.2}", cap.load);
            for load in [0.8, 1.2, 2.0, 3.0] {
                let plan = SimPlan { load, ..base.clone() };
                let without = run(&plan);
                let with = run(&admitting(plan));
                let types = with.types.iter().map(|ty| {
                    let offered = (ty.completed + ty.dropped + ty.rejected + ty.refused.iter().sum::<u64>()) as f64;
                    format!(
                        "{} good {:.3} in time {:.2} of {:.2} p99 {:.1} refused {:?} dropped {}",
                        ty.name,
                        ty.goodput,
                        ty.in_time as f64 / offered,
                        ty.completed as f64 / offered,
                        ty.slowdown.at(0.99),
                        ty.refused,
                        ty.dropped
                    )
                });
                let types: Vec<_> = types.collect();
                println!(
                    "  {load}: without {:.3} with {:.3} util {:.3} | {}",
                    without.goodput,
                    with.goodput,
                    with.utilization,
                    types.join(" | ")
                );
            }
        }
    }
}
