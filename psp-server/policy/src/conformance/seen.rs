//! What a test sees of a scheduler from outside.

use std::ops::Range;

use crate::scheduler::Scheduler;

/// What a test sees of a scheduler from outside.
pub(super) struct Seen<'a> {
    pub(super) scheduler: &'a dyn Scheduler,
    /// How many workers are present.
    pub(super) workers: usize,
    /// Number of registered types.
    pub(super) types: usize,
    /// The type slot of each request that runs.
    pub(super) running: Vec<usize>,
    /// The type slot of each request that is blocked.
    pub(super) blocked: Vec<usize>,
    /// Per type slot: whether its length is neither hinted nor was measured.
    pub(super) unmeasured: &'a [bool],
}

impl Seen<'_> {
    pub(super) fn group(&self, slot: usize) -> Option<usize> {
        self.scheduler.type_status(slot).group
    }

    /// Whether the type at `slot` is of the shortest group.
    pub(super) fn is_short(&self, slot: usize) -> bool {
        self.group(slot) == Some(0)
    }

    /// Whether the policy knows the length of the type at `slot`.
    pub(super) fn knows_length(&self, slot: usize) -> bool {
        slot < self.types && self.scheduler.type_status(slot).service_ns_mean > 0.0
    }

    /// Whether the type at `slot` goes first to be measured: one request of it, once the length of others is
    /// known.
    pub(super) fn is_untried(&self, slot: usize) -> bool {
        let began = self.running.contains(&slot) || self.blocked.contains(&slot);
        self.unmeasured[slot] && !began && self.knows_lengths()
    }

    /// Whether the length of any type is known.
    pub(super) fn knows_lengths(&self) -> bool {
        (0..self.types).any(|slot| self.group(slot).is_some())
    }

    /// Number of workers that the shortest group can count on.
    pub(super) fn reserved_for_short(&self) -> usize {
        (0..self.types)
            .find(|&slot| self.is_short(slot))
            .map_or(0, |slot| self.scheduler.type_status(slot).workers_reserved)
    }

    /// The workers that are reserved for a type: all of them before the first reservation, and the
    /// last partition for types that have none.
    pub(super) fn partition(&self, slot: usize) -> Range<usize> {
        let partition = |slot| {
            let status = self.scheduler.type_status(slot);
            let first = status.worker_first?.index();
            Some(first..first + status.workers_reserved)
        };
        let last = || (0..self.types).filter_map(partition).max_by_key(|last| last.end);
        partition(slot).or_else(last).unwrap_or(0..self.workers)
    }

    /// The first worker that is reserved for no group.
    pub(super) fn reserved_end(&self) -> usize {
        (0..self.types)
            .filter_map(|slot| {
                let status = self.scheduler.type_status(slot);
                Some(status.worker_first?.index() + status.workers_reserved)
            })
            .max()
            .unwrap_or(0)
    }
}
