//! The connections whose runs wait for places in typed queues.

use std::collections::VecDeque;

use crate::transport::request_key::ConnectionIndex;

/// The connections whose runs wait for places. Each is there once at most.
pub(super) struct Backpressured {
    /// Per type slot, in the order in which the runs came.
    lines: Vec<VecDeque<ConnectionIndex>>,
    count: usize,
    /// How long a run may wait; 0 for not at all.
    pub(super) wait_ns_max: u64,
}

impl Backpressured {
    pub(super) fn new(type_slots: usize, wait_ns_max: u64) -> Self {
        Self {
            lines: vec![VecDeque::new(); type_slots],
            count: 0,
            wait_ns_max,
        }
    }

    /// The number of type slots.
    pub(super) fn slots(&self) -> usize {
        self.lines.len()
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether a run of this slot waits.
    #[inline]
    pub(super) fn has(&self, slot: usize) -> bool {
        self.count > 0 && !self.lines[slot].is_empty()
    }

    pub(super) fn push(&mut self, slot: usize, index: ConnectionIndex) {
        self.lines[slot].push_back(index);
        self.count += 1;
    }

    /// The connection whose run has waited the longest.
    pub(super) fn first(&self, slot: usize) -> Option<ConnectionIndex> {
        self.lines[slot].front().copied()
    }

    pub(super) fn pop(&mut self, slot: usize) {
        self.count -= usize::from(self.lines[slot].pop_front().is_some());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_type_has_its_own_order() {
        let index = |index| ConnectionIndex::new(index).unwrap();
        let mut held = Backpressured::new(2, 1);
        for (slot, number) in [(1, 7), (0, 3), (1, 5)] {
            held.push(slot, index(number));
        }
        assert_eq!([held.first(0), held.first(1)], [Some(index(3)), Some(index(7))]);
        held.pop(1);
        assert_eq!(held.first(1), Some(index(5)));
        held.pop(1);
        assert!(!held.has(1) && held.has(0) && !held.is_empty());
        held.pop(0);
        assert!(held.is_empty() && !held.has(0));
    }
}
