//! What one point shows: the live server, and the simulation of the same requests.

use psp_sim::simulator::{Outcome, SimPlan};

use super::case::Case;
use super::figure::{Quantity, Share};
use crate::simulated::compared::{Compared, at};
use crate::simulated::point::{Latencies, Point};

/// Both sides of a point, in the order of [`Found::sides`].
pub(super) const SIDES: [&str; 2] = ["live", "simulated"];

/// A point that was measured.
pub(super) struct Found {
    pub(super) case: &'static Case,
    pub(super) system: &'static str,
    pub(super) load: f64,
    /// The load in thousand requests per second, before dilation.
    pub(super) krps: f64,
    pub(super) sides: [Side; 2],
}

/// One side of a point.
#[derive(Clone)]
pub(super) struct Side {
    latencies: Latencies,
    preemptions: f64,
    /// Share of its time that each worker served, in percent.
    busy: Vec<f64>,
}

/// The point of a system at a load.
pub(super) fn found_at<'f>(found: &'f [Found], case: &Case, system: &str, load: f64) -> Option<&'f Found> {
    let mut of_system = of_system(found, case, system);
    of_system.find(|it| it.load == load)
}

/// All points of a system, by load.
pub(super) fn of_system<'f>(found: &'f [Found], case: &Case, system: &str) -> impl Iterator<Item = &'f Found> {
    found.iter().filter(move |it| std::ptr::eq(it.case, case) && it.system == system)
}

impl Side {
    pub(super) fn of_both(compared: &Compared<'_>) -> [Self; 2] {
        let plan = compared.point.plan();
        let types = compared.counters.types.iter();
        let preempted: u64 = types.map(|ty| ty.turns.preemptions_honoured).sum();
        let lasted_ns = compared.lasted.as_nanos() as f64;
        let workers = compared.counters.workers.iter();
        let [live, simulated] = compared.latencies.clone();
        [
            Self {
                latencies: live,
                preemptions: preempted as f64 / (plan.requests + plan.warmup) as f64,
                busy: workers.map(|worker| worker.service_ns_total as f64 / lasted_ns * 100.0).collect(),
            },
            Self::of_outcome(&plan, &compared.outcome, simulated),
        ]
    }

    /// The simulation alone, with the requests during which a live server would have stalled.
    pub(super) fn of_simulation(point: &Point) -> Self {
        let (outcome, latencies) = point.simulated();
        Self::of_outcome(&point.plan(), &outcome, latencies)
    }

    fn of_outcome(plan: &SimPlan, outcome: &Outcome, latencies: Latencies) -> Self {
        let shares = outcome.worker_utilization.iter();
        Self {
            latencies,
            preemptions: outcome.preemptions as f64 / (plan.requests + plan.warmup) as f64,
            busy: shares.map(|share| share * 100.0).collect(),
        }
    }

    /// 0 if there is nothing to show.
    pub(super) fn value(&self, quantity: Quantity, tail: f64) -> f64 {
        let at_tail = |mut values: Vec<f64>| {
            values.sort_unstable_by(f64::total_cmp);
            if values.is_empty() { 0.0 } else { at(tail, &values) }
        };
        let all = || self.latencies.iter().flatten();
        match quantity {
            Quantity::Slowdown => at_tail(all().map(|it| it.slowdown()).collect()),
            Quantity::Latency => at_tail(all().map(|it| it.latency_us).collect()),
            Quantity::LatencyOf(kind) => {
                let of_type = self.latencies[kind].iter();
                at_tail(of_type.map(|it| it.latency_us).collect())
            }
            Quantity::Preemptions => self.preemptions,
            Quantity::Busy => self.busy(Share::Mean),
        }
    }

    pub(super) fn busy(&self, share: Share) -> f64 {
        let shares = self.busy.iter().copied();
        match share {
            Share::Mean => shares.sum::<f64>() / self.busy.len() as f64,
            Share::Most => shares.fold(0.0, f64::max),
            Share::Least => shares.fold(100.0, f64::min),
        }
    }
}
