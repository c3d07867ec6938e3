//! Bounded queues of waiting requests.
//!
//! A policy chooses how many *lanes* there are and in which one a request waits: one lane for all,
//! one per worker, one per type. However it chooses, the bound is per type: a type that has
//! reached its capacity is refused, and no other type notices. All lanes share one pool of
//! entries, so memory follows the sum of the capacities and not lanes times capacity.
//!
//! Where preempted requests go on at their homes alone, each lane is in parts: what any worker may
//! take up, and for each worker what is [suspended](super::homes) there. The next of a lane for a
//! worker is the earlier of two.
//!
//! ```text
//!   a lane      any worker:   3  5  6  9          worker 0 goes on with 2, and then begins 3
//!               worker 0:     2  7                worker 1 begins 3
//!               worker 1:     4
//! ```

use std::collections::VecDeque;

use super::homes::{Homes, Lanes};
use super::lists::{List, Lists};
use super::{Action, RequestId, SchedulerSetup, TypeStatus, WorkerId};
use crate::request_type::RequestType;

/// Entries for which memory is set aside at construction. Queues whose capacities add up to more
/// grow beyond it on demand.
const ENTRIES_PREALLOCATED_MAX: usize = 1 << 16;

/// Refused requests for which memory is set aside: as many as may arrive between two rounds of
/// polling without an allocation.
const REFUSED_PREALLOCATED: usize = 1024;

/// A request that waits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting {
    pub(super) request: RequestId,
    pub(super) request_type: RequestType,
    pub(super) arrived_ns: u64,
    /// For how long it ran before it was preempted; 0 for one that never ran.
    pub(super) served_ns: u64,
    /// The worker that it ran on, while it runs; while it waits, if that alone can go on with it.
    pub(super) home: Option<WorkerId>,
    /// Position in the order of arrival over all lanes.
    pub(super) sequence: u64,
    /// Position in its lane, between those that any worker may take up and those that are
    /// suspended.
    pub(super) rank: u64,
}

impl Waiting {
    /// For how long it has waited, before its first turn and between turns.
    pub(super) const fn waited_ns(&self, now_ns: u64) -> u64 {
        now_ns
            .saturating_sub(self.arrived_ns)
            .saturating_sub(self.served_ns)
    }
}

/// How many of one type wait, may wait and were refused.
#[derive(Debug, Clone, Copy)]
struct Admission {
    waiting: usize,
    capacity: usize,
    refused: u64,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Queues {
    /// What any worker may take up.
    lanes: Vec<List>,
    /// What is suspended.
    homes: Homes,
    lists: Lists<Waiting>,
    /// Per type slot, `UNKNOWN` last.
    admissions: Vec<Admission>,
    refused: VecDeque<(RequestId, RequestType)>,
    waiting: usize,
    sequence_next: u64,
}

impl Queues {
    /// Empty queues: these lanes, with the capacities of `setup`.
    pub(super) fn new(setup: &SchedulerSetup<'_>, lanes: Lanes) -> Self {
        let unknown = std::iter::once(setup.queue_capacity);
        let admissions: Vec<Admission> = setup
            .types
            .specs()
            .iter()
            .map(|spec| spec.queue_capacity.unwrap_or(setup.queue_capacity))
            .chain(unknown)
            .map(|capacity| Admission {
                waiting: 0,
                capacity,
                refused: 0,
            })
            .collect();
        let capacity_total = admissions
            .iter()
            .fold(0_usize, |total, slot| total.saturating_add(slot.capacity));
        // A preempted request is let in beyond the capacity; there are no more than workers.
        let entries = capacity_total.saturating_add(setup.workers);
        Self {
            lanes: vec![List::EMPTY; lanes.len()],
            homes: Homes::new(setup, lanes),
            lists: Lists::with_capacity(entries.min(ENTRIES_PREALLOCATED_MAX)),
            admissions,
            refused: VecDeque::with_capacity(REFUSED_PREALLOCATED),
            waiting: 0,
            sequence_next: 0,
        }
    }

    /// One queue per type slot.
    pub(super) fn typed(setup: &SchedulerSetup<'_>) -> Self {
        Self::new(setup, Lanes::shared(setup.types.len() + 1))
    }

