//! What all threads of a server read.

use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::time::Instant;

use crate::config::{Config, Topology};
use crate::preempt::PreemptPolicy;
use crate::request_type::TypeTable;
use crate::shutdown::Shutdown;
use crate::telemetry::Telemetry;

/// Settings, counters and the way to stop. Shared by all threads and by
/// [`ServerHandle`](crate::ServerHandle)s.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) topology: Topology,
    pub(crate) workers: usize,
    pub(crate) policy: String,
    pub(crate) types: TypeTable,
    /// How each type gives way, by its slot; `UNKNOWN` comes last.
    pub(crate) preempt: Vec<PreemptPolicy>,
    pub(crate) telemetry: Telemetry,
    pub(crate) shutdown: Shutdown,
    pub(crate) started: Instant,
    /// The limits that may change while the server runs.
    pub(crate) connections_max: AtomicUsize,
    pub(crate) idle_timeout_s: AtomicU64,
}
