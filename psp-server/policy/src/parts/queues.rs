//! Bounded queues of waiting requests.
//!
//! A policy chooses how many *lanes* there are and in which one a request waits: one lane for all,
//! one per worker, one per type. The bound is per type in each case: a type that has reached its
//! capacity is refused, and no other type is affected. All lanes share one pool of
//! entries, so memory follows the sum of the capacities and not lanes times capacity.
//!
//! Where only its home worker can resume a request, each lane has parts: the requests that any worker
//! may run, and for each worker the requests that are [suspended](crate::parts::suspended) there. A
//! worker's next request of a lane is the earlier of two.
//!
//! ```text
//!   a lane      any worker:   3  5  6  9          worker 0 goes on with 2, and then begins 3
//!               worker 0:     2  7                worker 1 begins 3
//!               worker 1:     4
//! ```
//!
//! A [blocked](crate::parts::blocked) request waits in no lane, and does not count against its type's
//! capacity. It goes back to where a lane starts.
//!
//! Requests that have deadlines of their own wait in their lanes like others. A policy that goes by
//! deadlines keeps those that any worker may run [apart](Queues::by_deadline), in the order of their
//! deadlines.

use std::collections::VecDeque;

use crate::backlog::{Backlog, BacklogRequest, RequestState};
use crate::event::{Action, RequestId, WorkerId};
use crate::parts::blocked::{Blocked, BlockedRequest};
use crate::parts::by_deadline::ByDeadline;
use crate::parts::lists::{List, Lists};
use crate::parts::suspended::{Lanes, Suspended};
use crate::parts::waiting::Waiting;
use crate::request_type::RequestType;
use crate::scheduler::TypeStatus;
use crate::setup::SchedulerSetup;

/// Entries for which memory is set aside at construction. Queues whose capacities add up to more
/// grow beyond it on demand.
const ENTRIES_PREALLOCATED_MAX: usize = 1 << 16;

/// Refused requests for which memory is set aside: as many as may arrive between two rounds of
/// polling without an allocation.
const REFUSED_PREALLOCATED: usize = 1024;

/// How many of one type wait, are blocked, may wait and were refused.
#[derive(Debug, Clone, Copy)]
struct Admission {
    waiting: usize,
    blocked: usize,
    capacity: usize,
    refused: u64,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Queues {
    /// What any worker may take up.
    lanes: Vec<List>,
    /// What is suspended.
    suspended: Suspended,
    blocked: Blocked,
    lists: Lists<Waiting>,
    /// Where requests with deadlines of their own wait that any worker may run, if not in their lanes.
    /// Empty, or one for each lane.
    by_deadline: Vec<ByDeadline>,
    /// Per type slot, `UNKNOWN` last.
    admissions: Vec<Admission>,
    refused: VecDeque<(RequestId, RequestType)>,
    waiting: usize,
    sequence_next: u64,
}

impl Queues {
    /// Empty queues: these lanes, with the capacities of `setup`.
    pub(crate) fn new(setup: &SchedulerSetup<'_>, lanes: Lanes) -> Self {
        let unknown = std::iter::once(setup.queue_capacity);
        let admissions: Vec<Admission> = setup
            .types
            .specs()
            .iter()
            .map(|spec| spec.queue_capacity.unwrap_or(setup.queue_capacity))
            .chain(unknown)
            .map(|capacity| Admission { waiting: 0, blocked: 0, capacity, refused: 0 })
            .collect();
        let capacity_total = admissions.iter().fold(0_usize, |total, slot| total.saturating_add(slot.capacity));
        // A preempted request is let in beyond the capacity; there are no more than workers.
        let entries = capacity_total.saturating_add(setup.workers);
        Self {
            lanes: vec![List::EMPTY; lanes.len()],
            suspended: Suspended::new(setup, lanes),
            blocked: Blocked::new(),
            lists: Lists::with_capacity(entries.min(ENTRIES_PREALLOCATED_MAX)),
            by_deadline: Vec::new(),
            admissions,
            refused: VecDeque::with_capacity(REFUSED_PREALLOCATED),
            waiting: 0,
            sequence_next: 0,
        }
    }

    /// One queue per type slot.
    pub(crate) fn typed(setup: &SchedulerSetup<'_>) -> Self {
        Self::new(setup, Lanes::shared(setup.types.len() + 1))
    }

