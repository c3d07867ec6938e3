//! Simulates a plan: policies of live servers in the engine, ideals in a loop of their own.

use std::ops::ControlFlow;

use psp_policy::WorkerId;
use psp_policy::distributed::Receivers;

use super::arrivals::Arrivals;
use super::engine;
use super::ideal::{self, ProcessorSharing, ShortestRemaining};
use super::outcome::Outcome;
use super::plan::{SimError, SimPlan};
use super::policy::SimPolicy;

/// A request of a simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SimRequest {
    /// When it arrives, in nanoseconds from the start.
    pub at_ns: u64,
    /// Index of its type in the workload.
    pub kind: u32,
    /// Its service time in nanoseconds.
    pub service_ns: u64,
    /// For how long it waits without its worker, in nanoseconds.
    pub wait_ns: u64,
    /// The worker that receives it, if the plan has flows and one server, and its policy no dispatcher.
    pub receiver: Option<WorkerId>,
}

/// The requests that arrive in [`simulate`], in order, warm-up included. Tests send the same
/// requests to a live server.
///
/// # Errors
/// As [`simulate`].
pub fn requests(plan: &SimPlan) -> Result<Vec<SimRequest>, SimError> {
    plan.validate()?;
    let mut progress = |_| ControlFlow::Continue(());
    let mut arrivals = Arrivals::new(plan, &mut progress);
    let mut receivers = receivers(plan);
    let next = || {
        arrivals.take().map(|arrival| SimRequest {
            at_ns: arrival.at_ns,
            kind: arrival.kind,
            service_ns: arrival.service_ns,
            wait_ns: arrival.wait_ns,
            receiver: receivers.as_mut().map(Receivers::draw),
        })
    };
    Ok(std::iter::from_fn(next).collect())
}

/// The receivers of the plan's requests, as its scheduler draws them.
fn receivers(plan: &SimPlan) -> Option<Receivers> {
    let SimPolicy::Live(policy) = &plan.policy else {
        return None;
    };
    let flows = plan.flows?;
    if policy.has_dispatcher() || plan.cluster.servers > 1 {
        return None;
    }
    Some(Receivers::new(plan.workers, flows, plan.seed))
}

/// Simulates a plan. `progress` gets the number of requests that have arrived, warm-up included.
/// When it breaks, no more requests arrive, and the outcome is that of the earlier ones.
///
/// # Errors
/// [`SimError`] when the plan is not valid, or the policy never runs some requests.
pub fn simulate(plan: &SimPlan, progress: &mut dyn FnMut(u64) -> ControlFlow<()>) -> Result<Outcome, SimError> {
    plan.validate()?;
    let mut arrivals = Arrivals::new(plan, progress);
    match &plan.policy {
        SimPolicy::Live(policy) => engine::simulate(plan, policy, &mut arrivals),
        SimPolicy::Ps => {
            let ideal = ProcessorSharing::new(plan.workers);
            Ok(ideal::simulate(plan, ideal, &mut arrivals))
        }
        SimPolicy::Srpt => {
            let ideal = ShortestRemaining::new(plan.workers);
            Ok(ideal::simulate(plan, ideal, &mut arrivals))
        }
    }
}
