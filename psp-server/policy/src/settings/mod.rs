//! Settings of policies, one file each. Policies without settings share [`none`].

#[macro_use]
mod setters;

mod check;
mod cscq;
mod darc;
mod darc_distributed;
mod darc_lending;
mod darc_static;
mod drr;
mod edf;
mod jbsq;
mod jsq;
mod mq;
mod none;
mod portfolio;
mod quantum;
mod requeue;
mod sq;
mod static_partition;
mod synergy;
mod units;

pub use cscq::Cscq;
pub use darc::Darc;
pub use darc_distributed::DarcDistributed;
pub use darc_lending::DarcLending;
pub use darc_static::DarcStatic;
pub use drr::Drr;
pub use edf::Edf;
pub use jbsq::Jbsq;
pub use jsq::{Jsq, JsqTies};
pub use mq::Mq;
pub use none::{CFcfs, DFcfs, FixedPriority, Sjf, Stealing, Wrr};
pub use portfolio::Portfolio;
pub use quantum::Quantum;
pub use requeue::Requeue;
pub use sq::Sq;
pub use static_partition::StaticPartition;
pub use synergy::Synergy;
pub(crate) use units::nanoseconds;
