//! Connections that have something to do, in order.

use std::collections::VecDeque;

use crate::transport::request_key::ConnectionIndex;

/// A queue that has each connection at most once.
#[derive(Debug, Default)]
pub(super) struct ReadyQueue {
    order: VecDeque<ConnectionIndex>,
    /// Whether the queue has the connection of this index.
    is_queued: Vec<bool>,
}

impl ReadyQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    /// In order.
    pub(super) fn iter(&self) -> impl Iterator<Item = ConnectionIndex> + use<'_> {
        self.order.iter().copied()
    }

    pub(super) fn push(&mut self, index: ConnectionIndex) {
        if self.is_queued.len() <= index.get() {
            self.is_queued.resize(index.get() + 1, false);
        }
        if !std::mem::replace(&mut self.is_queued[index.get()], true) {
            self.order.push_back(index);
        }
    }

    pub(super) fn pop(&mut self) -> Option<ConnectionIndex> {
        let index = self.order.pop_front()?;
        self.is_queued[index.get()] = false;
        Some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_queued_once() {
        let index = |index| ConnectionIndex::new(index).unwrap();
        let mut queue = ReadyQueue::default();
        for number in [3, 1, 3] {
            queue.push(index(number));
        }
        assert_eq!(queue.pop(), Some(index(3)));
        queue.push(index(3));
        assert_eq!([queue.pop(), queue.pop()], [1, 3].map(|n| Some(index(n))));
        assert!(queue.is_empty() && queue.pop().is_none());
    }
}
