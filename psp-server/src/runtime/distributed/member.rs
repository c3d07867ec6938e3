//! The scheduler of one worker: the policy's object for it, its own queue, and what it holds.
//!
//! ```text
//!   Arrived ──► arrived ── poll: place ──► own queue, or another's
//!                          poll: next ───► own queue ─┐
//!                                          another's ─┼─► Run
//!                                          held ──────┘
//!   Blocked ──► blocked ── Unblocked ──► held: requests that this worker alone can resume
//!   Yielded ──► held, or the wait queue; own queue, or the wait queue of all workers, if it moves
//! ```
//!
//! The wait queue has the requests that were preempted here, where the policy puts them aside. It is this worker's,
//! because a request that has begun stays with its worker, and congested together with those of the others.
//!
//! Where preempted requests have [threads of their own](super::moving), any worker may resume them. The wait queue is
//! that of all workers then, and what the policy does not put aside waits in the own queue, from where others may steal
//! it. A request that was blocked goes on where it was. It has a quantum only if it has a thread.
//!
//! A turn has the number that the board shows, so that the timer core asks that turn to yield and no other.
//!
//! Requests keep their names wherever they wait: the driver names those of all ports apart.
//!
//! Who begins a request wakes a worker that sleeps, if it leaves another request behind which that one may take. So a
//! hand-over and a request that could be stolen cost one wake each at most, and none while everybody is busy.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hashbrown::HashMap;
use psp_policy::distributed::{
    Board, Knowledge, LaneSet, Line, Live, Look, Mine, Next, Quantum, Random, Requeue, Runs,
};
use psp_policy::{
    Action, Event, HandOff, Handover, Relief, RequestId, RequestType, Sample, Scheduler, SchedulerSetup, TypeStatus,
    WorkerId,
};

use super::own_queue::{BesideQueue, Waiting};
use super::prompter::Prompter;
use super::worker_group::{Object, WorkerGroup};
use crate::fiber;

/// Requests that arrive between two polls and for which memory is set aside.
const ARRIVALS_PREALLOCATED: usize = 1024;
/// Requests that are stolen at once and for which memory is set aside.
const STOLEN_PREALLOCATED: usize = 64;

/// A request that began here, or goes on here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Begun {
    waiting: Waiting,
    /// When its last turn ended.
    left_ns: u64,
}

impl Begun {
    /// A request before its next turn.
    const fn new(waiting: Waiting) -> Self {
        let left_ns = 0;
        Self { waiting, left_ns }
    }
}

/// A request that this worker alone can resume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Resumable {
    /// Its place in its lane.
    rank_ns: u64,
    arrived_ns: u64,
    request: RequestId,
}

/// What a worker takes of its own.
enum Own {
    New(Waiting),
    Resumed(RequestId),
}

/// See the [module](self).
pub(crate) struct Member {
    me: WorkerId,
    group: Arc<WorkerGroup>,
    object: Object,
    random: Random,
    /// Requests that this worker received and that have no queue yet.
    arrived: VecDeque<Waiting>,
    running: Option<Begun>,
    /// Requests that began here and are blocked or wait again.
    begun: HashMap<RequestId, Begun>,
    /// Per lane: those of them that wait again.
    held: Vec<BinaryHeap<Reverse<Resumable>>>,
    /// Those of `begun` that were preempted and put aside, in order.
    wait_queue: VecDeque<RequestId>,
    /// How many of `begun` are blocked.
    blocked: usize,
    /// When a request yielded after which none has begun.
    yielded_ns: Option<u64>,
    contexts: usize,
    stolen: Vec<Waiting>,
    /// What runs has a thread of its own, which is released at its end.
    has_thread: bool,
    /// How often requests had been placed again when this worker last did so.
    placings: u64,
    /// Requests that another policy refused, and whose refusal was not told yet.
    refused: VecDeque<(RequestId, RequestType)>,
    /// The time of the last event.
    seen_ns: u64,
}