    /// Keeps requests apart that have deadlines of their own: they leave by [`Queues::pop_due`] instead
    /// of through their lanes. For queues with one lane per type slot, in which nothing waits yet.
    pub(crate) fn by_deadline(self) -> Self {
        let share_max = ENTRIES_PREALLOCATED_MAX / self.admissions.len();
        let entries = self.admissions.iter();
        let entries = entries.map(|slot| slot.capacity.min(share_max));
        Self {
            by_deadline: entries.map(ByDeadline::with_capacity).collect(),
            ..self
        }
    }

    /// Workers `0..present` are present, and no others: an absent worker begins no request.
    pub(crate) const fn set_present(&mut self, present: usize) {
        self.suspended.set_present(present);
    }

    /// Whether `worker` is present.
    pub(crate) const fn is_present(&self, worker: WorkerId) -> bool {
        self.suspended.is_present(worker)
    }

    /// Whether a request that `worker` gave up waits in the worker's own lane: the worker is present, or it
    /// alone can resume the request.
    pub(crate) const fn keeps(&self, worker: WorkerId, waiting: &Waiting) -> bool {
        self.is_present(worker) || (self.suspended.exist() && waiting.home.is_some())
    }

    /// The same of a request that was blocked on `worker`.
    pub(crate) const fn keeps_blocked(&self, worker: WorkerId) -> bool {
        self.is_present(worker) || self.suspended.exist()
    }

    /// Place of `request_type` in per-type arrays; types that are not registered are `UNKNOWN`.
    #[inline]
    pub(crate) fn slot(&self, request_type: RequestType) -> usize {
        let unknown = self.admissions.len() - 1;
        request_type.index().map_or(unknown, |index| index.min(unknown))
    }

    /// Queues a request at the end of `lane`, or keeps it for [`Queues::pop_refused`] when its
    /// type has no room left. Says whether it waits.
    #[inline]
    pub(crate) fn push(
        &mut self,
        lane: usize,
        now_ns: u64,
        request: RequestId,
        request_type: RequestType,
        deadline_ns: Option<u64>,
    ) -> bool {
        self.push_from(lane, now_ns, request, request_type, deadline_ns, false)
    }

    /// As [`Queues::push`], of a request that may have been handed over to the worker of the lane.
    #[inline]
    pub(crate) fn push_from(
        &mut self,
        lane: usize,
        now_ns: u64,
        request: RequestId,
        request_type: RequestType,
        deadline_ns: Option<u64>,
        handed_over: bool,
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
            deadline_ns,
            served_ns: 0,
            blocked_ns: 0,
            handed_over,
            home: None,
            sequence,
            rank: sequence,
        };
        self.append_new(lane, waiting);
        true
    }

    /// Puts a request that any worker may run at the end of its lane, or where it is due.
    #[inline]
    fn append_new(&mut self, lane: usize, waiting: Waiting) {
        match (waiting.deadline_ns, self.by_deadline.get_mut(lane)) {
            (Some(deadline_ns), Some(due)) => due.push(deadline_ns, waiting),
            _ => self.lists.push(&mut self.lanes[lane], waiting),
        }
    }

    #[inline]
    fn next_in_sequence(&mut self) -> u64 {
        let sequence = self.sequence_next;
        self.sequence_next += 1;
        sequence
    }

    /// Puts a request that was preempted back at the end of `lane`, whatever the capacity.
    pub(crate) fn put_back_last(&mut self, lane: usize, waiting: Waiting) {
        let rank = self.next_in_sequence();
        let home = self.count_in(&waiting);
        let waiting = Waiting { rank, home, ..waiting };
        self.append(lane, waiting);
    }

    /// Puts a request that was preempted or blocked back to where `lane` starts, behind those alone that
    /// arrived before it, whatever the capacity. Those are mostly others that were put back, as
    /// many as there are workers or their contexts; more when what waits was another policy's.
    pub(crate) fn put_back_first(&mut self, lane: usize, waiting: Waiting) {
        let rank = waiting.sequence;
        let home = self.count_in(&waiting);
        let waiting = Waiting { rank, home, ..waiting };
        let is_due = waiting.deadline_ns.is_some() && !self.by_deadline.is_empty();
        if home.is_some() || is_due {
            self.append(lane, waiting);
        } else {
            let later = |other: &Waiting| other.sequence > waiting.sequence;
            self.lists.insert(&mut self.lanes[lane], waiting, later);
        }
    }

