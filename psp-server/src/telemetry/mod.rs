//! What a server counts, and how other threads read it.
//!
//! ```text
//!   net worker ──► NetCounters ───────┐    (one pair for each thread that receives requests)
//!   dispatcher ──► DispatchCounters ──┼──► Snapshot ──► INFO, metrics, tests
//!   worker k   ──► WorkerCounters ────┘    (any thread, relaxed reads)
//! ```
//!
//! Each counter has one writer, so the hot path does a plain load and store and shares no cache
//! line with another thread.

mod counters;
mod publish;
mod snapshot;

pub(crate) use counters::{
    Counter, DispatchCounters, NetCounters, PacketCounters, Telemetry, TurnCounters, WaitCounters,
    WorkerCounters,
};
pub use publish::publish;
pub use snapshot::{
    ArbiterSnapshot, DropSnapshot, ElasticSnapshot, NetSnapshot, PacketSnapshot, Snapshot,
    TurnSnapshot, TypeSnapshot, WaitSnapshot, WorkerSnapshot,
};
