//! The scheduler of one worker: the policy's object for it, its own queue, and what it holds.
//!
//! ```text
//!   Arrived ──► arrived ── poll: place ──► own queue, or another's
//!                          poll: next ───► own queue ─┐
//!                                          another's ─┼─► Run
//!                                          held ──────┘
//!   Blocked ──► blocked ── Unblocked ──► held: requests that this worker alone can resume
//! ```
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
    Board, Knowledge, LaneSet, Line, Live, Look, Mine, Next, Random, Requeue, Runs,
};
use psp_policy::{
    Action, Event, HandOff, Relief, RequestId, RequestType, Sample, Scheduler, SchedulerSetup,
    TypeStatus, WorkerId,
};

use super::own_queue::{Held, Waiting};
use super::shared_state::{Crew, Object};

/// Requests that arrive between two polls and for which memory is set aside.
const ARRIVALS_PREALLOCATED: usize = 1024;
/// Requests that are stolen at once and for which memory is set aside.
const STOLEN_PREALLOCATED: usize = 64;

/// A request that began here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Begun {
    waiting: Waiting,
    /// For how long it ran in earlier turns.
    served_ns: u64,
    /// For how long it was blocked.
    blocked_ns: u64,
    /// When its last turn ended.
    left_ns: u64,
}

impl Begun {
    /// A request before its first turn.
    const fn new(waiting: Waiting) -> Self {
        Self {
            waiting,
            served_ns: 0,
            blocked_ns: 0,
            left_ns: 0,
        }
    }

    /// For how long it has waited for a worker, before its first turn and between turns.
    const fn waited_ns(&self, now_ns: u64) -> u64 {
        let elsewhere_ns = self.served_ns.saturating_add(self.blocked_ns);
        now_ns.saturating_sub(self.waiting.arrived_ns.saturating_add(elsewhere_ns))
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
    crew: Arc<Crew>,
    object: Object,
    random: Random,
    /// Requests of this worker's connections that have no queue yet.
    arrived: VecDeque<Waiting>,
    running: Option<Begun>,
    /// Requests that began here and are blocked or wait again.
    begun: HashMap<RequestId, Begun>,
    /// Per lane: those of them that wait again.
    held: Vec<BinaryHeap<Reverse<Resumable>>>,
    /// How many of `begun` are blocked.
    blocked: usize,
    contexts: usize,
    stolen: Vec<Waiting>,
    /// How often requests had been placed again when this worker last did so.
    placings: u64,
}

impl Member {
    /// The scheduler of worker `me`, for which `object` decides.
    pub(crate) fn new(
        setup: &SchedulerSetup<'_>,
        crew: Arc<Crew>,
        me: WorkerId,
        object: Object,
    ) -> Self {
        Self {
            object,
            random: Random::new(setup.seed.wrapping_add(me.0.into())),
            arrived: VecDeque::with_capacity(ARRIVALS_PREALLOCATED),
            running: None,
            begun: HashMap::new(),
            held: vec![BinaryHeap::new(); crew.lanes],
            blocked: 0,
            contexts: setup.contexts.per_worker.max(1),
            stolen: Vec::with_capacity(STOLEN_PREALLOCATED),
            placings: 0,
            crew,
            me,
        }
    }

    fn line(&self) -> &Line<Live> {
        self.crew.line(self.me)
    }

    /// Lanes with requests that this worker alone can resume.
    fn resumes(&self) -> LaneSet {
        let lanes = self.held.iter().enumerate();
        lanes
            .filter(|(_, held)| !held.is_empty())
            .map(|(lane, _)| lane)
            .collect()
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
            resumes: if held > self.blocked {
                self.resumes()
            } else {
                LaneSet::NONE
            },
            has_context,
            has_another_context: held < self.contexts - 1,
            // A request that gave way cannot move, so it waits where it ran.
            wait_queue: false,
        }
    }

