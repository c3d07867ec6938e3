//! How a thread gets a core to itself.
//!
//! | mechanism | keeps other programs off a granted core | needs |
//! | --- | --- | --- |
//! | [`CpusetV1`] | all that it could confine at the start, and their children | a writable cpuset hierarchy of cgroup v1: root |
//! | [`CpusetV2`] | all | Linux 6.7, the cpuset controller of cgroup v2: root |
//! | [`Affinity`] | no | nothing for threads of the arbiter's own user, CAP_SYS_NICE for others |
//!
//! [`choose`] takes the first that works.

mod affinity;
mod cgroup;
mod choice;
mod contract;
mod cpuset_v1;
mod cpuset_v2;
mod error;
mod kind;
mod mounts;
mod recorded;

pub use affinity::Affinity;
pub use choice::choose;
pub use contract::{Mechanism, Scope, Started};
pub use cpuset_v1::CpusetV1;
pub use cpuset_v2::CpusetV2;
pub use error::MechanismError;
pub use kind::{Choice, Kind};
pub use mounts::{CpusetMount, cpuset_mount};
pub use recorded::{Recorded, Step};