    /// Moves the first request of one lane that any worker may take up to the end of another, if
    /// there is any.
    pub(crate) fn move_first(&mut self, from: usize, to: usize) {
        if let Some(waiting) = self.pop(from) {
            self.put_back_last(to, waiting);
        }
    }

    /// Moves the first request of one lane that is suspended on `worker` to the end of another.
    pub(crate) fn move_first_at(&mut self, worker: WorkerId, from: usize, to: usize) {
        if let Some(waiting) = self.pop_at(from, worker) {
            self.put_back_last(to, waiting);
        }
    }

    /// Moves the first request of one lane that any worker may take up to its place in another: behind those
    /// that arrived before it.
    pub(crate) fn move_first_in_order(&mut self, from: usize, to: usize) {
        if let Some(waiting) = self.pop(from) {
            self.put_back_first(to, waiting);
        }
    }

    /// Keeps a request that is blocked and ran on `home`.
    pub(crate) fn block(&mut self, now_ns: u64, home: WorkerId, waiting: Waiting) {
        let slot = self.slot(waiting.request_type);
        self.admissions[slot].blocked += 1;
        self.suspended.block(home);
        self.blocked.insert(BlockedRequest { waiting, home, since_ns: now_ns });
    }

    /// Takes a request that is blocked no longer. Its home is where it ran last.
    ///
    /// # Panics
    ///
    /// When it was not blocked: the driver reported nonsense, and to go on would lose a request or
    /// run it twice.
    pub(crate) fn unblock(&mut self, now_ns: u64, request: RequestId) -> Waiting {
        let Some(blocked) = self.blocked.take(request) else {
            never_blocked(request);
        };
        let BlockedRequest { waiting, home, since_ns } = blocked;
        let slot = self.slot(waiting.request_type);
        self.admissions[slot].blocked -= 1;
        self.suspended.unblock(home);
        let blocked_ns = now_ns.saturating_sub(since_ns);
        Waiting {
            home: Some(home),
            blocked_ns: waiting.blocked_ns.saturating_add(blocked_ns),
            ..waiting
        }
    }

    /// A blocked request.
    ///
    /// # Panics
    ///
    /// As [`Queues::unblock`].
    pub(crate) fn blocked_request(&self, request: RequestId) -> &BlockedRequest {
        let blocked = self.blocked.get(request);
        blocked.unwrap_or_else(|| never_blocked(request))
    }

    /// How many requests of the type at `slot` are blocked.
    pub(crate) fn blocked(&self, slot: usize) -> usize {
        self.admissions[slot].blocked
    }

    /// Counts a request that waits again. Returns its home worker, if requests have any.
    fn count_in(&mut self, waiting: &Waiting) -> Option<WorkerId> {
        let slot = self.slot(waiting.request_type);
        self.admissions[slot].waiting += 1;
        self.waiting += 1;
        waiting.home.filter(|_| self.suspended.exist())
    }

    #[inline]
    fn count_out(&mut self, waiting: &Waiting) {
        let slot = self.slot(waiting.request_type);
        self.admissions[slot].waiting -= 1;
        self.waiting -= 1;
    }

    /// Puts a request at the end of its part of the lane; a suspended one into its place by rank.
    fn append(&mut self, lane: usize, waiting: Waiting) {
        match waiting.home {
            Some(home) => self.suspended.insert(lane, home, waiting),
            None => self.append_new(lane, waiting),
        }
    }

    /// Puts what waits in `backlog` into the lanes that `lane_of` says, in order of arrival, and
    /// takes over what is blocked, and its refusals. These queues have held nothing yet.
    pub(crate) fn fill(&mut self, backlog: &Backlog, mut lane_of: impl FnMut(&Waiting) -> usize) {
        for (rank, request) in (0..).zip(&backlog.requests) {
            let home = match request.state {
                RequestState::Running { .. } => continue,
                RequestState::Waiting => None,
                RequestState::Suspended { home } => Some(home),
                RequestState::Blocked { home, since_ns } => {
                    self.block(since_ns, home, Waiting::of(request, rank, None));
                    continue;
                }
            };
            let mut waiting = Waiting::of(request, rank, home);
            waiting.home = self.count_in(&waiting);
            self.append(lane_of(&waiting), waiting);
        }
        self.sequence_next = backlog.requests.len() as u64;
        self.refused.extend(&backlog.refused);
        for (admission, rejections) in self.admissions.iter_mut().zip(&backlog.rejections) {
            admission.refused = *rejections;
        }
    }

