//! The requests that wait without their workers, and when each has waited long enough.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// See the [module](self). Of equal times, the request that began to wait first.
#[derive(Debug, Default)]
pub(super) struct Wakes {
    /// When, in which order, and which request.
    waiting: BinaryHeap<Reverse<(u64, u64, u32)>>,
    began: u64,
}

impl Wakes {
    /// A request waits until `at_ns`.
    pub(super) fn push(&mut self, at_ns: u64, request: u32) {
        self.waiting.push(Reverse((at_ns, self.began, request)));
        self.began += 1;
    }

    /// How many requests wait.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// When the next request has waited long enough; the end of time if none waits.
    #[inline]
    pub(super) fn next_ns(&self) -> u64 {
        self.waiting.peek().map_or(u64::MAX, |Reverse(next)| next.0)
    }

    /// Takes that request.
    pub(super) fn pop(&mut self) -> Option<u32> {
        self.waiting.pop().map(|Reverse((_, _, request))| request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_wake_by_time_and_then_in_the_order_in_which_they_began_to_wait() {
        let mut wakes = Wakes::default();
        assert_eq!((wakes.next_ns(), wakes.pop()), (u64::MAX, None));
        for (at_ns, request) in [(7, 9), (5, 3), (7, 1)] {
            wakes.push(at_ns, request);
        }
        assert_eq!(wakes.next_ns(), 5);
        let order = std::iter::from_fn(|| wakes.pop());
        assert_eq!(order.collect::<Vec<_>>(), [3, 9, 1]);
    }
}
