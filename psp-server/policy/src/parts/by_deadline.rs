//! Waiting requests with deadlines of their own, the earliest deadline first.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::parts::waiting::Waiting;

/// See the [module](self). Requests with equal deadlines leave in order of arrival.
#[derive(Debug)]
pub(crate) struct ByDeadline(BinaryHeap<Due>);

/// A request, and when it is due. The greatest is due first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Due {
    deadline_ns: u64,
    waiting: Waiting,
}

impl Due {
    const fn key(&self) -> (u64, u64) {
        (self.deadline_ns, self.waiting.sequence)
    }
}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

impl ByDeadline {
    /// Memory for `entries` requests; beyond that it grows on demand.
    pub(crate) fn with_capacity(entries: usize) -> Self {
        Self(BinaryHeap::with_capacity(entries))
    }

    pub(crate) fn push(&mut self, deadline_ns: u64, waiting: Waiting) {
        self.0.push(Due { deadline_ns, waiting });
    }

    /// The request that is due first, left in place.
    pub(crate) fn first(&self) -> Option<&Waiting> {
        self.0.peek().map(|due| &due.waiting)
    }

    /// Takes the request that is due first.
    pub(crate) fn pop(&mut self) -> Option<Waiting> {
        self.0.pop().map(|due| due.waiting)
    }

    /// All of them, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Waiting> {
        self.0.iter().map(|due| &due.waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_deadline_leaves_first_and_of_equal_ones_the_first_arrival() {
        let mut due = ByDeadline::with_capacity(4);
        for (deadline_ns, sequence) in [(9, 0), (5, 3), (7, 2), (5, 1)] {
            let waiting = Waiting { sequence, ..Waiting::example() };
            due.push(deadline_ns, waiting);
        }
        assert_eq!((due.first().unwrap().sequence, due.iter().count()), (1, 4));
        let order = std::iter::from_fn(|| due.pop()).map(|waiting| waiting.sequence);
        assert_eq!(order.collect::<Vec<_>>(), [1, 3, 2, 0]);
        assert!(due.first().is_none());
    }
}
