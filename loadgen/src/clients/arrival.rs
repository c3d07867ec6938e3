//! A request that is due.

/// A request that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// Index of its type on the thread.
    pub(crate) index: usize,
    /// Number of its command among those of the type; 0 but for traces.
    pub(crate) command: u32,
    /// When to send it.
    pub(crate) intended_ns: u64,
}