    /// Place of `request_type` in per-type arrays; types that nobody registered are `UNKNOWN`.
    #[inline]
    pub(super) fn slot(&self, request_type: RequestType) -> usize {
        let unknown = self.admissions.len() - 1;
        request_type
            .index()
            .map_or(unknown, |index| index.min(unknown))
    }

    /// Queues a request at the end of `lane`, or keeps it for [`Queues::pop_refused`] when its
    /// type has no room left. Says whether it waits.
    #[inline]
    pub(super) fn push(
        &mut self,
        lane: usize,
        now_ns: u64,
        request: RequestId,
        request_type: RequestType,
    ) -> bool {
        let slot = self.slot(request_type);
        let admission = &mut self.admissions[slot];
        if admission.waiting >= admission.capacity {
            admission.refused += 1;
            self.refused.push_back((request, request_type));
            return false;
        }
        admission.waiting += 1;
        self.waiting += 1;
        let sequence = self.next_in_sequence();
        let waiting = Waiting {
            request,
            request_type,
            arrived_ns: now_ns,
            served_ns: 0,
            home: None,
            sequence,
            rank: sequence,
        };
        self.lists.push(&mut self.lanes[lane], waiting);
        true
    }

    #[inline]
    fn next_in_sequence(&mut self) -> u64 {
        let sequence = self.sequence_next;
        self.sequence_next += 1;
        sequence
    }

    /// Puts a request that was preempted back at the end of `lane`, whatever the capacity.
    pub(super) fn put_back_last(&mut self, lane: usize, waiting: Waiting) {
        let rank = self.next_in_sequence();
        let home = self.count_in(&waiting);
        let waiting = Waiting {
            rank,
            home,
            ..waiting
        };
        self.append(lane, waiting);
    }

    /// Puts a request that was preempted back to where `lane` starts, behind those alone that
    /// arrived before it, whatever the capacity. Those are mostly others that were put back, as
    /// many as there are workers or their contexts; more when what waits was another policy's.
    pub(super) fn put_back_first(&mut self, lane: usize, waiting: Waiting) {
        let rank = waiting.sequence;
        let home = self.count_in(&waiting);
        let waiting = Waiting {
            rank,
            home,
            ..waiting
        };
        if home.is_some() {
            self.append(lane, waiting);
        } else {
            let later = |other: &Waiting| other.sequence > waiting.sequence;
            self.lists.insert(&mut self.lanes[lane], waiting, later);
        }
    }

    /// Moves the first request of one lane that any worker may take up to the end of another, if
    /// there is any.
    pub(super) fn move_first(&mut self, from: usize, to: usize) {
        if let Some(waiting) = self.pop(from) {
            self.put_back_last(to, waiting);
        }
    }

    /// Moves the first request of one lane that is suspended on `worker` to the end of another.
    pub(super) fn move_first_at(&mut self, worker: WorkerId, from: usize, to: usize) {
        if let Some(waiting) = self.pop_at(from, worker) {
            self.put_back_last(to, waiting);
        }
    }

    /// Takes note of a request that waits again; its home, if requests have any.
    fn count_in(&mut self, waiting: &Waiting) -> Option<WorkerId> {
        let slot = self.slot(waiting.request_type);
        self.admissions[slot].waiting += 1;
        self.waiting += 1;
        waiting.home.filter(|_| self.homes.exist())
    }

    #[inline]
    fn count_out(&mut self, waiting: &Waiting) {
        let slot = self.slot(waiting.request_type);
        self.admissions[slot].waiting -= 1;
        self.waiting -= 1;
    }

    /// Puts a request behind those of its part of the lane; one that is suspended by its rank.
    fn append(&mut self, lane: usize, waiting: Waiting) {
        match waiting.home {
            Some(home) => self.homes.insert(&mut self.lists, lane, home, waiting),
            None => self.lists.push(&mut self.lanes[lane], waiting),
        }
    }

