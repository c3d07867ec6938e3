//! The budget of memory that is held for all peers together: incomplete requests, and replies from when they grow.
//!
//! The net thread counts what a connection holds when it has the connection. A worker counts a reply while it grows, in
//! steps, so that short replies cost nothing. If it finds no room, it asks the net thread for some.
//!
//! Connections that hold little may push the sum over the budget, by a quarter of it: many of them are much, too.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::room::Room;

/// What a connection, or a reply, may hold whatever others hold.
pub(crate) const EXEMPT_BYTES: usize = 64 * 1024;

/// What a connection may hold even then: so much of a request waits without a pooled buffer.
const EXEMPT_BYTES_MIN: usize = 2 * 1024;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Budget {
    held_bytes: AtomicUsize,
    max_bytes: usize,
    /// Where replies ask for room.
    pub(crate) room: Room,
}

impl Budget {
    pub(crate) fn new(max_bytes: usize) -> Self {
        Self {
            held_bytes: AtomicUsize::new(0),
            max_bytes,
            room: Room::default(),
        }
    }

    /// What is counted now.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held_bytes.load(Ordering::Relaxed)
    }

    /// Whether no more is counted than may be held.
    pub(crate) fn is_kept(&self) -> bool {
        self.has_room(0)
    }

    /// Whether `bytes` more may be held.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.held_bytes().saturating_add(bytes) <= self.max_bytes
    }

    /// What one connection may hold now whatever others hold.
    pub(crate) fn exempt_bytes(&self) -> usize {
        let limit_bytes = self.max_bytes.saturating_add(self.max_bytes / 4);
        match self.held_bytes() <= limit_bytes {
            true => EXEMPT_BYTES,
            false => EXEMPT_BYTES_MIN,
        }
    }

    /// What one connection may hold: three quarters of the budget.
    pub(crate) fn share_bytes(&self) -> usize {
        (self.max_bytes - self.max_bytes / 4).max(EXEMPT_BYTES)
    }

    /// Counts `bytes` if there is room for them.
    pub(crate) fn try_take(&self, bytes: usize) -> bool {
        self.try_take_within(bytes, self.max_bytes)
    }

    fn try_take_within(&self, bytes: usize, max_bytes: usize) -> bool {
        let before = self.held_bytes.fetch_add(bytes, Ordering::Relaxed);
        let has_room = before.saturating_add(bytes) <= max_bytes;
        if !has_room {
            self.give_back(bytes);
        }
        has_room
    }

    /// As [`Budget::try_take`], with an eighth more. Somebody makes room meanwhile.
    pub(crate) fn try_take_beyond(&self, bytes: usize) -> bool {
        self.try_take_within(bytes, self.max_bytes.saturating_add(self.max_bytes / 8))
    }

    /// As [`Budget::try_take`]. If there is no room, the net thread makes some if it can.
    pub(crate) fn take(&self, bytes: usize) -> bool {
        self.try_take(bytes) || (self.room.ask(bytes) && self.try_take(bytes))
    }

    /// `bytes` are no longer held.
    pub(crate) fn give_back(&self, bytes: usize) {
        self.held_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Counts `after` bytes in place of `before`, whether there is room for them or not.
    pub(crate) fn replace(&self, before: usize, after: usize) {
        if after > before {
            self.held_bytes.fetch_add(after - before, Ordering::Relaxed);
        } else {
            self.give_back(before - after);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_no_more_than_there_is() {
        let budget = Budget::new(100 << 20);
        assert!(budget.try_take(60 << 20) && !budget.try_take(41 << 20));
        assert_eq!(budget.held_bytes(), 60 << 20);
        budget.replace(60 << 20, 101 << 20);
        assert!(!budget.is_kept());
        budget.replace(101 << 20, 100 << 20);
        assert!(budget.is_kept() && !budget.try_take(1));
        budget.replace(100 << 20, 125 << 20);
        assert_eq!(budget.exempt_bytes(), EXEMPT_BYTES);
        budget.replace(125 << 20, 126 << 20);
        assert_eq!(budget.exempt_bytes(), EXEMPT_BYTES_MIN);
        budget.give_back(126 << 20);
        assert_eq!((budget.held_bytes(), budget.share_bytes()), (0, 75 << 20));
        assert_eq!(Budget::new(0).share_bytes(), EXEMPT_BYTES);
    }
}
