//! How many workers a load needs: the fewest that keep the tail of each type's latency near that of the most workers.

use std::ops::ControlFlow;

use crate::simulator::{Outcome, SimError, SimPlan, simulate};

/// The tail that a number of workers must keep.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TailGoal {
    /// The quantile of the latency: 0.99 for p99.
    pub quantile: f64,
    /// The most that it may be, in multiples of what it is with the most workers.
    pub factor: f64,
}

impl TailGoal {
    /// How many times the most workers' latency the type with the worst ratio has.
    #[must_use]
    pub fn worst_ratio(&self, outcome: &Outcome, most: &Outcome) -> f64 {
        let types = outcome.types.iter().zip(&most.types);
        let ratios = types.map(|(ty, most)| {
            let [ours, least] = [ty, most].map(|ty| ty.latency_ns.value_at_quantile(self.quantile) as f64);
            ours / least.max(1.0)
        });
        ratios.fold(0.0, f64::max)
    }
}

/// The fewest workers that keep `goal` at the rate of `plan`, whose workers are the most.
///
/// A queueing system needs more workers than it keeps busy, and the more so the better its tail shall be. So this
/// number, and not the utilisation, is what a load needs.
///
/// # Errors
///
/// [`SimError`].
pub fn workers_needed(plan: &SimPlan, goal: &TailGoal) -> Result<usize, SimError> {
    let run = |workers: usize| {
        let plan = SimPlan {
            workers,
            load: plan.load * plan.workers as f64 / workers as f64,
            ..plan.clone()
        };
        simulate(&plan, &mut |_| ControlFlow::Continue(()))
    };
    let busy = plan.load * plan.workers as f64;
    let most = run(plan.workers)?;
    for workers in 1..plan.workers {
        if workers as f64 > busy && goal.worst_ratio(&run(workers)?, &most) <= goal.factor {
            return Ok(workers);
        }
    }
    Ok(plan.workers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Workload;
    use psp_policy::Policy;

    #[test]
    fn a_load_needs_more_workers_than_it_keeps_busy_and_fewer_for_a_worse_tail() {
        let needed = |load: f64, factor: f64| {
            let workload = Workload::named("exponential").unwrap();
            let plan = SimPlan::new(workload, Policy::c_fcfs(), 8, load).requests(40_000);
            let goal = TailGoal { quantile: 0.99, factor };
            workers_needed(&plan, &goal).unwrap()
        };
        // Two workers' work, of eight.
        assert!((3..6).contains(&needed(0.25, 1.5)));
        assert!(needed(0.25, 10.0) < needed(0.25, 1.1));
        assert!(needed(0.05, 1.5) < needed(0.5, 1.5));
        assert_eq!(needed(0.97, 1.05), 8);
    }
}