    /// [`Queues::fill`] for queues with one lane per type slot.
    pub(crate) fn fill_typed(&mut self, backlog: &Backlog) {
        let unknown = self.admissions.len() - 1;
        self.fill(backlog, |waiting| {
            let index = waiting.request_type.index();
            index.map_or(unknown, |index| index.min(unknown))
        });
    }

    /// What waits, in order of arrival.
    pub(crate) fn waiting(&self) -> Vec<Waiting> {
        let lists = self.lanes.iter();
        let mut all: Vec<Waiting> = lists
            .flat_map(|list| self.lists.iter(list))
            .chain(self.suspended.iter())
            .chain(self.by_deadline.iter().flat_map(ByDeadline::iter))
            .copied()
            .collect();
        all.sort_unstable_by_key(|waiting| waiting.sequence);
        all
    }

    /// What is blocked, as part of a backlog, each with its place in the order of arrival.
    pub(crate) fn all_blocked(&self) -> impl Iterator<Item = (u64, BacklogRequest)> {
        self.blocked.iter().map(|blocked| {
            let BlockedRequest { waiting, home, since_ns } = *blocked;
            let state = RequestState::Blocked { home, since_ns };
            (waiting.sequence, waiting.in_state(state))
        })
    }

    /// Refusals that the driver has not polled, and the number of refusals per type slot.
    pub(crate) fn refusals(&self) -> (Vec<(RequestId, RequestType)>, Vec<u64>) {
        let counts = self.admissions.iter().map(|admission| admission.refused);
        (self.refused.iter().copied().collect(), counts.collect())
    }