    /// Divides what waits into `lanes` anew, in order of arrival. What waits in `self` is that of
    /// another policy; its capacities and counts stay, and so do the homes of its requests.
    /// Allocates.
    pub(super) fn into_lanes(
        mut self,
        lanes: Lanes,
        mut lane_of: impl FnMut(&Waiting) -> usize,
    ) -> Self {
        let lists = self.lanes.iter().chain(self.homes.lists());
        let mut all: Vec<Waiting> = lists
            .flat_map(|list| self.lists.iter(list).copied())
            .collect();
        all.sort_unstable_by_key(|waiting| waiting.sequence);
        self.lanes.clear();
        self.lanes.resize(lanes.len(), List::EMPTY);
        self.homes = self.homes.emptied(lanes);
        self.lists.clear();
        for waiting in all {
            let lane = lane_of(&waiting);
            let rank = waiting.sequence;
            self.append(lane, Waiting { rank, ..waiting });
        }
        self
    }

    /// [`Queues::into_lanes`] with what waits in one lane per type slot, and `further` empty lanes
    /// behind those.
    pub(super) fn into_typed(self, further: usize) -> Self {
        let unknown = self.admissions.len() - 1;
        let slot = move |waiting: &Waiting| {
            let index = waiting.request_type.index();
            index.map_or(unknown, |index| index.min(unknown))
        };
        self.into_lanes(Lanes::shared(unknown + 1 + further), slot)
    }

