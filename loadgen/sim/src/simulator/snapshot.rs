//! The workers' time up to some moment.

/// The workers' time up to now.
#[derive(Debug, Clone, Default)]
pub(super) struct Snapshot {
    /// Service of all workers.
    pub(super) served_ns: u64,
    /// Service of each worker; empty for ideals, whose workers have no requests of their own.
    pub(super) served_each_ns: Vec<u64>,
    /// Time in which workers were occupied, service or not.
    pub(super) occupied_ns: u64,
    /// Time in which workers were present, of all together.
    pub(super) present_ns: u64,
    /// Time in which workers idled though requests waited, of all together.
    pub(super) idle_ns: u64,
    /// How often a worker came or went.
    pub(super) worker_changes: u64,
    pub(super) reservation_updates: u64,
    /// Per type.
    pub(super) workers_reserved: Vec<usize>,
}
