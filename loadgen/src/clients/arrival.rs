//! A request that is due.

/// A request that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// Index of its type on the thread.
    pub(crate) index: usize,
    /// When to send it.
    pub(crate) intended_ns: u64,
}
