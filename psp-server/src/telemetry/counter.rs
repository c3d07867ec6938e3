//! A counter.

use std::sync::atomic::{AtomicU64, Ordering};

/// A figure with one writing thread and any number of readers.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds to the counter. Only its one writer may call this: it is a load and a store.
    pub(crate) fn add(&self, count: u64) {
        self.set(self.get().wrapping_add(count));
    }

    /// Subtracts `count`. Only its one writer may call this.
    pub(crate) fn sub(&self, count: u64) {
        self.set(self.get().wrapping_sub(count));
    }

    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