    /// How many requests wait in all lanes.
    pub(crate) fn len(&self) -> usize {
        self.waiting
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// How many requests wait in all lanes that any worker may take up.
    pub(crate) fn unbound(&self) -> usize {
        self.waiting - self.suspended.total()
    }

    /// How many requests wait of the type at `slot`.
    pub(crate) fn queued(&self, slot: usize) -> usize {
        self.admissions[slot].waiting
    }

    /// How many requests wait in `lane` that any worker may take up.
    pub(crate) fn lane_len(&self, lane: usize) -> usize {
        self.lanes[lane].len()
    }

    /// How many requests wait in `lane` that are suspended on `worker`.
    pub(crate) fn lane_len_at(&self, lane: usize, worker: WorkerId) -> usize {
        self.suspended.len(lane, worker)
    }

    /// Takes the first request of `lane` that any worker may take up.
    #[inline]
    pub(crate) fn pop(&mut self, lane: usize) -> Option<Waiting> {
        let waiting = self.lists.pop(&mut self.lanes[lane])?;
        self.count_out(&waiting);
        Some(waiting)
    }

    /// The first request of `lane` that any worker may take up, left in place.
    #[inline]
    pub(crate) fn front(&self, lane: usize) -> Option<&Waiting> {
        self.lists.first(&self.lanes[lane])
    }

    /// The request that is due first, of those that wait [apart](Queues::by_deadline) from `lane`; left in place.
    pub(crate) fn first_due(&self, lane: usize) -> Option<&Waiting> {
        self.by_deadline.get(lane)?.first()
    }

    /// Takes [`Queues::first_due`].
    pub(crate) fn pop_due(&mut self, lane: usize) -> Option<Waiting> {
        let waiting = self.by_deadline.get_mut(lane)?.pop()?;
        self.count_out(&waiting);
        Some(waiting)
    }

    /// Takes the first request of `lane` that is suspended on `worker`.
    pub(crate) fn pop_at(&mut self, lane: usize, worker: WorkerId) -> Option<Waiting> {
        let waiting = self.suspended.pop(lane, worker)?;
        self.count_out(&waiting);
        Some(waiting)
    }

    /// The first request of `lane` that is suspended on `worker`, left in place.
    pub(crate) fn front_at(&self, lane: usize, worker: WorkerId) -> Option<&Waiting> {
        self.suspended.first(lane, worker)
    }

    /// The next request of `lane` for `worker`, which is idle; left in place.
    pub(crate) fn next_for(&self, lane: usize, worker: WorkerId) -> Option<&Waiting> {
        self.earlier(lane, worker, self.suspended.has_context(worker))
    }

    /// The next request of `lane` for `worker`, if it suspends what it runs.
    pub(crate) fn next_behind(&self, lane: usize, worker: WorkerId) -> Option<&Waiting> {
        self.earlier(lane, worker, self.suspended.has_another_context(worker))
    }

    fn earlier(&self, lane: usize, worker: WorkerId, begins: bool) -> Option<&Waiting> {
        let new = self.front(lane).filter(|_| begins);
        let suspended = self.front_at(lane, worker);
        new.into_iter().chain(suspended).min_by_key(|waiting| waiting.rank)
    }

    /// Takes [`Queues::next_for`].
    pub(crate) fn pop_for(&mut self, lane: usize, worker: WorkerId) -> Option<Waiting> {
        match self.next_for(lane, worker)?.home {
            Some(home) => self.pop_at(lane, home),
            None => self.pop(lane),
        }
    }

    /// Whether `worker`, which is idle, finds something in its own lane.
    pub(crate) fn can_run_own(&self, worker: WorkerId) -> bool {
        self.next_for(worker.index(), worker).is_some()
    }

    /// Whether `worker` finds something in its own lane if it suspends what it runs.
    pub(crate) fn waits_behind(&self, worker: WorkerId) -> bool {
        self.next_behind(worker.index(), worker).is_some()
    }

    /// Whether any request is suspended.
    #[inline]
    pub(crate) const fn any_suspended(&self) -> bool {
        self.suspended.total() > 0
    }

    /// Whether all workers are present.
    pub(crate) const fn all_present(&self) -> bool {
        self.suspended.all_present()
    }

    /// Whether any request is suspended, or some worker may lack a context to begin another. Otherwise any worker
    /// that is present can take up whatever waits.
    #[inline]
    pub(crate) const fn any_bound(&self) -> bool {
        self.suspended.bind_any()
    }

    /// Whether only its home worker can resume a request.
    pub(crate) const fn have_homes(&self) -> bool {
        self.suspended.exist()
    }

    /// Whether `worker` can begin nothing, and is not going to until a blocked request has ended.
    pub(crate) fn is_blocked_up(&self, worker: WorkerId) -> bool {
        self.suspended.all_blocked(worker)
    }

    /// Whether some worker is the home of a request that does not run, or may lack a context to begin another.
    #[inline]
    pub(crate) const fn needs_any(&self) -> bool {
        self.suspended.needs_any()
    }

    /// Whether `worker` is the home of no request that does not run.
    #[inline]
    pub(crate) fn is_free(&self, worker: WorkerId) -> bool {
        self.suspended.is_free(worker)
    }

    /// How many requests are suspended on `worker`.
    #[inline]
    pub(crate) fn suspended(&self, worker: WorkerId) -> usize {
        self.suspended.suspended(worker)
    }

    /// Whether `worker`, when it is idle, can begin a request.
    #[inline]
    pub(crate) fn has_context(&self, worker: WorkerId) -> bool {
        self.suspended.has_context(worker)
    }

    /// Whether `worker` can begin a request if it suspends what it runs.
    pub(crate) fn has_another_context(&self, worker: WorkerId) -> bool {
        self.suspended.has_another_context(worker)
    }

    /// The lane whose first request arrived first, of the requests that any worker may run.
    #[inline]
    pub(crate) fn oldest(&self, lanes: impl IntoIterator<Item = usize>) -> Option<usize> {
        lanes
            .into_iter()
            .filter_map(|lane| Some((self.front(lane)?.sequence, lane)))
            .min()
            .map(|(_, lane)| lane)
    }

    /// The request that arrived first, of the first requests of `lanes` that any worker may run.
    pub(crate) fn first_of(&self, lanes: &[usize]) -> Option<&Waiting> {
        self.front(self.oldest(lanes.iter().copied())?)
    }

    /// The request that arrived first, of the first requests of `lanes` that are suspended on
    /// `worker`, and its lane.
    pub(crate) fn first_at(
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
    pub(crate) fn pop_refused(&mut self) -> Option<Action> {
        let (request, request_type) = self.refused.pop_front()?;
        Some(Action::Reject { request, request_type })
    }

    /// How many requests of the type at `slot` wait and were refused; nothing else.
    pub(crate) fn type_status(&self, slot: usize) -> TypeStatus {
        let admission = &self.admissions[slot];
        TypeStatus {
            queued: admission.waiting,
            rejections: admission.refused,
            ..TypeStatus::default()
        }
    }
}

/// The driver reported nonsense.
fn never_blocked(request: RequestId) -> ! {
    panic!("request {} was unblocked and had not been blocked", request.0)
}

#[cfg(test)]
mod tests;