    /// How many requests wait in all lanes.
    pub(super) fn len(&self) -> usize {
        self.waiting
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// How many requests wait in all lanes that any worker may take up.
    pub(super) fn unbound(&self) -> usize {
        self.waiting - self.homes.total()
    }

    /// How many requests wait of the type at `slot`.
    pub(super) fn queued(&self, slot: usize) -> usize {
        self.admissions[slot].waiting
    }

    /// How many requests wait in `lane` that any worker may take up.
    pub(super) fn lane_len(&self, lane: usize) -> usize {
        self.lanes[lane].len()
    }

    /// How many requests wait in `lane` that are suspended on `worker`.
    pub(super) fn lane_len_at(&self, lane: usize, worker: WorkerId) -> usize {
        self.homes.list(lane, worker).map_or(0, List::len)
    }

    /// Takes the first request of `lane` that any worker may take up.
    #[inline]
    pub(super) fn pop(&mut self, lane: usize) -> Option<Waiting> {
        let waiting = self.lists.pop(&mut self.lanes[lane])?;
        self.count_out(&waiting);
        Some(waiting)
    }

    /// The first request of `lane` that any worker may take up, left in place.
    #[inline]
    pub(super) fn front(&self, lane: usize) -> Option<&Waiting> {
        self.lists.first(&self.lanes[lane])
    }

    /// Takes the first request of `lane` that is suspended on `worker`.
    pub(super) fn pop_at(&mut self, lane: usize, worker: WorkerId) -> Option<Waiting> {
        let waiting = self.homes.pop(&mut self.lists, lane, worker)?;
        self.count_out(&waiting);
        Some(waiting)
    }

    /// The first request of `lane` that is suspended on `worker`, left in place.
    pub(super) fn front_at(&self, lane: usize, worker: WorkerId) -> Option<&Waiting> {
        self.lists.first(self.homes.list(lane, worker)?)
    }

    /// The next request of `lane` for `worker`, which is idle; left in place.
    pub(super) fn next_for(&self, lane: usize, worker: WorkerId) -> Option<&Waiting> {
        self.earlier(lane, worker, self.homes.has_context(worker))
    }

    /// The next request of `lane` for `worker`, if it suspends what it runs.
    pub(super) fn next_behind(&self, lane: usize, worker: WorkerId) -> Option<&Waiting> {
        self.earlier(lane, worker, self.homes.has_another_context(worker))
    }

    fn earlier(&self, lane: usize, worker: WorkerId, begins: bool) -> Option<&Waiting> {
        let new = self.front(lane).filter(|_| begins);
        let suspended = self.front_at(lane, worker);
        new.into_iter()
            .chain(suspended)
            .min_by_key(|waiting| waiting.rank)
    }

    /// Takes [`Queues::next_for`].
    pub(super) fn pop_for(&mut self, lane: usize, worker: WorkerId) -> Option<Waiting> {
        match self.next_for(lane, worker)?.home {
            Some(home) => self.pop_at(lane, home),
            None => self.pop(lane),
        }
    }

    /// Whether any request is suspended.
    #[inline]
    pub(super) const fn any_suspended(&self) -> bool {
        self.homes.total() > 0
    }

    /// How many requests are suspended on `worker`.
    #[inline]
    pub(super) fn suspended(&self, worker: WorkerId) -> usize {
        self.homes.suspended(worker)
    }

    /// Whether `worker`, when it is idle, can begin a request.
    #[inline]
    pub(super) fn has_context(&self, worker: WorkerId) -> bool {
        self.homes.has_context(worker)
    }

    /// Whether `worker` can begin a request if it suspends what it runs.
    pub(super) fn has_another_context(&self, worker: WorkerId) -> bool {
        self.homes.has_another_context(worker)
    }

    /// The one of `lanes` whose first request arrived first, of those that any worker may take up.
    #[inline]
    pub(super) fn oldest(&self, lanes: impl IntoIterator<Item = usize>) -> Option<usize> {
        lanes
            .into_iter()
            .filter_map(|lane| Some((self.front(lane)?.sequence, lane)))
            .min()
            .map(|(_, lane)| lane)
    }

    /// Of the first requests of `lanes` that any worker may take up, the one that arrived first.
    pub(super) fn first_of(&self, lanes: &[usize]) -> Option<&Waiting> {
        self.front(self.oldest(lanes.iter().copied())?)
    }

    /// Of the first requests of `lanes` that are suspended on `worker`, the one that arrived
    /// first; its lane, too.
    pub(super) fn first_at(
        &self,
        lanes: impl IntoIterator<Item = usize>,
        worker: WorkerId,
    ) -> Option<(usize, &Waiting)> {
        lanes
            .into_iter()
            .filter_map(|lane| Some((lane, self.front_at(lane, worker)?)))
            .min_by_key(|(_, waiting)| waiting.sequence)
    }

    /// The next refused request as an action for the driver.
    #[inline]
    pub(super) fn pop_refused(&mut self) -> Option<Action> {
        let (request, request_type) = self.refused.pop_front()?;
        Some(Action::Reject {
            request,
            request_type,
        })
    }

    /// Nothing, in place of what another scheduler takes over.
    pub(super) fn take(&mut self) -> Self {
        let nothing = Self {
            lanes: Vec::new(),
            homes: self.homes.emptied(Lanes::shared(0)),
            lists: Lists::with_capacity(0),
            admissions: self.admissions.clone(),
            refused: VecDeque::new(),
            waiting: 0,
            sequence_next: 0,
        };
        std::mem::replace(self, nothing)
    }

    /// How many requests of the type at `slot` wait and were refused; nothing else.
    pub(super) fn type_status(&self, slot: usize) -> TypeStatus {
        let admission = &self.admissions[slot];
        TypeStatus {
            queued: admission.waiting,
            rejections: admission.refused,
            ..TypeStatus::default()
        }
    }
}

#[cfg(test)]
impl Waiting {
    /// Some request that never ran.
    pub(super) const fn example() -> Self {
        Self {
            request: RequestId(0),
            request_type: RequestType::UNKNOWN,
            arrived_ns: 0,
            served_ns: 0,
            home: None,
            sequence: 0,
            rank: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::request_type::{TypeSpec, TypeTable};

    const SHORT: RequestType = RequestType::new(0);
    const LONG: RequestType = RequestType::new(1);

    fn queues(lanes: usize) -> Queues {
        let types: TypeTable = [
            TypeSpec::new("SHORT").queue_capacity(2),
            TypeSpec::new("LONG"),
        ]
        .into_iter()
        .collect();
        let setup = SchedulerSetup {
            inline: false,
            workers: 1,
            types: &types,
            queue_capacity: 3,
            preemption: None,
            seed: 0,
        };
        Queues::new(&setup, Lanes::shared(lanes))
    }

    fn pop_all(queues: &mut Queues, lane: usize) -> Vec<u32> {
        std::iter::from_fn(|| queues.pop(lane))
            .map(|waiting| waiting.request.0)
            .collect()
    }

    #[test]
    fn the_bound_is_per_type_whatever_the_lane() {
        let mut queues = queues(2);
        let pushed: Vec<bool> = [(0, SHORT), (1, SHORT), (0, SHORT), (0, LONG), (1, LONG)]
            .into_iter()
            .zip(0..)
            .map(|((lane, request_type), id)| queues.push(lane, 0, RequestId(id), request_type))
            .collect();
        assert_eq!(pushed, [true, true, false, true, true]);
        let counts = |slot| {
            let status = queues.type_status(slot);
            (status.queued, status.rejections)
        };
        assert_eq!((counts(0), counts(1)), ((2, 1), (2, 0)));
        assert_eq!(
            queues.pop_refused(),
            Some(Action::Reject {
                request: RequestId(2),
                request_type: SHORT
            })
        );
        assert_eq!(queues.pop_refused(), None);
        assert_eq!(pop_all(&mut queues, 0), [0, 3]);
        assert_eq!(pop_all(&mut queues, 1), [1, 4]);
        assert!(queues.is_empty());
    }

    #[test]
    fn a_request_that_moves_to_another_lane_is_counted_once() {
        let mut queues = queues(2);
        for id in 0..3 {
            queues.push(0, 0, RequestId(id), LONG);
        }
        queues.move_first(0, 1);
        queues.move_first(0, 1);
        assert_eq!((queues.lane_len(0), queues.lane_len(1)), (1, 2));
        assert_eq!((queues.len(), queues.type_status(1).queued), (3, 3));
        assert_eq!(pop_all(&mut queues, 1), [0, 1]);
        queues.move_first(1, 0);
        assert_eq!((queues.lane_len(0), queues.lane_len(1)), (1, 0));
    }

    #[test]
    fn oldest_follows_the_order_of_arrival() {
        let mut queues = queues(2);
        queues.push(1, 7, RequestId(0), LONG);
        queues.push(0, 7, RequestId(1), SHORT);
        assert_eq!(queues.oldest([0, 1]), Some(1));
        assert_eq!(queues.oldest([0]), Some(0));
        queues.pop(1);
        assert_eq!(queues.oldest([0, 1]), Some(0));
        assert_eq!(queues.oldest([1]), None);
    }

    #[test]
    fn unregistered_types_share_the_unknown_slot() {
        let queues = queues(1);
        assert_eq!(queues.slot(RequestType::UNKNOWN), 2);
        assert_eq!(queues.slot(RequestType::new(2)), 2);
        assert_eq!(queues.slot(RequestType::new(1 << 30)), 2);
    }

    #[test]
    fn what_was_preempted_goes_before_what_arrived_later() {
        let mut queues = queues(1);
        for id in 0..3 {
            queues.push(0, 0, RequestId(id), LONG);
        }
        let [first, second] = [0, 1].map(|_| queues.pop(0).unwrap());
        queues.put_back_first(0, first);
        queues.put_back_first(0, second);
        assert_eq!(pop_all(&mut queues, 0), [0, 1, 2]);
        queues.put_back_first(0, second);
        queues.put_back_last(0, first);
        assert_eq!(pop_all(&mut queues, 0), [1, 0]);
    }

    #[test]
    fn what_was_preempted_counts_and_is_let_in_when_the_queue_is_full() {
        let mut queues = queues(1);
        queues.push(0, 0, RequestId(0), SHORT);
        let preempted = queues.pop(0).unwrap();
        queues.push(0, 0, RequestId(1), SHORT);
        queues.push(0, 0, RequestId(2), SHORT);
        queues.put_back_last(0, preempted);
        assert_eq!(queues.type_status(0).queued, 3);
        assert!(!queues.push(0, 0, RequestId(3), SHORT));
        assert_eq!(pop_all(&mut queues, 0), [1, 2, 0]);
        assert!(queues.is_empty());
    }

    #[test]
    fn everything_moves_when_another_takes_over() {
        let mut before = queues(3);
        for (id, request_type) in [(0, SHORT), (1, LONG), (2, RequestType::UNKNOWN)] {
            before.push(2 - id as usize, 7, RequestId(id), request_type);
        }
        for id in 3..5 {
            before.push(0, 7, RequestId(id), SHORT);
        }
        let mut after = before.take().into_lanes(Lanes::shared(1), |_| 0);
        assert_eq!((before.len(), before.pop_refused()), (0, None));
        let refused = after.pop_refused();
        assert!(matches!(refused, Some(Action::Reject { request, .. }) if request.0 == 4));
        assert_eq!(after.type_status(0).rejections, 1);
        assert!(!after.push(0, 8, RequestId(5), SHORT), "still full");
        assert!(after.push(0, 8, RequestId(6), LONG));
        assert_eq!(pop_all(&mut after, 0), [0, 1, 2, 3, 6]);

        after.push(0, 9, RequestId(7), RequestType::new(9));
        after.push(0, 9, RequestId(8), SHORT);
        let mut typed = after.take().into_typed(0);
        assert_eq!(pop_all(&mut typed, 0), [8]);
        assert_eq!(pop_all(&mut typed, 2), [7], "nobody registered it");
    }

    /// What happens to a lane.
    #[derive(Debug, Clone, Copy)]
    enum Step {
        Push,
        Pop,
        /// What was popped is put back, the n-th of it.
        PutBackFirst(usize),
        PutBackLast(usize),
        /// All lanes are merged, and divided anew.
        Redivide,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => Just(Step::Push),
            4 => Just(Step::Pop),
            2 => any::<usize>().prop_map(Step::PutBackFirst),
            2 => any::<usize>().prop_map(Step::PutBackLast),
            1 => Just(Step::Redivide),
        ]
    }

    const LANES: usize = 3;

    proptest! {
        /// Against plain lists of ids, which ascend in order of arrival.
        #[test]
        fn agrees_with_lists(steps in prop::collection::vec((step(), 0..LANES), 0..200)) {
            let types = TypeTable::new();
            let setup = SchedulerSetup {
                inline: false,
                workers: 1,
                types: &types,
                queue_capacity: usize::MAX,
                preemption: None,
                seed: 0,
            };
            let mut queues = Queues::new(&setup, Lanes::shared(LANES));
            let mut plain = vec![Vec::new(); LANES];
            let mut popped = Vec::new();
            for (id, (step, lane)) in (0..).zip(steps) {
                let list = &mut plain[lane];
                match step {
                    Step::Push => {
                        queues.push(lane, 0, RequestId(id), RequestType::UNKNOWN);
                        list.push(id);
                    }
                    Step::Pop => {
                        let expected = (!list.is_empty()).then(|| list.remove(0));
                        let waiting = queues.pop(lane);
                        prop_assert_eq!(waiting.map(|waiting| waiting.request.0), expected);
                        popped.extend(waiting);
                    }
                    Step::PutBackFirst(_) | Step::PutBackLast(_) if popped.is_empty() => {}
                    Step::PutBackFirst(nth) => {
                        let waiting = popped.swap_remove(nth % popped.len());
                        queues.put_back_first(lane, waiting);
                        let id = waiting.request.0;
                        let later = list.iter().position(|&other| other > id);
                        list.insert(later.unwrap_or(list.len()), id);
                    }
                    Step::PutBackLast(nth) => {
                        let waiting = popped.swap_remove(nth % popped.len());
                        queues.put_back_last(lane, waiting);
                        list.push(waiting.request.0);
                    }
                    Step::Redivide => {
                        let lane_of = |id: u32| (id as usize + lane) % LANES;
                        queues = queues.into_lanes(Lanes::shared(LANES), |waiting| lane_of(waiting.request.0));
                        let mut all = plain.concat();
                        all.sort_unstable();
                        plain = vec![Vec::new(); LANES];
                        for id in all {
                            plain[lane_of(id)].push(id);
                        }
                    }
                }
                prop_assert_eq!(queues.len(), plain.concat().len());
                prop_assert_eq!(queues.type_status(0).queued, queues.len());
                for (lane, list) in plain.iter().enumerate() {
                    let waiting = queues.lists.iter(&queues.lanes[lane]);
                    let ids: Vec<u32> = waiting.map(|waiting| waiting.request.0).collect();
                    prop_assert_eq!(&ids, list);
                }
            }
        }
    }
}
