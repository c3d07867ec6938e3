//! The queue of one worker, in which others put requests that they hand over, and from which they steal.
//!
//! ```text
//!   the worker   put ──► ┌ lane 0   3  5  9 ┐ ──► take     the worker
//!   another      put ──► └ lane 1   4       ┘ ──► take     a thief
//!                                │ show, under the same lock
//!                                ▼
//!                        the worker's line of the board
//! ```
//!
//! A short lock keeps the queue and its line of the board together: some 20 ns where no other thread wants it, and no
//! thread holds it for longer than a few requests take to move. The board is read without it.
//!
//! Of each type it has at most as many requests that the worker received as the typed queue holds, and as many again
//! that were handed over. Beside them are those that were preempted and may go on at any worker, one for each
//! [thread](super::moving) that such requests have. A queue whose worker has gone on to another policy is closed, and
//! takes no more.

use std::collections::VecDeque;
use std::sync::PoisonError;

#[cfg(loom)]
use loom::sync::{Mutex, MutexGuard};
use psp_policy::distributed::{LaneSet, Line, Queue, Word};
use psp_policy::{RequestId, RequestType};
#[cfg(not(loom))]
use std::sync::{Mutex, MutexGuard};

/// Requests for which all lanes of a queue together set memory aside. They grow beyond it on demand, and do not
/// shrink.
const PREALLOCATED_MAX: usize = 1 << 14;

/// A request that waits: it has not begun, or any worker may resume it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) request: RequestId,
    pub(crate) request_type: RequestType,
    /// Slot of its type.
    pub(crate) slot: usize,
    pub(crate) arrived_ns: u64,
    /// Its place in its lane: when it arrived, or when it came here behind others that were stolen.
    pub(crate) rank_ns: u64,
    /// It waits at another worker than the one that received it.
    pub(crate) handed_over: bool,
    /// It was preempted.
    pub(crate) has_begun: bool,
    /// For how long it ran in earlier turns.
    pub(crate) served_ns: u64,
    /// For how long it was blocked.
    pub(crate) blocked_ns: u64,
}

impl Waiting {
    /// For how long it has waited for a worker, before its first turn and between turns.
    pub(crate) const fn waited_ns(&self, now_ns: u64) -> u64 {
        let elsewhere_ns = self.served_ns.saturating_add(self.blocked_ns);
        now_ns.saturating_sub(self.arrived_ns.saturating_add(elsewhere_ns))
    }
}

/// What the worker holds beside its queue: requests that began here, and that it alone can resume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BesideQueue {
    /// How many.
    pub(crate) requests: u64,
    /// In which lanes.
    pub(crate) lanes: LaneSet,
    /// The worker has a context to begin a request, beside the one that it runs.
    pub(crate) has_context: bool,
    /// Blocked requests have all its contexts.
    pub(crate) blocked_up: bool,
}

/// What the lock protects.
#[derive(Debug)]
pub(crate) struct Lanes {
    lanes: Vec<VecDeque<Waiting>>,
    /// Per type slot.
    types: Vec<OfType>,
    held: BesideQueue,
    is_closed: bool,
}

/// Requests of one type that have not begun.
#[derive(Debug, Clone, Copy, Default)]
struct OfType {
    waiting: usize,
    /// How many of them were handed over.
    handed_over: usize,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct OwnQueue {
    lanes: Mutex<Lanes>,
    /// Per type slot: how many may wait that were handed over, and how many others.
    capacities: Box<[usize]>,
}

impl Lanes {
    /// Oldest first.
    fn first_lane(&self, lanes: LaneSet) -> Option<usize> {
        let waiting = self.lanes.iter().enumerate();
        let waiting = waiting.filter(|&(lane, _)| lanes.contains(lane));
        let first = waiting.filter_map(|(lane, queue)| Some((queue.front()?.arrived_ns, lane)));
        first.min().map(|(_, lane)| lane)
    }

    /// The request of `lanes` that arrived first.
    pub(crate) fn first(&self, lanes: LaneSet) -> Option<&Waiting> {
        self.lanes[self.first_lane(lanes)?].front()
    }

    /// The first request of `lane`.
    pub(crate) fn front(&self, lane: usize) -> Option<&Waiting> {
        self.lanes[lane].front()
    }

    /// Takes that.
    pub(crate) fn pop(&mut self, lane: usize) -> Option<Waiting> {
        let waiting = self.lanes[lane].pop_front()?;
        if !waiting.has_begun {
            let of_type = &mut self.types[waiting.slot];
            of_type.waiting -= 1;
            of_type.handed_over -= usize::from(waiting.handed_over);
        }
        Some(waiting)
    }