impl Member {
    /// The scheduler of worker `me`, for which `object` decides.
    pub(crate) fn new(setup: &SchedulerSetup<'_>, group: Arc<WorkerGroup>, me: WorkerId, object: Object) -> Self {
        Self {
            object,
            random: Random::new(setup.seed.wrapping_add(me.0.into())),
            arrived: VecDeque::with_capacity(ARRIVALS_PREALLOCATED),
            running: None,
            begun: HashMap::new(),
            held: vec![BinaryHeap::new(); group.lanes],
            wait_queue: VecDeque::new(),
            blocked: 0,
            yielded_ns: None,
            contexts: setup.contexts.per_worker.max(1),
            stolen: Vec::with_capacity(STOLEN_PREALLOCATED),
            has_thread: false,
            placings: 0,
            refused: VecDeque::new(),
            seen_ns: 0,
            group,
            me,
        }
    }

    fn line(&self) -> &Line<Live> {
        self.group.line(self.me)
    }

    /// Lanes with requests that this worker alone can resume.
    fn resumes(&self) -> LaneSet {
        let lanes = self.held.iter().enumerate();
        lanes.filter(|(_, held)| !held.is_empty()).map(|(lane, _)| lane).collect()
    }

    /// Whether nothing waits here, neither to begin nor to go on: another worker has what yielded here.
    fn has_lost_all(&self) -> bool {
        let waits = !self.line().waiting().is_empty() || !self.wait_queue.is_empty();
        !waits && self.resumable() == 0
    }

    /// How many requests are held.
    fn resumable(&self) -> usize {
        self.begun.len() - self.blocked - self.wait_queue.len()
    }

    fn mine(&self) -> Mine {
        let held = self.begun.len();
        let has_context = held < self.contexts;
        Mine {
            begins: if has_context {
                self.line().waiting()
            } else {
                LaneSet::NONE
            },
            resumes: if self.resumable() > 0 {
                self.resumes()
            } else {
                LaneSet::NONE
            },
            has_context,
            has_another_context: held < self.contexts - 1,
            wait_queue: match self.group.moving() {
                None => !self.wait_queue.is_empty(),
                Some(_) => has_context && self.group.suspended.has_any(),
            },
        }
    }

