//! SLOs of types from what each takes when it runs alone (Shinjuku 3.4).
//!
//! Shinjuku's multi queue weighs each type's waiting time by an SLO that the user sets: "we set it by running each
//! request type individually using the single queue policy and use the observed 99% latency. This captures the
//! requirement that the performance of a request type should not be affected by the existence of requests with
//! different service time distributions."
//!
//! The paper does not say at which rate. Here a type alone has the rate that it has in the mix, on all workers.

use std::ops::ControlFlow;

use super::capacity::CapacityError;
use crate::simulator::{SimPlan, simulate};
use crate::workload::{Workload, service_ns_mean};

/// A type that ran alone.
#[derive(Debug, Clone, PartialEq)]
pub struct Isolated {
    /// Its name.
    pub name: String,
    /// The part of the workers' time that its service takes: its part of the plan's load.
    pub load: f64,
    /// Its mean service time in nanoseconds.
    pub service_ns: u64,
    /// Percentile of its time from arrival to completion, in nanoseconds. `None` if the type has no requests in the
    /// mix, or some of them found the queue full.
    pub latency_ns: Option<u64>,
}

/// The plan with the type at `index` alone, at its rate in the mix. Phases are left out: it is the types as the
/// workload has them outside its phases.
#[must_use]
pub fn isolated_plan(plan: &SimPlan, index: usize) -> SimPlan {
    let Workload { types, arrivals, .. } = &plan.workload;
    let mut alone = types[index].clone();
    let part = alone.share * alone.service_ns as f64 / service_ns_mean(types);
    alone.share = 1.0;
    alone.slo_ns = None;
    let mut workload = Workload::of_types(plan.workload.name.clone(), vec![alone]);
    workload.arrivals = *arrivals;
    SimPlan { workload, load: plan.load * part, ..plan.clone() }
}

/// Simulates each type of the plan alone, under the plan's policy, and takes the `quantile` of its latency: 0.99 for
/// p99.
///
/// `progress` gets the number of arrivals simulated so far, of all types. It may stop the work.
///
/// # Errors
///
/// [`CapacityError`].
pub fn isolated(
    plan: &SimPlan,
    quantile: f64,
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<Vec<Isolated>, CapacityError> {
    let mut before = 0;
    let mut all = Vec::new();
    for (index, ty) in plan.workload.types.iter().enumerate() {
        let alone = isolated_plan(plan, index);
        let mut latency_ns = None;
        if ty.share > 0.0 {
            let outcome = simulate(&alone, &mut |arrivals| progress(before + arrivals))?;
            if outcome.interrupted {
                return Err(CapacityError::Interrupted);
            }
            let latencies = outcome.types.first().filter(|ty| ty.rejected == 0);
            latency_ns = latencies.map(|ty| ty.latency_ns.value_at_quantile(quantile));
        }
        before += plan.requests + plan.warmup;
        all.push(Isolated {
            name: ty.name.clone(),
            load: alone.load,
            service_ns: ty.service_ns,
            latency_ns,
        });
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Distribution, WorkloadType};
    use psp_policy::Policy;

    fn plan(load: f64) -> SimPlan {
        let workload = Workload::named("tpcc").unwrap();
        let mut plan = SimPlan::new(workload, Policy::sq(), 14, load).requests(20_000);
        plan.preemption = true;
        plan
    }

    fn all(plan: &SimPlan) -> Vec<Isolated> {
        isolated(plan, 0.99, &mut |_| ControlFlow::Continue(())).unwrap()
    }

    #[test]
    fn a_type_alone_has_its_rate_in_the_mix() {
        let mix = plan(0.8);
        let rps = (0..5).map(|index| isolated_plan(&mix, index).offered_rps());
        for (rps, ty) in rps.zip(&mix.workload.types) {
            let in_mix = mix.offered_rps() * ty.share;
            assert!((rps / in_mix - 1.0).abs() < 1e-9, "{}", ty.name);
        }
        let loads: f64 = all(&mix).iter().map(|alone| alone.load).sum();
        assert!((loads - 0.8).abs() < 1e-9, "{loads}");
    }

    #[test]
    fn alone_a_type_takes_no_less_than_its_service_and_no_longer_than_beside_others() {
        let mix = plan(0.8);
        let beside = simulate(&mix, &mut |_| ControlFlow::Continue(())).unwrap();
        for (alone, beside) in all(&mix).iter().zip(&beside.types) {
            let alone_ns = alone.latency_ns.unwrap();
            // The histogram has three digits.
            assert!(alone_ns as f64 > alone.service_ns as f64 * 0.999, "{alone:?}");
            assert!(alone_ns <= beside.latency_ns.value_at_quantile(0.99), "{alone:?}");
        }
    }

    #[test]
    fn a_type_that_varies_gets_a_longer_slo_by_its_own_tail() {
        let ty = |name: &str, distribution| WorkloadType {
            name: name.to_owned(),
            share: 0.5,
            service_ns: 10_000,
            distribution,
            wait_ns: 0,
            slo_ns: Some(1),
            weight: None,
        };
        let types = vec![ty("even", Distribution::Fixed), ty("varied", Distribution::Exponential)];
        let mut plan = plan(0.5);
        plan.workload = Workload::of_types("two", types);
        let [even, varied] = &all(&plan)[..] else {
            panic!("two types");
        };
        let [even, varied] = [even, varied].map(|alone| alone.latency_ns.unwrap() as f64);
        assert!(varied > 3.0 * even, "{even} {varied}");
    }

    #[test]
    fn what_never_comes_or_is_refused_has_no_slo() {
        let mut never = plan(0.5);
        never.workload.types[0].share = 0.0;
        never.workload.types[2].share = 0.88;
        assert_eq!(all(&never)[0].latency_ns, None);
        let mut overloaded = plan(6.0);
        overloaded.queue_capacity = 10;
        let known: Vec<bool> = all(&overloaded).iter().map(|alone| alone.latency_ns.is_some()).collect();
        assert!(known.contains(&false) && known.contains(&true), "{known:?}");
    }

    #[test]
    fn progress_counts_all_types_and_can_end_the_work() {
        let plan = plan(0.5);
        let mut last = 0;
        isolated(&plan, 0.99, &mut |arrivals| {
            assert!(arrivals >= last);
            last = arrivals;
            ControlFlow::Continue(())
        })
        .unwrap();
        assert!(last <= 5 * (plan.requests + plan.warmup) && last > 4 * plan.requests);
        let broken = isolated(&plan, 0.99, &mut |_| ControlFlow::Break(()));
        assert!(matches!(broken, Err(CapacityError::Interrupted)));
    }
}
