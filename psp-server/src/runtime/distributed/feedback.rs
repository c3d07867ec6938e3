//! Feeds the policy's [`Feedback`](psp_policy::distributed::Feedback) with what all workers measured, every few
//! milliseconds, and wakes whom it names.
//!
//! ```text
//!   worker 0 ── adds ──► counts ┐
//!   worker 1 ── adds ──► counts ┼─► pass: what came since the last one ──► Feedback ──► Knowledge ──► all workers
//!      ...                      ┘                                               └─ relieve ──► wakes a worker
//! ```
//!
//! It runs on the thread that runs the server, which has nothing else to do. Nothing waits for it: workers decide by
//! what was published last.

use std::sync::atomic::Ordering;
use std::time::Duration;

use psp_policy::distributed::{InSystem, LaneSet};
use psp_policy::{RequestType, Sample, WorkerId};

use super::measured::Seen;
use super::worker_group::WorkerGroup;

/// Time between two passes while requests come, and while none do.
const INTERVAL: Duration = Duration::from_millis(5);
const IDLE_INTERVAL: Duration = Duration::from_millis(50);
/// A request that waits this long while a worker that may take it sleeps has that worker woken.
const LATE_NS: u64 = 1_000_000;

/// See the [module](self).
pub(crate) struct FeedbackLoop {
    /// Per worker and type slot.
    seen: Vec<Vec<Seen>>,
}

/// What waits, runs and is blocked.
struct Counted<'a> {
    group: &'a WorkerGroup,
    now_ns: u64,
}

impl InSystem for Counted<'_> {
    fn requests(&self, slot: usize) -> u64 {
        let at = |worker: WorkerId| {
            let waiting = self.group.queues[worker.index()].lock().waiting(slot) as u64;
            let runs = self.group.line(worker).runs();
            let running = runs.is_some_and(|runs| runs.slot == slot);
            let measured = &self.group.measured[worker.index()];
            waiting + u64::from(running) + measured.blocked_now(slot)
        };
        let aside = self.group.suspended.of_type(slot);
        aside as u64 + self.group.workers().map(at).sum::<u64>()
    }

    fn waited_ns(&self, slot: usize) -> u64 {
        let lane = LaneSet::of(self.group.lane(slot));
        let first = |worker: WorkerId| {
            let queue = self.group.queues[worker.index()].lock();
            let first = queue.first(lane).filter(|first| first.slot == slot)?;
            Some(first.waited_ns(self.now_ns))
        };
        self.group.workers().filter_map(first).max().unwrap_or(0)
    }
}

impl FeedbackLoop {
    pub(crate) fn new(group: &WorkerGroup) -> Self {
        let slots = group.knowledge.slots();
        Self {
            seen: group.workers().map(|_| vec![Seen::default(); slots]).collect(),
        }
    }

    /// Gives feedback what has come since the last pass, and publishes what follows. Returns when the next pass is due.
    pub(crate) fn pass(&mut self, group: &WorkerGroup, now_ns: u64) -> Duration {
        let mut feedback = group.feedback();
        let mut came = false;
        for (worker, seen) in group.workers().zip(&mut self.seen) {
            let measured = &group.measured[worker.index()];
            for (slot, seen) in seen.iter_mut().enumerate() {
                let now = measured.seen(slot);
                let before = std::mem::replace(seen, now);
                let begun = now.begun - before.begun;
                if begun > 0 {
                    let waited_ns_max = measured.take_longest_wait_ns(slot);
                    feedback.began(slot, worker, begun, waited_ns_max);
                }
                let completed = now.completed - before.completed;
                if completed > 0 {
                    let sample = Sample {
                        request_type: RequestType::new(slot as u32),
                        count: u32::try_from(completed).unwrap_or(u32::MAX),
                        service_ns: now.service_ns - before.service_ns,
                    };
                    feedback.record(slot, &sample);
                } else {
                    // Time without its request is of the next sample.
                    seen.service_ns = before.service_ns;
                }
                came |= begun > 0 || completed > 0;
            }
        }
        let counted = Counted { group, now_ns };
        let places_again = feedback.passes(now_ns, &counted, &group.knowledge);
        feedback.relieve(now_ns, &group.board, &group.knowledge);
        let updates = feedback.reservation_updates();
        group.reservation_updates.store(updates, Ordering::Relaxed);
        drop(feedback);
        if places_again {
            group.placings.fetch_add(1, Ordering::Release);
        }
        let waits = Self::wake_late(group, now_ns, places_again);
        if came || waits { INTERVAL } else { IDLE_INTERVAL }
    }

    /// Wakes sleepers for what has waited for long, and for what may run elsewhere from now on: no worker has woken
    /// them for that. Returns whether something waits.
    fn wake_late(group: &WorkerGroup, now_ns: u64, places_again: bool) -> bool {
        let mut waits = false;
        for worker in group.workers() {
            let waiting = group.line(worker).waiting();
            if waiting.is_empty() {
                continue;
            }
            waits = true;
            let queue = group.queues[worker.index()].lock();
            let first_ns = queue.first(waiting).map(|first| first.arrived_ns);
            drop(queue);
            let is_late = first_ns.is_some_and(|first_ns| now_ns.saturating_sub(first_ns) > LATE_NS);
            if is_late || places_again {
                group.wake_for(waiting);
            }
            if places_again {
                group.wake(worker);
            }
        }
        waits
    }
}
