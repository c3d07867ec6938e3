//! The memory that all items share.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// There is not enough memory for an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("out of memory storing object")]
pub struct OutOfMemory;

/// Counts the bytes taken, which never exceed a limit.
#[derive(Debug)]
pub(super) struct Budget {
    limit: AtomicUsize,
    /// The part of the limit that items may take now. The rest is lost in gaps between items.
    allowance: AtomicUsize,
    taken: AtomicUsize,
    /// Counts stored items. It advances when an item takes its bytes from the budget.
    clock: AtomicU32,
}

impl Budget {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit: AtomicUsize::new(limit),
            allowance: AtomicUsize::new(limit),
            taken: AtomicUsize::new(0),
            clock: AtomicU32::new(0),
        }
    }

    /// The time, counted in stored items. It wraps around.
    pub(super) fn now(&self) -> Stamp {
        Stamp(self.clock.load(Ordering::Relaxed))
    }

    pub(super) fn limit_bytes(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }

    /// Changes the limit. Items that are stored keep their bytes.
    pub(super) fn set_limit(&self, bytes: usize) {
        self.limit.store(bytes, Ordering::Relaxed);
        self.cede(0);
    }

    /// Leaves `bytes` of the limit to gaps between items. Items that are stored keep their bytes.
    pub(super) fn cede(&self, bytes: usize) {
        let allowance = self.limit_bytes().saturating_sub(bytes);
        self.allowance.store(allowance, Ordering::Relaxed);
    }

    /// The part of the limit that items may take now.
    pub(super) fn allowance_bytes(&self) -> usize {
        self.allowance.load(Ordering::Relaxed)
    }

    /// Whether the items have more than they may.
    pub(super) fn is_overdrawn(&self) -> bool {
        self.taken_bytes() > self.allowance_bytes()
    }

    pub(super) fn taken_bytes(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// Takes `bytes` if that many are free.
    pub(super) fn reserve(&self, bytes: usize) -> Result<Reservation<'_>, OutOfMemory> {
        if bytes > 0 {
            // Only the sum matters. The shards' locks guard the use of the bytes.
            self.taken
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| {
                    let allowance = self.allowance_bytes();
                    taken.checked_add(bytes).filter(|sum| *sum <= allowance)
                })
                .map_err(|_full| OutOfMemory)?;
        }
        Ok(Reservation { budget: self, bytes })
    }

    /// Returns the bytes of an item to the budget.
    pub(super) fn give(&self, bytes: usize) {
        self.taken.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Bytes that were taken but belong to no item yet. Dropping it returns them.
#[derive(Debug)]
pub(super) struct Reservation<'a> {
    budget: &'a Budget,
    bytes: usize,
}

impl Reservation<'_> {
    /// Assigns `bytes` to an item, and takes those that are not reserved yet from the budget. Returns
    /// the current time in stored items.
    ///
    /// # Errors
    /// The number of missing bytes.
    pub(super) fn spend(&mut self, bytes: usize) -> Result<Stamp, Lacking> {
        let lacking = bytes.saturating_sub(self.bytes);
        if lacking > 0 {
            let more = self.budget.reserve(lacking);
            self.absorb(more.map_err(|OutOfMemory| Lacking { bytes: lacking })?);
        }
        self.bytes -= bytes;
        Ok(Stamp(self.budget.clock.fetch_add(1, Ordering::Relaxed)))
    }

    /// Adds the bytes of `more` to this reservation.
    pub(super) fn absorb(&mut self, mut more: Self) {
        self.bytes += std::mem::take(&mut more.bytes);
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.budget.give(self.bytes);
    }
}

/// A time in stored items. It shows which items are least recently used at any request rate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Stamp(pub(super) u32);

impl Stamp {
    /// How many items were stored from `self` to `now`.
    pub(super) fn age(self, now: Self) -> u32 {
        now.0.wrapping_sub(self.0)
    }
}

/// The bytes that an item needs beyond those that are free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lacking {
    pub(super) bytes: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ceded_bytes_are_not_taken() {
        let budget = Budget::new(100);
        assert_eq!(budget.reserve(60).unwrap().spend(60), Ok(Stamp(0)));
        budget.cede(50);
        assert!(budget.is_overdrawn() && budget.reserve(1).is_err());
        budget.give(20);
        assert!(!budget.is_overdrawn() && budget.reserve(10).is_ok());
        budget.cede(0);
        assert!(budget.reserve(60).is_ok() && budget.reserve(61).is_err());
    }

    #[test]
    fn dropping_a_reservation_returns_its_unspent_bytes() {
        let budget = Budget::new(100);
        let mut reserved = budget.reserve(60).unwrap();
        assert!(budget.reserve(41).is_err());
        assert_eq!(reserved.spend(50), Ok(Stamp(0)));
        assert_eq!(reserved.spend(60), Err(Lacking { bytes: 50 }));
        assert_eq!(reserved.spend(40), Ok(Stamp(1)));
        drop(reserved);
        assert_eq!(budget.taken_bytes(), 90);
        budget.give(90);
        assert_eq!(budget.taken_bytes(), 0);
        assert!(budget.reserve(usize::MAX).is_err());
    }
}
