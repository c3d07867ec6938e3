//! The places in the typed queues: how many requests wait of each type, and how many may.
//!
//! The dispatcher counts what it tells the scheduler and what the scheduler answers, so the net worker can ask for a
//! free place at each request without asking the policy.
//!
//! Workers that run each other's requests have places each, for the requests that they receive. Who takes such a
//! request out of a queue gives its place back, on whichever thread.

use std::sync::atomic::{AtomicUsize, Ordering};

use psp_policy::TypeTable;

use crate::config::Config;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Places {
    /// Per type slot, `UNKNOWN` last.
    slots: Box<[Queue]>,
    /// Whether several threads give places back.
    is_shared: bool,
}

/// The typed queue of one slot.
#[derive(Debug)]
struct Queue {
    waiting: AtomicUsize,
    capacity: usize,
}

impl Places {
    /// The places of one thread, all free.
    pub(crate) fn new(types: &TypeTable, config: &Config) -> Self {
        let own = types.specs().iter().map(|spec| spec.queue_capacity);
        let capacities = own.chain([None]);
        Self {
            slots: capacities
                .map(|own| Queue {
                    waiting: AtomicUsize::new(0),
                    capacity: own.unwrap_or(config.queue_capacity),
                })
                .collect(),
            is_shared: false,
        }
    }

    /// The places of requests that one thread receives, and that others give back as well.
    pub(crate) fn shared(types: &TypeTable, config: &Config) -> Self {
        Self { is_shared: true, ..Self::new(types, config) }
    }

    /// How many requests wait, in all queues.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        let waiting = self.slots.iter().map(Queue::waiting);
        waiting.sum()
    }

    /// Whether any request waits.
    #[inline]
    pub(crate) fn any_waiting(&self) -> bool {
        self.slots.iter().any(|queue| queue.waiting() > 0)
    }

    /// The slots of those that wait.
    pub(crate) fn slots_waiting(&self) -> impl Iterator<Item = usize> {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(slot, queue)| (queue.waiting() > 0).then_some(slot))
    }

    /// Whether another request of this slot may wait.
    #[inline]
    pub(crate) fn has_free(&self, slot: usize) -> bool {
        let queue = &self.slots[slot];
        queue.waiting() < queue.capacity
    }

    /// A request waits, which may be one beyond the capacity: it yielded, or is about to be refused.
    #[inline]
    pub(crate) fn take(&self, slot: usize) {
        let queue = &self.slots[slot];
        if self.is_shared {
            queue.waiting.fetch_add(1, Ordering::Relaxed);
        } else {
            queue.set_waiting(queue.waiting() + 1);
        }
    }

    /// A request waits no more. Returns whether its typed queue was full, and has room from now on.
    #[inline]
    pub(crate) fn give_back(&self, slot: usize) -> bool {
        let queue = &self.slots[slot];
        let waiting = if self.is_shared {
            queue.waiting.fetch_sub(1, Ordering::Relaxed)
        } else {
            let waiting = queue.waiting();
            // A policy of the user's own may answer with another type than the request has.
            queue.set_waiting(waiting.saturating_sub(1));
            waiting
        };
        waiting == queue.capacity
    }
}

impl Queue {
    #[inline]
    fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    #[inline]
    fn set_waiting(&self, waiting: usize) {
        self.waiting.store(waiting, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use psp_policy::TypeSpec;

    use super::*;

    #[test]
    fn a_full_queue_has_no_free_place_and_others_have() {
        let own = TypeSpec::new("own").queue_capacity(1);
        let types: TypeTable = [own, TypeSpec::new("other")].into_iter().collect();
        let config = Config::default().queue_capacity(2);
        let (own, other, unknown) = (0, 1, 2);
        for places in [Places::new(&types, &config), Places::shared(&types, &config)] {
            assert!(!places.any_waiting());
            places.take(own);
            places.take(other);
            assert!(!places.has_free(own) && places.has_free(other));
            places.take(other);
            assert!(!places.has_free(other) && places.has_free(unknown));
            places.take(own);
            assert!(!places.give_back(own));
            assert!(!places.has_free(own), "a request that yielded waits, too");
            assert!(places.give_back(own) && places.has_free(own));
            assert!(places.give_back(other) && !places.give_back(other));
            places.take(other);
            places.take(other);
            assert_eq!(places.waiting(), 2);
            assert!(places.any_waiting());
        }
    }
}
