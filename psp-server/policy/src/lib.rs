//! The scheduler core: events in, actions out, time is an argument.
//!
//! Nothing here reads a clock, starts a thread, or touches a socket.
//! The live dispatcher, the simulator and the tests drive the same objects.
//!
//! ```text
//!   Arrived ────┐                                   ┌──► Run { worker, request }
//!   Completed ──┤    Scheduler::on_event(now, ..)   │    Scheduler::poll(now)
//!   Yielded ────┼──► typed queues, profile, workers ┼──► Preempt { worker }
//!   Blocked ────┤                                   │
//!   Unblocked ──┤                                   │
//!   Workers ────┤                                   │
//!   Tick ───────┘    Scheduler::deadline_ns()       └──► Reject { request }
//! ```
//!
//! | to | look at |
//! | --- | --- |
//! | choose a policy | [`Policy`], and its settings such as [`Darc`] |
//! | drive a scheduler | [`SchedulerSetup`], [`Scheduler`], [`Event`], [`Action`] |
//! | drive workers that schedule themselves | [`distributed`], [`Policy::local`] |
//! | let in no more than can end in time | [`admission::Admission`], [`admission::Admit`] |
//! | have workers come and go with the load | [`elastic::Elastic`], [`Event::Workers`] |
//! | write a policy of your own | [`Policy::custom`], [`TypedQueues`], `docs/your-policy.md` |
//! | test it | `conformance`, which needs the feature of that name |
//!
//! `docs/policies.md` says what each policy does and why.
//!
//! A policy is a small file in `policies/` that makes one decision. It decides over shared `parts/`:
//!
//! | part | what it holds or decides |
//! | --- | --- |
//! | `queues`, over `lists` and `waiting` | requests that wait, bounded per type, in as many lanes as the policy wants |
//! | `suspended`, over `heaps` | requests that only their home worker can resume |
//! | `blocked` | requests that wait for something outside of the scheduler, by their ids |
//! | `workers`, `eligible` | idle workers, most recently active first, and the requests that they can run |
//! | `running` | the request on each worker |
//! | `quanta`, `worker_times` | how long a request keeps its worker while others wait |
//! | `finishing`, `dispersion` | requests that are about to finish; how far service times lie apart |
//! | `profile`, `slos` | measured service times and shares; SLOs of types |
//! | `plan`, `grouped` | groups of types by length and their workers; typed queues that follow the plan |
//! | `reservations` | when DARC reserves workers anew |
//! | `own_thread` | which requests the driver's own thread begins |
//! | `stuck` | requests that may never end, and which workers their types may use meanwhile |
//! | `own_queues`, `ready` | a queue per worker, and the idle workers that find something in theirs |
//! | `handover` | the backlog for another policy |
//!
//! Memory is set aside at construction. Three things grow on demand: queues whose capacities add up
//! to more than 65 536 requests, the list of refusals of a driver that reports more than 1024
//! refused arrivals between two rounds of polling, and the tables of blocked and suspended requests beyond
//! 256. None of them shrinks, so each stops to grow at the largest number there has been.

#![forbid(unsafe_code)]

#[macro_use]
mod rows;

pub mod admission;
mod backlog;
#[cfg(feature = "conformance")]
pub mod conformance;
mod custom;
pub mod distributed;
pub mod elastic;
mod error;
mod event;
#[doc(hidden)]
pub mod internal;
mod keys;
mod parts;
mod policies;
mod policy;
mod preempt;
#[cfg(test)]
mod rehearsal;
pub mod request_type;
mod scheduler;
mod settings;
mod setup;
mod spelling;
mod study;
mod study_pace;
mod traits;
mod typed_queues;

pub use backlog::{Backlog, BacklogRequest, Handover, RequestState};
pub use custom::Custom;
pub use error::PolicyError;
pub use event::{Action, Event, HandOff, RequestId, Sample, WorkerId};
pub use policy::Policy;
pub use preempt::PreemptPolicy;
pub use request_type::{RequestType, TypeSpec, TypeTable};
pub use scheduler::{Relief, Scheduler, TypeStatus, switch};
pub use settings::{
    CFcfs, Cscq, DFcfs, Darc, DarcDistributed, DarcLending, DarcStatic, Drr, Edf, FixedPriority, Jbsq, Jsq, JsqTies,
    Mq, Portfolio, Quantum, Requeue, Sjf, Sq, StaticPartition, Stealing, Synergy, Wrr,
};
pub use setup::{Contexts, History, Preemption, SchedulerSetup, StuckAfter};
pub use study::{Findings, Study};
pub use traits::PreemptionUse;
pub use typed_queues::TypedQueues;