    fn decide<T>(&mut self, decide: impl FnOnce(&mut Object, &mut Look<'_, Live>) -> T) -> T {
        let mine = self.mine();
        let Crew {
            board, knowledge, ..
        } = &*self.crew;
        let (board, knowledge): (&Board<Live>, &Knowledge<Live>) = (board, knowledge);
        let mut look = Look {
            me: self.me,
            mine,
            congested: false,
            board,
            knowledge,
            random: &mut self.random,
        };
        decide(&mut self.object, &mut look)
    }

    /// Shows what this worker holds beside its queue.
    fn show_held(&self) {
        let held = self.begun.len();
        let held = Held {
            requests: (held - self.blocked) as u64,
            lanes: self.resumes(),
            has_context: held < self.contexts,
            blocked_up: self.blocked >= self.contexts,
        };
        self.crew.queues[self.me.index()].hold(self.line(), held);
    }

    /// Puts a request that nobody has into the queue that the policy names. Where another worker's has too many
    /// already, it stays here. Gives it back if here are too many, too.
    fn place(&mut self, waiting: Waiting) -> Result<(), Waiting> {
        let slot = waiting.slot;
        let worker = self.decide(|object, look| object.place(look, slot));
        let crew = &*self.crew;
        let lane = crew.lane(slot);
        if worker != self.me {
            let moved = Waiting {
                handed_over: true,
                ..waiting
            };
            let put = crew.queues[worker.index()].put(crew.line(worker), lane, moved);
            if put.is_ok() {
                crew.wake(worker);
                return Ok(());
            }
        }
        crew.queues[self.me.index()].put(self.line(), lane, waiting)
    }

    /// Gives each request a queue that has come since the last poll. Returns the first for which there is no room.
    fn place_arrived(&mut self) -> Option<Action> {
        while let Some(waiting) = self.arrived.pop_front() {
            if let Err(Waiting {
                request,
                request_type,
                ..
            }) = self.place(waiting)
            {
                return Some(Action::Reject {
                    request,
                    request_type,
                });
            }
        }
        None
    }

    /// Places what waits here and must not run here any more, once after each change of what may run where.
    fn place_again(&mut self) {
        let placings = self.crew.placings.load(Ordering::Acquire);
        if std::mem::replace(&mut self.placings, placings) == placings {
            return;
        }
        let crew = self.crew.clone();
        for lane in (0..crew.lanes).filter(|_| crew.lanes > 1) {
            let others = LaneSet::of(lane);
            let queued = crew.queues[self.me.index()].lock().len(lane);
            for _ in 0..queued {
                if crew.knowledge.may_run(lane, self.me) {
                    break;
                }
                self.take(self.me, others, 1);
                let Some(waiting) = self.stolen.pop() else {
                    break;
                };
                if let Err(waiting) = self.place(waiting) {
                    self.put_stolen(waiting);
                }
            }
        }
    }

    /// Puts a request into the own queue, however many are there.
    fn put_stolen(&self, waiting: Waiting) {
        let (crew, line) = (&*self.crew, self.line());
        crew.queues[self.me.index()].put_stolen(line, crew.lane(waiting.slot), waiting);
    }

    /// Takes requests of a worker's queue into `stolen`. Returns the lanes in which others still wait there.
    fn take(&mut self, from: WorkerId, lanes: LaneSet, count: usize) -> LaneSet {
        let Self { crew, stolen, .. } = self;
        crew.queues[from.index()].take(crew.line(from), lanes, count, stolen)
    }

    /// The request that this worker runs next, and how it came here.
    fn take_next(&mut self, now_ns: u64) -> Option<(Begun, HandOff, LaneSet)> {
        // Another worker may be faster, and the board right only then. There is an end to that in each round.
        for _ in 0..=self.crew.board.workers() {
            let next = self.decide(|object, look| object.next(look));
            let taken = match next {
                Next::Own(lanes) => self.take_own(lanes),
                Next::Steal {
                    victim,
                    lanes,
                    requests,
                } => self.steal(now_ns, victim, lanes, requests),
                Next::Resume | Next::Nothing => return None,
            };
            if taken.is_some() {
                return taken;
            }
        }
        None
    }

    /// Takes the first request of these lanes that waits in the own queue, or is held: of each lane the one whose
    /// place is first, and of these the one that arrived first.
    fn take_own(&mut self, lanes: LaneSet) -> Option<(Begun, HandOff, LaneSet)> {
        let has_context = self.begun.len() < self.contexts;
        let Self { crew, held, me, .. } = self;
        let line = crew.line(*me);
        let own = crew.queues[me.index()].change(line, |queue| {
            let next = |lane: usize| {
                let new = queue.front(lane).filter(|_| has_context);
                let held = held[lane].peek().map(|Reverse(held)| held);
                match (new, held) {
                    (Some(new), Some(held)) if held.rank_ns > new.rank_ns => {
                        Some((new.arrived_ns, lane, true))
                    }
                    (_, Some(held)) => Some((held.arrived_ns, lane, false)),
                    (new, None) => Some((new?.arrived_ns, lane, true)),
                }
            };
            let lanes = (0..crew.lanes).filter(|&lane| lanes.contains(lane));
            let (_, lane, is_new) = lanes.filter_map(next).min()?;
            if is_new {
                queue.pop(lane).map(Own::New)
            } else {
                let resumed = held[lane].pop();
                resumed.map(|Reverse(resumed)| Own::Resumed(resumed.request))
            }
        })?;
        let (begun, hand_off) = match own {
            Own::New(waiting) if waiting.handed_over => (Begun::new(waiting), HandOff::HandedOver),
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
        let mut drained = stolen.drain(..);
        let first = drained.next();
        for waiting in drained {
            self.put_stolen(Waiting {
                rank_ns: now_ns,
                ..waiting
            });
            left = left.or(self.line().waiting());
        }
        self.stolen = stolen;
        Some((Begun::new(first?), HandOff::Stolen, left))
    }

    /// Begins a turn. `left` waits in the queue from which its request was taken.
    fn begin(&mut self, now_ns: u64, begun: Begun, hand_off: HandOff, left: LaneSet) -> Action {
        let Waiting {
            request,
            request_type,
            slot,
            ..
        } = begun.waiting;
        self.running = Some(begun);
        let crew = &*self.crew;
        let long = crew.knowledge.is_long(slot);
        self.line()
            .begin(now_ns, begun.served_ns, Runs { slot, long });
        crew.measured[self.me.index()].begun(slot, begun.waited_ns(now_ns));
        let left = match crew.was_woken(self.me) {
            true => left.or(crew.waiting()),
            false => left,
        };
        crew.wake_for(left);
        let quantum = self.decide(|object, look| object.quantum(look, slot));
        self.line().set_quantum(now_ns, quantum);
        Action::Run {
            worker: WorkerId(0),
            request,
            request_type,
            hand_off,
        }
    }

    /// The turn has ended, in which the request ran for so long.
    fn ended(&mut self, now_ns: u64, served_ns: u64) -> Begun {
        let mut begun = self.running.take().expect("a turn has ended");
        let line = self.line();
        line.end(now_ns);
        line.set_served(line.served_ns().saturating_sub(begun.served_ns));
        begun.served_ns += served_ns;
        begun.left_ns = now_ns;
        begun
    }

    fn measured(&mut self, samples: &[Sample]) {
        let crew = self.crew.clone();
        for sample in samples {
            let slot = crew.knowledge.slot(sample.request_type);
            crew.measured[self.me.index()].completed(slot, sample);
            self.object.measured(&crew.knowledge, slot, sample);
        }
    }

    /// A request that began here waits again, at this place.
    fn hold(&mut self, begun: Begun, rank_ns: u64) {
        let lane = self.crew.lane(begun.waiting.slot);
        let request = begun.waiting.request;
        let line = self.line();
        line.set_served(line.served_ns().saturating_add(begun.served_ns));
        self.begun.insert(request, begun);
        self.held[lane].push(Reverse(Resumable {
            rank_ns,
            arrived_ns: begun.waiting.arrived_ns,
            request,
        }));
        self.show_held();
    }
}

impl Scheduler for Member {
    /// The events of this worker, which is the only one that it counts.
    fn on_event(&mut self, now_ns: u64, event: Event<'_>) {
        match event {
            Event::Arrived {
                request,
                request_type,
                ..
            } => {
                let slot = self.crew.knowledge.slot(request_type);
                self.arrived.push_back(Waiting {
                    request,
                    request_type,
                    slot,
                    arrived_ns: now_ns,
                    rank_ns: now_ns,
                    handed_over: false,
                });
            }
            Event::Completed { samples, .. } => {
                self.ended(now_ns, 0);
                self.measured(samples);
            }
            Event::Yielded { served_ns, .. } => {
                let begun = self.ended(now_ns, served_ns);
                let rank_ns = match self.object.requeue() {
                    Requeue::Head => begun.waiting.arrived_ns,
                    Requeue::Tail | Requeue::WaitQueue => now_ns,
                };
                self.hold(begun, rank_ns);
            }
            Event::Blocked { served_ns, .. } => {
                let begun = self.ended(now_ns, served_ns);
                self.begun.insert(begun.waiting.request, begun);
                self.blocked += 1;
                self.crew.measured[self.me.index()].blocked(begun.waiting.slot);
                self.show_held();
            }
            Event::Unblocked { request } => {
                if let Some(mut begun) = self.begun.remove(&request) {
                    begun.blocked_ns += now_ns.saturating_sub(begun.left_ns);
                    self.blocked -= 1;
                    self.crew.measured[self.me.index()].unblocked(begun.waiting.slot);
                    self.hold(begun, begun.waiting.arrived_ns);
                }
            }
            _ => {}
        }
    }

    fn poll(&mut self, now_ns: u64) -> Option<Action> {
        if let Some(refused) = self.place_arrived() {
            return Some(refused);
        }
        self.place_again();
        if self.running.is_some() {
            return None;
        }
        let (begun, hand_off, left) = self.take_next(now_ns)?;
        Some(self.begin(now_ns, begun, hand_off, left))
    }

    fn same_run(&self, first: RequestType, next: RequestType) -> bool {
        let knowledge = &self.crew.knowledge;
        first == next || knowledge.same_group(knowledge.slot(first), knowledge.slot(next))
    }

    /// How many wait here. What feedback knows is the same for all workers, and worker 0 tells it.
    fn type_status(&self, slot: usize) -> TypeStatus {
        let queued = self.crew.queues[self.me.index()].lock().waiting(slot);
        let known = match self.me {
            WorkerId(0) => self.crew.feedback().type_status(slot),
            _ => TypeStatus::default(),
        };
        TypeStatus { queued, ..known }
    }

    fn relief(&self, now_ns: u64, slot: usize) -> Relief {
        let crew = &*self.crew;
        crew.feedback().relief(now_ns, &crew.board, slot)
    }

    fn reservation_updates(&self) -> u64 {
        self.crew.reservation_updates.load(Ordering::Relaxed)
    }
}

#[cfg(all(test, not(loom)))]
mod agreement;
