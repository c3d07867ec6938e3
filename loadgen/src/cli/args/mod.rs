//! Options that several subcommands take.

pub(super) mod cluster;
pub(super) mod contestants;
pub(super) mod experiment;
pub(super) mod keyspace;
pub(super) mod measurement;
pub(super) mod overload;
pub(super) mod pacing;
mod planning;
#[cfg(feature = "dpdk")]
mod port;
pub(super) mod target;
pub(super) mod types;
pub(super) mod values;
