//! The flag by which a dispatcher asks a worker's request to give way.
//!
//! ```text
//!   dispatcher:  begins turn 7 … asks 7            the flag holds 7 from here on
//!   worker:      … turn 7: checkpoint sees 7 ── yields
//!                … turn 8: checkpoint sees 7 ── goes on: that was meant for another
//! ```
//!
//! Turns are numbered from 1 and never again, so nobody has to reset the flag, and a request that
//! was over before it was asked costs its successor nothing.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering};

/// See the [module](self). One writer, the dispatcher.
///
/// Relaxed accesses are enough: the flag guards no other data, which travels by the rings.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct PreemptFlag(AtomicU64);

impl PreemptFlag {
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Asks what runs in this turn to give way.
    pub(crate) fn ask(&self, turn: u64) {
        self.0.store(turn, Ordering::Relaxed);
    }

    /// Whether what runs in this turn was asked.
    #[inline]
    pub(crate) fn names(&self, turn: u64) -> bool {
        self.0.load(Ordering::Relaxed) == turn
    }
}
