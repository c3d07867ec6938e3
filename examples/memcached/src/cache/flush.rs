//! `flush_all`: every item belongs to an epoch, and items of past epochs are invalid.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::clock::now_ms;

/// `due_ms` if no flush is pending.
const NONE: u64 = u64::MAX;

/// The flushes of a cache: past ones, and possibly a pending one.
#[derive(Debug)]
pub(super) struct Flushes {
    epoch: AtomicU32,
    due_ms: AtomicU64,
}

impl Default for Flushes {
    fn default() -> Self {
        Self { epoch: AtomicU32::new(0), due_ms: AtomicU64::new(NONE) }
    }
}

impl Flushes {
    /// Ends the epoch now, or at a future time by [`now_ms`]: as in memcached, when a second begins, so that what is
    /// stored after the delay survives.
    pub(super) fn flush(&self, due_ms: Option<u64>) {
        let due_ms = due_ms.map(|due_ms| due_ms / 1000 * 1000);
        match due_ms.filter(|due_ms| *due_ms > now_ms()) {
            Some(due_ms) => self.due_ms.store(due_ms, Ordering::Release),
            None => {
                self.due_ms.store(NONE, Ordering::Release);
                self.epoch.fetch_add(1, Ordering::AcqRel);
            }
        }
    }

    /// The epoch of items that are stored now.
    pub(super) fn epoch(&self) -> u32 {
        let due_ms = self.due_ms.load(Ordering::Acquire);
        if due_ms != NONE
            && due_ms <= now_ms()
            && self.due_ms.compare_exchange(due_ms, NONE, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        {
            self.epoch.fetch_add(1, Ordering::AcqRel);
        }
        self.epoch.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_is_due_when_a_second_begins() {
        let flushes = Flushes::default();
        let delay_ms = 100_000;
        let before = now_ms();
        flushes.flush(Some(before + delay_ms));
        let due_ms = flushes.due_ms.load(Ordering::Acquire);
        assert!(due_ms.is_multiple_of(1000));
        assert!((before + delay_ms - 999..=before + delay_ms).contains(&due_ms));
        assert_eq!(flushes.epoch(), 0);
        flushes.flush(Some(0));
        assert_eq!((flushes.epoch(), flushes.epoch()), (1, 1));
    }
}
