//! How many workers are present, and for how long they were.

use super::plan::SimPlan;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Present {
    workers: usize,
    since_ns: u64,
    /// Time of all workers together up to `since_ns`.
    spent_ns: u64,
    changes: u64,
}

impl Present {
    /// As many as a plan begins with.
    pub(super) fn new(plan: &SimPlan) -> Self {
        Self {
            workers: plan.workers_at_start(),
            since_ns: 0,
            spent_ns: 0,
            changes: 0,
        }
    }

    /// So many are present from now on.
    pub(super) fn change(&mut self, now_ns: u64, workers: usize) {
        self.spent_ns = self.spent_ns(now_ns);
        self.since_ns = now_ns;
        self.changes += self.workers.abs_diff(workers) as u64;
        self.workers = workers;
    }

    /// How many are present.
    pub(super) const fn workers(&self) -> usize {
        self.workers
    }

    /// The time of all workers together up to now.
    pub(super) const fn spent_ns(&self, now_ns: u64) -> u64 {
        self.spent_ns + (now_ns - self.since_ns) * self.workers as u64
    }

    /// How often a worker came or went.
    pub(super) const fn changes(&self) -> u64 {
        self.changes
    }
}
