//! Asking a running request to yield.

/// A way to make the task that runs on a worker yield.
pub(crate) trait Preempter: Send {
    /// Asks the task of the turn with this number to yield. Has no effect if that turn is over.
    fn preempt(&self, turn: u64);
}
