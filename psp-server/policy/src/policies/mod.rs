//! The policies: each file makes one decision over the shared parts.

pub(crate) mod c_fcfs;
pub(crate) mod cscq;
pub(crate) mod d_fcfs;
pub(crate) mod darc;
pub(crate) mod darc_distributed;
pub(crate) mod drr;
pub(crate) mod edf;
pub(crate) mod fixed_priority;
pub(crate) mod jbsq;
pub(crate) mod jsq;
pub(crate) mod lending;
pub(crate) mod mq;
pub(crate) mod portfolio;
pub(crate) mod sjf;
pub(crate) mod sq;
pub(crate) mod static_partition;
pub(crate) mod stealing;
pub(crate) mod synergy;
pub(crate) mod wrr;