    fn decide<T>(&mut self, decide: impl FnOnce(&mut Object, &mut Look<'_, Live>) -> T) -> T {
        let mine = self.mine();
        let WorkerGroup { board, knowledge, .. } = &*self.group;
        let (board, knowledge): (&Board<Live>, &Knowledge<Live>) = (board, knowledge);
        let mut look = Look {
            me: self.me,
            mine,
            congested: self.group.wait_queue.is_congested(),
            board,
            knowledge,
            random: &mut self.random,
        };
        decide(&mut self.object, &mut look)
    }

    /// Shows what this worker holds beside its queue.
    fn show_held(&self) {
        let begun = self.begun.len() + usize::from(self.running.is_some());
        let held = BesideQueue {
            requests: self.resumable() as u64,
            lanes: self.resumes(),
            has_context: begun < self.contexts,
            blocked_up: self.blocked >= self.contexts,
        };
        self.group.queues[self.me.index()].hold(self.line(), held);
    }

    /// Puts a request that no worker has into the queue that the policy names. Where another worker's has too many
    /// already, it stays here. Gives it back if here are too many, too.
    fn place(&mut self, now_ns: u64, waiting: Waiting) -> Result<(), Waiting> {
        let slot = waiting.slot;
        let placed = self.decide(|object, look| object.place(look, slot));
        let worker = placed.unwrap_or_else(|| self.receiver(&waiting));
        let group = &*self.group;
        let lane = group.lane(slot);
        if worker != self.me {
            let moved = Waiting { handed_over: placed.is_some(), ..waiting };
            let put = group.queues[worker.index()].put(group.line(worker), lane, moved);
            if let Ok(is_first) = put {
                group.wake(worker);
                if is_first {
                    self.prompt_for(now_ns, worker, lane);
                }
                return Ok(());
            }
        }
        let put = group.queues[self.me.index()].put(self.line(), lane, waiting);
        put.map(|_| ())
    }

    /// Prompts the timer core, if `worker` yields to what begins to wait for it in `lane`.
    fn prompt_for(&self, now_ns: u64, worker: WorkerId, lane: usize) {
        let quantum = self.group.line(worker).quantum();
        if let Some(prompter) = self.group.prompter()
            && quantum.is_some_and(|quantum| quantum.yields_to.contains(lane))
        {
            prompter.prompt(now_ns);
        }
    }

    /// Gives each request a queue that has come since the last poll. Returns the first for which there is no room.
    fn place_arrived(&mut self, now_ns: u64) -> Option<Action> {
        while let Some(waiting) = self.arrived.pop_front() {
            if let Err(Waiting { request, request_type, .. }) = self.place(now_ns, waiting) {
                return Some(Action::Reject { request, request_type });
            }
        }
        None
    }

    /// Places what waits here and must not run here any more, once after each change of what may run where.
    fn place_again(&mut self, now_ns: u64) {
        let placings = self.group.placings.load(Ordering::Acquire);
        if std::mem::replace(&mut self.placings, placings) == placings {
            return;
        }
        let group = self.group.clone();
        for lane in (0..group.lanes).filter(|_| group.lanes > 1) {
            let others = LaneSet::of(lane);
            let queued = group.queues[self.me.index()].lock().len(lane);
            for _ in 0..queued {
                if group.knowledge.may_run(lane, self.me) {
                    break;
                }
                self.take(self.me, others, 1);
                let Some(waiting) = self.stolen.pop() else {
                    break;
                };
                if let Err(waiting) = self.place(now_ns, waiting) {
                    self.put_stolen(waiting);
                }
            }
        }
    }

    /// Puts a request into the own queue, however many are there.
    fn put_stolen(&self, waiting: Waiting) {
        let (group, line) = (&*self.group, self.line());
        group.queues[self.me.index()].put_stolen(line, group.lane(waiting.slot), waiting);
    }

    /// Takes requests of a worker's queue into `stolen`. Returns the lanes in which others still wait there.
    fn take(&mut self, from: WorkerId, lanes: LaneSet, count: usize) -> LaneSet {
        let Self { group, stolen, .. } = self;
        group.queues[from.index()].take(group.line(from), lanes, count, stolen)
    }

    /// The request that this worker runs next, and how it came here.
    fn take_next(&mut self, now_ns: u64) -> Option<(Begun, HandOff, LaneSet)> {
        // Another worker may be faster, and the board right only then. There is an end to that in each round.
        for _ in 0..=self.group.board.workers() {
            let next = self.decide(|object, look| object.next(look));
            let taken = match next {
                Next::Own(lanes) => self.take_own(lanes),
                Next::Steal { victim, lanes, requests } => self.steal(now_ns, victim, lanes, requests),
                Next::Resume => self.resume(now_ns),
                Next::Nothing => return None,
            };
            if taken.is_some() {
                return taken;
            }
        }
        None
    }

    /// Takes the first request of the wait queue.
    fn resume(&mut self, now_ns: u64) -> Option<(Begun, HandOff, LaneSet)> {
        let begun = match self.group.moving() {
            None => {
                let request = self.wait_queue.pop_front()?;
                self.begun.remove(&request)?
            }
            Some(_) => Begun::new(self.group.suspended.take()?),
        };
        self.group.wait_queue.took(now_ns);
        self.show_held();
        self.add_served(begun.waiting.served_ns);
        Some((begun, HandOff::Own, self.line().waiting()))
    }

    /// Takes the first request of these lanes that waits in the own queue, or is held: of each lane the one whose
    /// place is first, and of these the one that arrived first.
    fn take_own(&mut self, lanes: LaneSet) -> Option<(Begun, HandOff, LaneSet)> {
        let has_context = self.begun.len() < self.contexts;
        let Self { group, held, me, .. } = self;
        let line = group.line(*me);
        let own = group.queues[me.index()].change(line, |queue| {
            let next = |lane: usize| {
                let new = queue.front(lane).filter(|_| has_context);
                let held = held[lane].peek().map(|Reverse(held)| held);
                match (new, held) {
                    (Some(new), Some(held)) if held.rank_ns >= new.rank_ns => Some((new.arrived_ns, lane, true)),
                    (_, Some(held)) => Some((held.arrived_ns, lane, false)),
                    (new, None) => Some((new?.arrived_ns, lane, true)),
                }
            };
            let lanes = (0..group.lanes).filter(|&lane| lanes.contains(lane));
            let (_, lane, is_new) = lanes.filter_map(next).min()?;
            if is_new {
                queue.pop(lane).map(Own::New)
            } else {
                let resumed = held[lane].pop();
                resumed.map(|Reverse(resumed)| Own::Resumed(resumed.request))
            }
        })?;
        let (begun, hand_off) = match own {
            Own::New(waiting) if waiting.handed_over && !waiting.has_begun => {
                (Begun::new(waiting), HandOff::HandedOver)
            }
            Own::New(waiting) => (Begun::new(waiting), HandOff::Own),
            Own::Resumed(request) => {
                let begun = self.begun.remove(&request)?;
                self.show_held();
                (begun, HandOff::Own)
            }
        };
        Some((begun, hand_off, self.line().waiting()))
    }

    /// Takes requests of another worker's queue: the first to run it, and the others into the own queue.
    fn steal(
        &mut self,
        now_ns: u64,
        victim: WorkerId,
        lanes: LaneSet,
        requests: usize,
    ) -> Option<(Begun, HandOff, LaneSet)> {
        let mut left = self.take(victim, lanes, requests);
        let mut stolen = std::mem::take(&mut self.stolen);
        let served_ns = stolen.iter().map(|waiting| waiting.served_ns).sum();
        self.add_served(served_ns);
        self.remove_served(victim, served_ns);
        let mut drained = stolen.drain(..);
        let first = drained.next();
        for waiting in drained {
            self.put_stolen(Waiting { rank_ns: now_ns, ..waiting });
            left = left.or(self.line().waiting());
        }
        self.stolen = stolen;
        Some((Begun::new(first?), HandOff::Stolen, left))
    }

    /// Begins a turn. `left` waits in the queue from which its request was taken. `congested` says whether the wait
    /// queue was so when the worker chose.
    fn begin(&mut self, now_ns: u64, (begun, hand_off, left): (Begun, HandOff, LaneSet), congested: bool) -> Action {
        let Waiting { request, request_type, slot, .. } = begun.waiting;
        self.running = Some(begun);
        self.yielded_ns = None;
        self.show_contexts();
        let group = &*self.group;
        let long = group.knowledge.is_long(slot);
        let line = self.line();
        line.begin(now_ns, begun.waiting.served_ns, Runs { slot, long });
        // The next turn on this thread has the number that the board shows.
        fiber::set_turn(line.turn() - 1);
        group.measured[self.me.index()].begun(slot, begun.waiting.waited_ns(now_ns));
        let left = match group.roster.was_woken(self.me) {
            true => left.or(group.waiting()),
            false => left,
        };
        group.wake_for(left);
        group.wake_for_suspended();
        let quantum = self.quantum(slot, congested);
        if let Some(quantum) = self.let_move(begun.waiting, quantum) {
            self.line().set_quantum(now_ns, Some(quantum));
        }
        Action::Run { worker: WorkerId(0), request, request_type, hand_off }
    }

    /// What a request of the type at `slot` gets that begins now.
    fn quantum(&mut self, slot: usize, congested: bool) -> Option<Quantum> {
        if !self.group.has_quantum[slot] {
            return None;
        }
        let quantum = self.decide(|object, look| {
            look.congested = congested;
            object.quantum(look, slot)
        })?;
        let ns_min = self.group.prompter().map_or(0, Prompter::quantum_ns_min);
        let ns = quantum.ns.max(ns_min);
        Some(Quantum { ns, ..quantum })
    }

    /// The quantum of a request that begins now, or goes on: a request that moves when it is preempted needs a thread.
    /// It gets one at its beginning or never.
    #[inline]
    fn let_move(&mut self, waiting: Waiting, quantum: Option<Quantum>) -> Option<Quantum> {
        self.has_thread = false;
        let Some(moving) = self.group.moving() else {
            return quantum;
        };
        let is_new = !waiting.has_begun;
        self.has_thread = match quantum {
            Some(_) if is_new => moving.claim(self.me, waiting.request),
            None if is_new => false,
            _ => moving.has(waiting.request),
        };
        quantum.filter(|_| self.has_thread)
    }

    /// Shows whether the worker can begin another request, where the one that it runs makes a difference to that.
    fn show_contexts(&self) {
        if self.begun.len() + 1 >= self.contexts {
            self.show_held();
        }
    }

    /// The turn has ended, in which the request ran for so long.
    fn ended(&mut self, now_ns: u64, served_ns: u64) -> Begun {
        let mut begun = self.running.take().expect("a turn has ended");
        self.show_contexts();
        self.line().end(now_ns);
        self.remove_served(self.me, begun.waiting.served_ns);
        begun.waiting.served_ns += served_ns;
        begun.waiting.has_begun = true;
        begun.left_ns = now_ns;
        begun
    }

    fn measured(&mut self, samples: &[Sample]) {
        let group = self.group.clone();
        for sample in samples {
            let slot = group.knowledge.slot(sample.request_type);
            group.measured[self.me.index()].completed(slot, sample);
            self.object.measured(&group.knowledge, slot, sample);
        }
    }

    /// Unfinished requests ran for so much longer in earlier turns.
    fn add_served(&self, served_ns: u64) {
        self.change_served(self.me, served_ns, u64::saturating_add);
    }

    /// Those of a worker ran for so much less.
    fn remove_served(&self, worker: WorkerId, served_ns: u64) {
        self.change_served(worker, served_ns, u64::saturating_sub);
    }

    fn change_served(&self, worker: WorkerId, by_ns: u64, change: fn(u64, u64) -> u64) {
        if by_ns > 0 {
            let line = self.group.line(worker);
            // Thieves change it, too.
            self.group.queues[worker.index()].change(line, |_| {
                line.set_served(change(line.served_ns(), by_ns));
            });
        }
    }

    /// A request yielded, and waits again.
    fn yielded(&mut self, now_ns: u64, begun: Begun) {
        // What lies unread comes before a request that waits at the tail of its lane. Elsewhere it makes no difference.
        self.yielded_ns = (self.object.requeue() == Requeue::Tail).then_some(now_ns);
        let rank_ns = match self.object.requeue() {
            Requeue::Head => begun.waiting.arrived_ns,
            Requeue::Tail | Requeue::WaitQueue => now_ns,
        };
        match self.group.moving() {
            Some(_) => self.leave_to_all(now_ns, begun, rank_ns),
            None => self.stay(now_ns, begun, rank_ns),
        }
    }

    /// A request that began waits where any worker finds it that may run it.
    fn leave_to_all(&mut self, now_ns: u64, begun: Begun, rank_ns: u64) {
        let waiting = Waiting {
            // Behind what was there already, unread.
            rank_ns: rank_ns + u64::from(rank_ns == now_ns),
            ..begun.waiting
        };
        if self.object.requeue() == Requeue::WaitQueue {
            self.group.suspended.put(waiting);
            self.group.wait_queue.put(now_ns);
        } else {
            self.add_served(waiting.served_ns);
            self.put_stolen(waiting);
        }
    }

    /// A request that began waits here, where this worker alone resumes it.
    fn stay(&mut self, now_ns: u64, begun: Begun, rank_ns: u64) {
        if self.object.requeue() == Requeue::WaitQueue {
            self.put_aside(now_ns, begun);
        } else {
            self.hold(begun, rank_ns);
        }
    }

    /// A request that yielded waits in the wait queue.
    fn put_aside(&mut self, now_ns: u64, begun: Begun) {
        let request = begun.waiting.request;
        self.begun.insert(request, begun);
        self.wait_queue.push_back(request);
        self.group.wait_queue.put(now_ns);
        self.show_held();
    }

    /// A request that began here is blocked.
    fn block(&mut self, begun: Begun) {
        let Waiting { request, slot, .. } = begun.waiting;
        self.begun.insert(request, begun);
        self.blocked += 1;
        self.group.measured[self.me.index()].blocked(slot);
        self.show_held();
    }

    /// A request that began here waits again, at this place.
    fn hold(&mut self, begun: Begun, rank_ns: u64) {
        let lane = self.group.lane(begun.waiting.slot);
        let request = begun.waiting.request;
        self.add_served(begun.waiting.served_ns);
        self.begun.insert(request, begun);
        self.held[lane].push(Reverse(Resumable { rank_ns, arrived_ns: begun.waiting.arrived_ns, request }));
        self.show_held();
    }
}

impl Scheduler for Member {
    /// The events of this worker, which is the only one that it counts.
    fn on_event(&mut self, now_ns: u64, event: Event<'_>) {
        self.seen_ns = now_ns;
        self.group.wait_queue.passes(now_ns);
        match event {
            Event::Arrived { request, request_type, .. } => {
                let slot = self.group.knowledge.slot(request_type);
                if self.yielded_ns.is_some() && self.has_lost_all() {
                    self.yielded_ns = None;
                }
                self.arrived.push_back(Waiting {
                    request,
                    request_type,
                    slot,
                    arrived_ns: now_ns,
                    // It was there already, unread, when the request yielded.
                    rank_ns: self.yielded_ns.unwrap_or(now_ns),
                    handed_over: false,
                    has_begun: false,
                    served_ns: 0,
                    blocked_ns: 0,
                });
            }
            Event::Completed { samples, .. } => {
                let ended = self.ended(now_ns, 0);
                if self.has_thread
                    && let Some(moving) = self.group.moving()
                {
                    moving.release(ended.waiting.request);
                }
                self.measured(samples);
            }
            Event::Yielded { served_ns, .. } => {
                let begun = self.ended(now_ns, served_ns);
                self.yielded(now_ns, begun);
            }
            Event::Blocked { served_ns, .. } => {
                let begun = self.ended(now_ns, served_ns);
                self.block(begun);
            }
            Event::Unblocked { request } => {
                if let Some(mut begun) = self.begun.remove(&request) {
                    begun.waiting.blocked_ns += now_ns.saturating_sub(begun.left_ns);
                    self.blocked -= 1;
                    self.group.measured[self.me.index()].unblocked(begun.waiting.slot);
                    self.hold(begun, begun.waiting.arrived_ns);
                }
            }
            _ => {}
        }
    }