    fn push(&mut self, lane: usize, waiting: Waiting) {
        if !waiting.has_begun {
            let of_type = &mut self.types[waiting.slot];
            of_type.waiting += 1;
            of_type.handed_over += usize::from(waiting.handed_over);
        }
        let queue = &mut self.lanes[lane];
        let later = |other: &Waiting| other.rank_ns > waiting.rank_ns;
        // Few are to come later, if any: those that were put in while this one was on its way.
        let before = queue.iter().rev().take_while(|other| later(other)).count();
        queue.insert(queue.len() - before, waiting);
    }

    /// How many wait in `lane`.
    pub(crate) fn len(&self, lane: usize) -> usize {
        self.lanes[lane].len()
    }

    /// The requests of `lane`, the next one first.
    pub(crate) fn iter(&self, lane: usize) -> impl Iterator<Item = &Waiting> {
        self.lanes[lane].iter()
    }

    /// How many wait of the type at `slot` that have not begun.
    pub(crate) fn waiting(&self, slot: usize) -> usize {
        self.types[slot].waiting
    }

    /// What the board shows of the queue.
    fn shown(&self) -> Queue {
        let lanes = self.lanes.iter().enumerate();
        let waiting = lanes.filter(|(_, queue)| !queue.is_empty());
        let waiting: LaneSet = waiting.map(|(lane, _)| lane).collect();
        let begins = if self.held.has_context { waiting } else { LaneSet::NONE };
        Queue {
            queued: self.lanes.iter().map(|queue| queue.len() as u64).sum(),
            held: self.held.requests,
            waiting,
            behind: begins.or(self.held.lanes),
            blocked_up: self.held.blocked_up,
        }
    }
}

impl OwnQueue {
    /// An empty queue with so many lanes. `capacities` are those of the typed queues, by the slots of the types.
    pub(crate) fn new(lanes: usize, capacities: &[usize]) -> Self {
        let all = capacities.iter().fold(0_usize, |all, &capacity| all.saturating_add(capacity));
        let each = (2 * all.min(PREALLOCATED_MAX)) / lanes;
        Self {
            lanes: Mutex::new(Lanes {
                lanes: (0..lanes).map(|_| VecDeque::with_capacity(each)).collect(),
                types: vec![OfType::default(); capacities.len()],
                held: BesideQueue {
                    requests: 0,
                    lanes: LaneSet::NONE,
                    has_context: true,
                    blocked_up: false,
                },
                is_closed: false,
            }),
            capacities: capacities.into(),
        }
    }

    /// The queue to look at. Nothing that holds it panics, whatever std says of a thread with suspended requests.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Lanes> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the queue, and shows on its worker's `line` what has become of it.
    pub(crate) fn change<C: Word, T>(&self, line: &Line<C>, change: impl FnOnce(&mut Lanes) -> T) -> T {
        let mut lanes = self.lock();
        let changed = change(&mut lanes);
        line.set_queue(lanes.shown());
        changed
    }

    /// Puts a request into its place, and returns whether its worker finds one of this lane now and did not before.
    /// Gives the request back if there are too many of its type.
    pub(crate) fn put<C: Word>(&self, line: &Line<C>, lane: usize, waiting: Waiting) -> Result<bool, Waiting> {
        self.change(line, |lanes| {
            let OfType { waiting: all, handed_over } = lanes.types[waiting.slot];
            let alike = if waiting.handed_over {
                handed_over
            } else {
                all - handed_over
            };
            if lanes.is_closed || alike >= self.capacities[waiting.slot] {
                return Err(waiting);
            }
            lanes.push(lane, waiting);
            Ok(lanes.held.has_context && !line.queue().behind.contains(lane))
        })
    }

    /// Puts a request in that the worker stole beside the one that it runs, or that was preempted.
    pub(crate) fn put_stolen<C: Word>(&self, line: &Line<C>, lane: usize, waiting: Waiting) {
        self.change(line, |lanes| lanes.push(lane, waiting));
    }

    /// Takes up to `count` requests of one of `lanes`: that of the request that arrived first. Appends them to
    /// `taken`, and returns what is left for others.
    pub(crate) fn take<C: Word>(
        &self,
        line: &Line<C>,
        lanes: LaneSet,
        count: usize,
        taken: &mut Vec<Waiting>,
    ) -> LaneSet {
        self.change(line, |queue| {
            if let Some(lane) = queue.first_lane(lanes) {
                taken.extend((0..count).map_while(|_| queue.pop(lane)));
            }
        });
        line.waiting()
    }

