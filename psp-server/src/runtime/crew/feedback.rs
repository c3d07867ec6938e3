//! Feeds the policy's [`Feedback`](psp_policy::distributed::Feedback) with what all workers measured, every few
//! milliseconds, and wakes whom it names.
//!
//! ```text
//!   worker 0 ── adds ──► counts ┐
//!   worker 1 ── adds ──► counts ┼─► pass: what came since the last one ──► Feedback ──► Knowledge ──► all workers
//!      ...                      ┘                                               └─ relieve ──► wakes a worker
//! ```
//!
//! It runs on the thread that runs the server, which has nothing else to do. Nothing waits for it: workers decide by what
//! was published last.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use psp_policy::distributed::{InSystem, LaneSet, Line, Live};
use psp_policy::{RequestType, Sample, WorkerId};

use super::shared_state::Crew;

/// Time between two passes while requests come, and while none do.
const INTERVAL: Duration = Duration::from_millis(5);
const IDLE_INTERVAL: Duration = Duration::from_millis(50);
/// A request that waits this long while a worker that may take it sleeps has that worker woken.
const LATE_NS: u64 = 1_000_000;

/// What one worker measured of one type, from the start. One thread writes it.
#[derive(Debug, Default)]
struct Counts {
    completed: AtomicU64,
    service_ns: AtomicU64,
    begun: AtomicU64,
    blocked: AtomicU64,
    /// The longest wait of a request that began since the last pass.
    waited_ns_max: AtomicU64,
}

/// What one worker measured.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Measured {
    types: Box<[Counts]>,
}

fn add(count: &AtomicU64, more: u64) {
    count.store(
        count.load(Ordering::Relaxed).wrapping_add(more),
        Ordering::Relaxed,
    );
}

impl Measured {
    pub(super) fn new(slots: usize) -> Self {
        Self {
            types: (0..slots).map(|_| Counts::default()).collect(),
        }
    }

    /// A request has begun that had waited for so long.
    pub(super) fn begun(&self, slot: usize, waited_ns: u64) {
        let counts = &self.types[slot];
        add(&counts.begun, 1);
        if waited_ns > counts.waited_ns_max.load(Ordering::Relaxed) {
            counts.waited_ns_max.store(waited_ns, Ordering::Relaxed);
        }
    }

    pub(super) fn completed(&self, slot: usize, sample: &Sample) {
        let counts = &self.types[slot];
        add(&counts.completed, sample.count.into());
        add(&counts.service_ns, sample.service_ns);
    }

    pub(super) fn blocked(&self, slot: usize) {
        add(&self.types[slot].blocked, 1);
    }

    pub(super) fn unblocked(&self, slot: usize) {
        add(&self.types[slot].blocked, u64::MAX);
    }
}

/// What a pass has seen of one worker and one type.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    completed: u64,
    service_ns: u64,
    begun: u64,
}

/// See the [module](self).
pub(crate) struct FeedbackLoop {
    /// Per worker and type slot.
    seen: Vec<Vec<Seen>>,
}

/// What waits, runs and is blocked.
struct Counted<'a> {
    crew: &'a Crew,
    now_ns: u64,
}

impl InSystem for Counted<'_> {
    fn requests(&self, slot: usize) -> u64 {
        let at = |worker: WorkerId| {
            let waiting = self.crew.queues[worker.index()].lock().waiting(slot) as u64;
            let runs = self.crew.line(worker).runs();
            let running = runs.is_some_and(|runs| runs.slot == slot);
            let measured = &self.crew.measured[worker.index()];
            waiting + u64::from(running) + measured.types[slot].blocked.load(Ordering::Relaxed)
        };
        self.crew.workers().map(at).sum()
    }

    fn waited_ns(&self, slot: usize) -> u64 {
        let lane = LaneSet::of(self.crew.lane(slot));
        let first = |worker: WorkerId| {
            let queue = self.crew.queues[worker.index()].lock();
            let first = queue.first(lane).filter(|first| first.slot == slot)?;
            Some(self.now_ns.saturating_sub(first.arrived_ns))
        };
        self.crew.workers().filter_map(first).max().unwrap_or(0)
    }
}

impl FeedbackLoop {
    pub(crate) fn new(crew: &Crew) -> Self {
        let slots = crew.knowledge.slots();
        Self {
            seen: crew
                .workers()
                .map(|_| vec![Seen::default(); slots])
                .collect(),
        }
    }

    /// Gives feedback what has come since the last pass, and publishes what follows. Returns when the next pass is due.
    pub(crate) fn pass(&mut self, crew: &Crew, now_ns: u64) -> Duration {
        let mut feedback = crew.feedback();
        let mut came = false;
        for (worker, seen) in crew.workers().zip(&mut self.seen) {
            let types = &crew.measured[worker.index()].types;
            for (slot, (counts, seen)) in types.iter().zip(seen).enumerate() {
                let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
                // The sum is read first: it may lack a request that the count has, and never has one beyond it.
                let now = Seen {
                    service_ns: load(&counts.service_ns),
                    completed: load(&counts.completed),
                    begun: load(&counts.begun),
                };
                let before = std::mem::replace(seen, now);
                let begun = now.begun - before.begun;
                if begun > 0 {
                    let waited_ns_max = counts.waited_ns_max.swap(0, Ordering::Relaxed);
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
                }
                came |= begun > 0 || completed > 0;
            }
        }
        let counted = Counted { crew, now_ns };
        let places_again = feedback.passes(now_ns, &counted, &crew.knowledge);
        feedback.relieve(now_ns, &crew.board, &crew.knowledge);
        drop(feedback);
        if places_again {
            crew.placings.fetch_add(1, Ordering::Release);
        }
        let waits = self.wake_late(crew, now_ns, places_again);
        if came || waits {
            INTERVAL
        } else {
            IDLE_INTERVAL
        }
    }

    /// Wakes sleepers for what has waited for long, and for what may run elsewhere from now on: no worker has woken
    /// them for that. Returns whether something waits.
    #[expect(clippy::unused_self, reason = "a step of the pass")]
    fn wake_late(&self, crew: &Crew, now_ns: u64, places_again: bool) -> bool {
        let mut waits = false;
        for worker in crew.workers() {
            let line: &Line<Live> = crew.line(worker);
            let waiting = line.waiting();
            if waiting.is_empty() {
                continue;
            }
            waits = true;
            let queue = crew.queues[worker.index()].lock();
            let first_ns = queue.first(waiting).map(|first| first.arrived_ns);
            drop(queue);
            let is_late =
                first_ns.is_some_and(|first_ns| now_ns.saturating_sub(first_ns) > LATE_NS);
            if is_late || places_again {
                crew.wake_for(waiting);
            }
            if places_again {
                crew.wake(worker);
            }
        }
        waits
    }
}
