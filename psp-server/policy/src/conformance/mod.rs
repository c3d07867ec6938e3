//! A kit that tests policies, and names the promise that a policy breaks.
//!
//! [`check`] applies arbitrary events to a policy's scheduler, beside a simple model that knows what
//! must hold after each: arrivals in bursts, completions with and without measurements, requests
//! that yield, time that passes, deadlines that the driver misses, workers that come and go, and switches to
//! c-FCFS and back.
//! Workers, types, capacities, topologies and kinds of preemption are arbitrary, too.
//!
//! All policies promise the first part of [`Promise`]; [`Promises`] says what else yours does.
//!
//! [`check_admit`] does the same with an [admission](crate::admission::Admit).
//!
//! The module needs the feature `conformance`, which adds proptest to the dependencies. Put it where
//! only tests use it:
//!
//! ```toml
//! [dev-dependencies]
//! psp-policy = { version = "0.1", features = ["conformance"] }
//! ```
//!
//! A policy of this crate, and a promise that it does not keep:
//!
//! ```
//! use psp_policy::Policy;
//! use psp_policy::conformance::{self, Order, Promise, Promises};
//!
//! assert_eq!(conformance::check(&Policy::c_fcfs(), &Promises::default()), Ok(()));
//!
//! let promises = Promises { order: Order::Arrival, ..Promises::default() };
//! let broken = conformance::check(&Policy::edf(), &promises).unwrap_err();
//! assert_eq!(broken.promise, Promise::Order);
//! ```

mod admission;
mod broken;
mod cases;
mod kit;
mod model;
mod promises;
mod seen;
#[cfg(test)]
mod tests;

pub use admission::{AdmitPromise, BrokenAdmit, check_admit};
pub use broken::{Broken, Promise};
pub use cases::{Case, Measured, Operation, Step, workers};
pub use kit::{CASES, check, check_case};
pub use promises::{AllowedWorkers, Idling, Order, Preempts, Promises, Quantum};
