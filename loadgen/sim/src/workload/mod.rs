//! Workloads: request types, their shares and service times, and how requests arrive.
//!
//! [`Workload::named`] has the workloads of the literature. [`Workload::from_file`] reads others.

mod arrivals;
mod clients;
mod definition;
mod error;
mod file;
mod named;
mod service_time;
mod toml_tables;

pub use arrivals::{ArrivalProcess, Bursts, Gaps, Schedule};
pub use clients::Clients;
pub use definition::{Phase, PhaseLength, Workload, WorkloadType, service_ns_mean};
pub use error::WorkloadError;
pub use file::WorkloadFile;
pub use service_time::{Distribution, ServiceTimes};