    fn poll(&mut self, now_ns: u64) -> Option<Action> {
        if let Some((request, request_type)) = self.refused.pop_front() {
            return Some(Action::Reject { request, request_type });
        }
        if let Some(refused) = self.place_arrived(now_ns) {
            return Some(refused);
        }
        self.place_again(now_ns);
        if self.running.is_some() {
            return None;
        }
        // The last request out of the wait queue ends its congestion.
        let congested = self.group.wait_queue.is_congested();
        let taken = self.take_next(now_ns)?;
        Some(self.begin(now_ns, taken, congested))
    }

    fn handover(&mut self) -> Option<&mut dyn Handover> {
        Some(self)
    }

    fn same_run(&self, first: RequestType, next: RequestType) -> bool {
        let knowledge = &self.group.knowledge;
        first == next || knowledge.same_group(knowledge.slot(first), knowledge.slot(next))
    }

    /// How many wait here. What feedback knows is the same for all workers, and worker 0 tells it.
    fn type_status(&self, slot: usize) -> TypeStatus {
        let queued = self.group.queues[self.me.index()].lock().waiting(slot);
        let known = match self.me {
            WorkerId(0) => self.group.feedback().type_status(slot),
            _ => TypeStatus::default(),
        };
        TypeStatus { queued, ..known }
    }

    fn relief(&self, now_ns: u64, slot: usize) -> Relief {
        let group = &*self.group;
        group.feedback().relief(now_ns, &group.board, slot)
    }

    fn reservation_updates(&self) -> u64 {
        self.group.reservation_updates.load(Ordering::Relaxed)
    }
}

#[cfg(all(test, not(loom)))]
mod agreement;
mod handover;
mod receiving;
