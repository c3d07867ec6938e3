//! A discrete-event simulator for scheduling policies.
//!
//! It drives the same policy objects as a live server, in virtual time: what is simulated is what
//! runs. Costs are settings, so that a policy can be seen with and without them. The plan fixes
//! everything: the same plan has the same outcome, to the bit.
//!
//! ```text
//!   SimPlan ─► arrivals ─► engine ─► recorder ─► Outcome
//!                          or ideal
//! ```
//!
//! ```
//! use psp_loadgen::sim::{SimPlan, simulate};
//! use psp_loadgen::workload::Workload;
//! use psp_server::Policy;
//! use std::ops::ControlFlow;
//!
//! let workload = Workload::named("high-bimodal")?;
//! let plan = SimPlan::new(workload, Policy::c_fcfs(), 14, 0.5).requests(20_000);
//! let outcome = simulate(&plan, &mut |_| ControlFlow::Continue(()))?;
//! assert_eq!(outcome.completed, 20_000);
//! println!("p99.9 slowdown {:.1}", outcome.overall.at(0.999));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod arrivals;
mod costs;
mod dispatcher;
mod engine;
mod ideal;
mod outcome;
mod plan;
mod policy;
mod recorder;
mod slab;
mod timeline;
mod workers;

use std::ops::ControlFlow;

pub use costs::Costs;
pub use outcome::{Completion, Outcome, Slowdowns, TimelineBucket, TimelinePoint, TypeOutcome};
pub use plan::{ClassifierModel, PolicySwitch, SimError, SimPlan};
pub use policy::{SimPolicy, UnknownPolicy};

use arrivals::Arrivals;
use ideal::{ProcessorSharing, ShortestRemaining};

/// A request of a simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SimRequest {
    /// When it arrives, in nanoseconds from the start.
    pub at_ns: u64,
    /// Its type's place in the workload.
    pub kind: u32,
    /// Its service time in nanoseconds.
    pub service_ns: u64,
}

/// The requests that [`simulate`] has arrive, in their order, warm-up included: for a live server to be
/// sent the same ones.
///
/// # Errors
/// As [`simulate`].
pub fn requests(plan: &SimPlan) -> Result<Vec<SimRequest>, SimError> {
    plan.validate()?;
    let mut progress = |_| ControlFlow::Continue(());
    let mut arrivals = Arrivals::new(plan, &mut progress);
    let next = || {
        arrivals.take().map(|arrival| SimRequest {
            at_ns: arrival.at_ns,
            kind: arrival.kind,
            service_ns: arrival.service_ns,
        })
    };
    Ok(std::iter::from_fn(next).collect())
}

/// Simulates a plan. `progress` is told now and then how many requests have arrived, warm-up
/// included; when it breaks, no more arrive, and the outcome is that of those that did.
///
/// # Errors
/// [`SimError`]: the plan is not valid, or the policy never runs some requests.
pub fn simulate(
    plan: &SimPlan,
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<Outcome, SimError> {
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
