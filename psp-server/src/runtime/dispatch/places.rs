//! The places in the typed queues: how many requests wait of each type, and how many may.
//!
//! The dispatcher counts what it tells the scheduler and what the scheduler answers, so the net worker can ask for a
//! free place at each request without asking the policy.

use psp_policy::TypeTable;

use crate::config::Config;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Places {
    /// Per type slot, `UNKNOWN` last.
    slots: Vec<Queue>,
    waiting: usize,
}

/// The typed queue of one slot.
#[derive(Debug, Clone, Copy)]
struct Queue {
    waiting: usize,
    capacity: usize,
}

impl Places {
    /// All places are free.
    pub(crate) fn new(types: &TypeTable, config: &Config) -> Self {
        let own = types.specs().iter().map(|spec| spec.queue_capacity);
        let capacities = own.chain([None]);
        Self {
            slots: capacities
                .map(|own| Queue {
                    waiting: 0,
                    capacity: own.unwrap_or(config.queue_capacity),
                })
                .collect(),
            waiting: 0,
        }
    }

    /// How many requests wait, in all queues.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Whether another request of this slot may wait.
    #[inline]
    pub(crate) fn has_free(&self, slot: usize) -> bool {
        let queue = self.slots[slot];
        queue.waiting < queue.capacity
    }

    /// A request waits, which may be one beyond the capacity: it gave way, or is about to be refused.
    #[inline]
    pub(crate) fn take(&mut self, slot: usize) {
        self.slots[slot].waiting += 1;
        self.waiting += 1;
    }

    /// A request waits no more.
    #[inline]
    pub(crate) fn give_back(&mut self, slot: usize) {
        let queue = &mut self.slots[slot];
        // A policy of the user's own may answer with another type than the request has.
        queue.waiting = queue.waiting.saturating_sub(1);
        self.waiting -= 1;
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
        let mut places = Places::new(&types, &Config::default().queue_capacity(2));
        let (own, other, unknown) = (0, 1, 2);
        places.take(own);
        places.take(other);
        assert!(!places.has_free(own) && places.has_free(other));
        places.take(other);
        assert!(!places.has_free(other) && places.has_free(unknown));
        places.take(own);
        places.give_back(own);
        assert!(!places.has_free(own), "a request that gave way waits, too");
        places.give_back(own);
        assert!(places.has_free(own));
        assert_eq!(places.waiting(), 2);
    }
}
