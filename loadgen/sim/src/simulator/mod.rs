//! A discrete-event simulator for scheduling policies.
//!
//! It drives the same policy objects as a live server, in virtual time. Costs are settings. The
//! same plan has the same outcome, to the bit.
//!
//! ```text
//!   SimPlan ─► arrivals ─► engine ─► servers ─► recorder ─► Outcome
//!                          or ideal
//! ```
//!
//! ```
//! use psp_sim::simulator::{SimPlan, simulate};
//! use psp_sim::workload::Workload;
//! use psp_policy::Policy;
//! use std::ops::ControlFlow;
//!
//! let workload = Workload::named("high-bimodal")?;
//! let plan = SimPlan::new(workload, Policy::c_fcfs(), 14, 0.5).requests(20_000);
//! let outcome = simulate(&plan, &mut |_| ControlFlow::Continue(()))?;
//! assert_eq!(outcome.completed, 20_000);
//! println!("p99.9 slowdown {:.1}", outcome.overall.at(0.999));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod agenda;
mod arrivals;
mod balancer;
mod cluster;
mod costs;
mod dispatcher;
mod engine;
mod ideal;
mod outcome;
mod overload;
mod plan;
mod policy;
mod present;
mod recorder;
mod retries;
mod server;
mod simulate;
mod slab;
mod snapshot;
mod tape;
mod timeline;
mod wakes;
mod workers;

pub use cluster::{Cluster, Spread};
pub use costs::Costs;
pub use outcome::{
    Completion, Outcome, Slowdowns, TENANTS_MAX, TenantOutcome, TimelineBucket, TimelinePoint, TypeOutcome,
};
pub use overload::{AdmissionModel, Overload, Stall};
pub use plan::{ClassifierModel, ElasticPlan, PolicySwitch, SimError, SimPlan, TraceWindow};
pub use policy::{SimPolicy, UnknownPolicy};
pub use simulate::{SimRequest, requests, simulate};
pub use tape::SimTrace;
