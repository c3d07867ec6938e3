//! Numbers that one thread writes and all read: atomics on live servers, plain values in the simulator.

use std::cell::Cell;
use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};

/// A number that one thread writes at a time and any may read. Readers see each word by itself, old or new, so
/// whatever must change at once is one word. Who sees a new one sees what its writer wrote before, too.
pub trait Word: Default + Debug + Send + 'static {
    /// Its value.
    fn get(&self) -> u64;
    /// Writes it.
    fn set(&self, value: u64);
}

/// For drivers of one thread: the simulator, and tests.
pub type Plain = Cell<u64>;

/// For workers that are threads.
pub type Live = AtomicU64;

impl Word for Plain {
    #[inline]
    fn get(&self) -> u64 {
        Self::get(self)
    }

    #[inline]
    fn set(&self, value: u64) {
        Self::set(self, value);
    }
}

impl Word for Live {
    #[inline]
    fn get(&self) -> u64 {
        self.load(Ordering::Acquire)
    }

    #[inline]
    fn set(&self, value: u64) {
        self.store(value, Ordering::Release);
    }
}
