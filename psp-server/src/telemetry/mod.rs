//! What a server counts, and how other threads read it.
//!
//! ```text
//!   net worker ──► NetCounters ───────┐    (one pair for each thread that receives requests)
//!   dispatcher ──► DispatchCounters ──┼──► Snapshot ──► INFO, Publisher, admin port
//!   worker k   ──► WorkerCounters ────┘    (any thread, relaxed reads)
//! ```
//!
//! Each counter has one writer, so the hot path does a plain load and store and shares no cache
//! line with another thread.

mod counter;
mod counters;
#[cfg(feature = "admin")]
mod exposition;
mod histogram;
mod log_lines;
mod publish;
mod rows;
mod slow;
mod snapshot;
mod turning;

pub(crate) use counters::{
    DispatchCounters, NetCounters, PacketCounters, Telemetry, Times, TurnCounters, WaitCounters, WorkerCounters,
};
#[cfg(feature = "admin")]
pub(crate) use exposition::{CONTENT_TYPE as METRICS_CONTENT_TYPE, exposition};
pub use histogram::HistogramSnapshot;
pub use log_lines::count_dropped_log_lines;
pub use publish::Publisher;
pub(crate) use slow::SlowLog;
pub use slow::SlowRequest;
pub use snapshot::{
    AdmissionSnapshot, ArbiterSnapshot, DropSnapshot, ElasticSnapshot, NetSnapshot, PacketSnapshot, Parts,
    RefusedSnapshot, Snapshot, TurnSnapshot, TypeSnapshot, WaitSnapshot, WorkerSnapshot,
};
pub(crate) use turning::Turning;
