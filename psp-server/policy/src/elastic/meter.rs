//! Measures how many workers each type keeps busy, and how many of its requests wait, both on average over an
//! interval. It hears what the scheduler hears and answers, so that the averages are exact.

use std::collections::HashMap;

use super::estimator::GroupLoad;
use crate::event::{RequestId, WorkerId};
use crate::scheduler::Scheduler;
use crate::setup::SchedulerSetup;

/// The requests of a type, and what they did since the interval began.
#[derive(Debug, Clone, Copy, Default)]
struct Counted {
    running: u32,
    waiting: u32,
    /// Until when the times below are counted.
    until_ns: u64,
    /// Worker time.
    busy_ns: u64,
    /// Waiting time of all requests.
    queued_ns: u64,
}

impl Counted {
    /// Counts the times up to now. The numbers of requests change afterwards.
    #[inline]
    fn count(&mut self, now_ns: u64) -> &mut Self {
        let passed_ns = now_ns.saturating_sub(self.until_ns);
        self.until_ns = now_ns;
        self.busy_ns += passed_ns * u64::from(self.running);
        self.queued_ns += passed_ns * u64::from(self.waiting);
        self
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Meter {
    /// Per type slot, `UNKNOWN` last.
    types: Vec<Counted>,
    /// Per worker: what runs, and its type slot.
    running: Vec<Option<(RequestId, usize)>>,
    /// The type slots of blocked requests.
    blocked: HashMap<RequestId, usize>,
    /// Requests that run or wait.
    requests: usize,
    began_ns: u64,
    groups: Vec<GroupLoad>,
}

impl Meter {
    pub(super) fn new(setup: &SchedulerSetup<'_>) -> Self {
        let slots = setup.types.len() + 1;
        Self {
            types: vec![Counted::default(); slots],
            running: vec![None; setup.workers],
            blocked: HashMap::new(),
            requests: 0,
            began_ns: 0,
            groups: Vec::with_capacity(slots + 1),
        }
    }

    #[inline]
    pub(super) fn arrived(&mut self, now_ns: u64, slot: usize) {
        self.types[slot].count(now_ns).waiting += 1;
        self.requests += 1;
    }

    #[inline]
    pub(super) fn refused(&mut self, now_ns: u64, slot: usize) {
        let counted = self.types[slot].count(now_ns);
        counted.waiting = counted.waiting.saturating_sub(1);
        self.requests = self.requests.saturating_sub(1);
    }

    #[inline]
    pub(super) fn started(
        &mut self,
        now_ns: u64,
        worker: WorkerId,
        request: RequestId,
        slot: usize,
    ) {
        self.running[worker.index()] = Some((request, slot));
        let counted = self.types[slot].count(now_ns);
        counted.waiting = counted.waiting.saturating_sub(1);
        counted.running += 1;
    }

    #[inline]
    pub(super) fn completed(&mut self, now_ns: u64, worker: WorkerId) {
        self.requests -= usize::from(self.stop(now_ns, worker).is_some());
    }

    pub(super) fn yielded(&mut self, now_ns: u64, worker: WorkerId) {
        if let Some((_, slot)) = self.stop(now_ns, worker) {
            self.types[slot].waiting += 1;
        }
    }

    /// The request on `worker` neither runs nor waits for a worker.
    pub(super) fn blocked(&mut self, now_ns: u64, worker: WorkerId) {
        if let Some((request, slot)) = self.stop(now_ns, worker) {
            self.requests -= 1;
            self.blocked.insert(request, slot);
        }
    }

    pub(super) fn unblocked(&mut self, now_ns: u64, request: RequestId) {
        if let Some(slot) = self.blocked.remove(&request) {
            self.arrived(now_ns, slot);
        }
    }

    /// Nothing runs on `worker` any more. What did?
    #[inline]
    fn stop(&mut self, now_ns: u64, worker: WorkerId) -> Option<(RequestId, usize)> {
        let (request, slot) = self.running[worker.index()].take()?;
        self.types[slot].count(now_ns).running -= 1;
        Some((request, slot))
    }

    /// Whether nothing runs or waits.
    pub(super) const fn is_empty(&self) -> bool {
        self.requests == 0
    }

    /// The load of each group of types since the interval began, and another begins. Types without a group are
    /// the first.
    pub(super) fn end_interval(&mut self, now_ns: u64, scheduler: &dyn Scheduler) -> &[GroupLoad] {
        let interval_ns = now_ns.saturating_sub(self.began_ns).max(1) as f64;
        self.began_ns = now_ns;
        self.groups.clear();
        self.groups.push(GroupLoad::default());
        for (slot, counted) in self.types.iter_mut().enumerate() {
            let status = scheduler.type_status(slot);
            let place = status.group.map_or(0, |group| group + 1);
            while self.groups.len() <= place {
                self.groups.push(GroupLoad::default());
            }
            let group = &mut self.groups[place];
            let Counted {
                busy_ns, queued_ns, ..
            } = *counted.count(now_ns);
            group.busy += busy_ns as f64 / interval_ns;
            group.queued += queued_ns as f64 / interval_ns;
            group.reserved = if place > 0 {
                status.workers_reserved
            } else {
                0
            };
            counted.busy_ns = 0;
            counted.queued_ns = 0;
        }
        &self.groups
    }
}