    /// Takes everything, and lets no worker put anything in from now on.
    pub(crate) fn close<C: Word>(&self, line: &Line<C>) -> Vec<Waiting> {
        self.change(line, |queue| {
            queue.is_closed = true;
            let mut all = Vec::new();
            for lane in 0..queue.lanes.len() {
                all.extend(std::iter::from_fn(|| queue.pop(lane)));
            }
            all
        })
    }

    /// The worker holds something else from now on.
    pub(crate) fn hold<C: Word>(&self, line: &Line<C>, held: BesideQueue) {
        self.change(line, |lanes| lanes.held = held);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use psp_policy::distributed::Plain;

    use super::*;

    fn waiting(id: u32, slot: usize, arrived_ns: u64, handed_over: bool) -> Waiting {
        Waiting {
            request: RequestId(id),
            request_type: RequestType::new(slot as u32),
            slot,
            arrived_ns,
            rank_ns: arrived_ns,
            handed_over,
            has_begun: false,
            served_ns: 0,
            blocked_ns: 0,
        }
    }

    fn ids(taken: &[Waiting]) -> Vec<u32> {
        taken.iter().map(|waiting| waiting.request.0).collect()
    }

    #[test]
    fn requests_leave_in_order_of_arrival_however_late_they_were_put_in() {
        let (queue, line) = (OwnQueue::new(2, &[4, 4]), Line::<Plain>::default());
        for (id, lane, arrived_ns) in [(0, 0, 30), (1, 1, 20), (2, 0, 10), (3, 0, 40), (4, 1, 35)] {
            let put = queue.put(&line, lane, waiting(id, lane, arrived_ns, true));
            assert!(put.is_ok());
        }
        assert_eq!((line.queued(), line.waiting()), (5, [0, 1].into_iter().collect()));
        let mut taken = Vec::new();
        let left = queue.take(&line, LaneSet::ALL, 2, &mut taken);
        assert_eq!(ids(&taken), [2, 0], "both from the lane of the oldest");
        assert_eq!(left.word(), 0b11);
        queue.take(&line, LaneSet::ALL, 9, &mut taken);
        assert_eq!(ids(&taken), [2, 0, 1, 4]);
        let left = queue.take(&line, LaneSet::of(1), 1, &mut taken);
        assert_eq!((ids(&taken).len(), left), (4, LaneSet::of(0)));
    }

    #[test]
    fn a_type_has_as_many_handed_over_as_its_typed_queue_holds_and_own_ones_beside_them() {
        let (queue, line) = (OwnQueue::new(1, &[1, 2]), Line::<Plain>::default());
        let put = |id, slot, handed_over| {
            let waiting = waiting(id, slot, id.into(), handed_over);
            queue.put(&line, 0, waiting).is_ok()
        };
        assert!(put(0, 0, true) && !put(1, 0, true));
        assert!(put(2, 0, false) && !put(7, 0, false));
        assert!(put(3, 1, true) && put(4, 1, true) && !put(5, 1, true));
        let mut taken = Vec::new();
        queue.take(&line, LaneSet::ALL, 1, &mut taken);
        assert!(put(6, 0, true), "one has left");
    }

    #[test]
    fn a_request_that_yielded_takes_no_place_of_its_type() {
        let (queue, line) = (OwnQueue::new(1, &[1]), Line::<Plain>::default());
        let preempted = Waiting { has_begun: true, ..waiting(0, 0, 21, false) };
        queue.put_stolen(&line, 0, preempted);
        assert!(queue.put(&line, 0, waiting(1, 0, 20, false)).is_ok());
        assert_eq!(queue.lock().waiting(0), 1);
        let mut taken = Vec::new();
        queue.take(&line, LaneSet::ALL, 9, &mut taken);
        assert_eq!(ids(&taken), [1, 0]);
        assert_eq!(queue.lock().waiting(0), 0);
    }

    #[test]
    fn a_worker_without_contexts_finds_only_what_it_holds() {
        let (queue, line) = (OwnQueue::new(2, &[4, 4]), Line::<Plain>::default());
        assert_eq!(queue.put(&line, 0, waiting(0, 0, 0, false)), Ok(true));
        let held = |has_context| BesideQueue {
            requests: 1,
            lanes: LaneSet::of(1),
            has_context,
            blocked_up: false,
        };
        queue.hold(&line, held(true));
        assert_eq!(line.queue().behind.word(), 0b11);
        let put = |id, lane| queue.put(&line, lane, waiting(id, lane, 0, false));
        assert_eq!([put(1, 0), put(2, 1)], [Ok(false); 2], "it finds others there");
        queue.hold(&line, held(false));
        assert_eq!(line.queue().behind, LaneSet::of(1));
        assert_eq!((line.waiting().word(), line.queue().held), (0b11, 1));
        assert_eq!(put(3, 0), Ok(false), "it could not begin it");
    }
}
