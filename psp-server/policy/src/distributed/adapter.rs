//! Workers that schedule themselves, as one [`Scheduler`]: drives the objects of all of them in order of events.
//!
//! ```text
//!   Arrived ──► a worker receives it, and places it ─┬─► queue of worker 0 ─► runs ── preempted ──┐
//!                                                    │      ▲ stolen                              ├─► wait queue
//!                                                    └─► queue of worker 1 ─► runs ── preempted ──┘
//! ```
//!
//! A live server has these queues in its workers, and each worker its own object. Here they are lanes of one set of
//! queues, and the board has plain values. The decisions are the same objects'.
//!
//! After each event, idle workers look for requests until none finds any: first those whose own queues have
//! something, in the order in which that came about, then all others, the most recently active first. An
//! idle worker of a live server looks as it polls or is woken.

use std::collections::VecDeque;

use crate::backlog::{Backlog, Handover};
use crate::distributed::board::{Board, Queue, Runs};
use crate::distributed::congestion::Congestion;
use crate::distributed::feedback::{Feedback, InSystem};
use crate::distributed::knowledge::Knowledge;
use crate::distributed::lanes::{LANES_MAX, LaneSet, lane_of};
use crate::distributed::local::{Local, Ways};
use crate::distributed::random::Random;
use crate::distributed::receivers::Receivers;
use crate::distributed::timer::Timer;
use crate::distributed::word::Plain;
use crate::distributed::worker::{Look, Mine, Next, Requeue, WorkerPolicy};
use crate::event::{Action, Event, HandOff, RequestId, Sample, WorkerId};
use crate::parts::handover::backlog;
use crate::parts::queues::Queues;
use crate::parts::running::Running;
use crate::parts::suspended::Lanes;
use crate::parts::waiting::Waiting;
use crate::parts::workers::{WorkerSet, worker_count};
use crate::request_type::RequestType;
use crate::scheduler::{Relief, Scheduler, TypeStatus};
use crate::setup::SchedulerSetup;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Distributed<W, F> {
    objects: Vec<W>,
    feedback: F,
    knowledge: Knowledge<Plain>,
    board: Board<Plain>,
    ways: Ways,
    workers: u32,
    /// How many of them are present.
    present: u32,
    /// Lanes of each worker's own queue.
    per_worker: usize,
    /// The lanes of the workers, one worker after the other, and the wait queue last.
    queues: Queues,
    running: Running,
    idle: WorkerSet,
    /// Idle workers that have found something in their own queues, and how it got there.
    ready: VecDeque<(WorkerId, HandOff)>,
    /// Idle workers that look for something elsewhere, for the time of one poll.
    looking: Vec<WorkerId>,
    timer: Timer,
    congestion: Congestion,
    /// When to look for stuck requests again.
    stuck_ns: Option<u64>,
    /// Per worker: the lanes for which its turn yields.
    yields_to: Vec<LaneSet>,
    /// Of requests whose flows are few.
    receivers: Option<Receivers>,
    random: Random,
}

/// What waits, runs and is blocked.
struct Counted<'a> {
    queues: &'a Queues,
    running: &'a Running,
    lanes: usize,
    now_ns: u64,
}

impl InSystem for Counted<'_> {
    fn requests(&self, slot: usize) -> u64 {
        let types = self.running.turns().map(|(_, turn)| turn.waiting.request_type);
        let running = types.filter(|&running| self.queues.slot(running) == slot);
        (self.queues.queued(slot) + running.count() + self.queues.blocked(slot)) as u64
    }

    fn waited_ns(&self, slot: usize) -> u64 {
        let first = (0..self.lanes).filter_map(|lane| self.queues.front(lane));
        let first = first.filter(|first| self.queues.slot(first.request_type) == slot);
        let waited = first.map(|first| first.waited_ns(self.now_ns));
        waited.max().unwrap_or(0)
    }
}

impl<W: WorkerPolicy<Plain>, F: Feedback<Plain>> Distributed<W, F> {
    pub(crate) fn new(setup: &SchedulerSetup<'_>, local: Local<Plain, W, F>) -> Self {
        let Local { workers: objects, feedback, knowledge, board, typed, ways } = local;
        let workers = worker_count(setup.workers);
        let slots = setup.types.len() + 1;
        let per_worker = if typed { slots.min(LANES_MAX) } else { 1 };
        let lanes = Lanes::own_and(setup.workers, 1).per_worker(per_worker);
        Self {
            objects,
            feedback,
            knowledge,
            board,
            ways,
            workers,
            present: workers,
            per_worker,
            queues: Queues::new(setup, lanes),
            running: Running::new(setup),
            idle: WorkerSet::new(workers, setup.inline),
            ready: VecDeque::with_capacity(setup.workers),
            looking: Vec::with_capacity(setup.workers),
            timer: Timer::new(setup, &ways),
            congestion: Congestion::new(ways.congestion_ns),
            stuck_ns: None,
            yields_to: vec![LaneSet::NONE; setup.workers],
            receivers: setup
                .flows
                .filter(|_| ways.at_random)
                .map(|flows| Receivers::new(setup.workers, flows, setup.seed)),
            random: Random::new(setup.seed),
        }
    }

    /// The lane of the wait queue.
    const fn wait_queue(&self) -> usize {
        self.workers as usize * self.per_worker
    }

    const fn lane(&self, worker: WorkerId, own: usize) -> usize {
        worker.index() * self.per_worker + own
    }

    /// Which of a worker's own lanes is for the type at `slot`.
    const fn own_lane(&self, slot: usize) -> usize {
        if self.per_worker == 1 { 0 } else { lane_of(slot) }
    }

    /// The worker that receives the request which arrives. Flows of an absent worker go to another.
    fn receives(&mut self) -> WorkerId {
        match &mut self.receivers {
            Some(receivers) => WorkerId(receivers.draw().0 % self.present),
            None => self.receiver(),
        }
    }

    /// The worker that receives a request which is no flow's, or not any more.
    fn receiver(&mut self) -> WorkerId {
        WorkerId(if self.ways.at_random {
            self.random.below(self.present)
        } else {
            0
        })
    }

    /// What `worker` finds for itself.
    fn mine(&self, worker: WorkerId) -> Mine {
        let Self { queues, board, .. } = self;
        let has_context = queues.has_context(worker);
        let resumes = if queues.suspended(worker) > 0 {
            let lanes = 0..self.per_worker;
            let resumes = |&own: &usize| queues.front_at(self.lane(worker, own), worker).is_some();
            lanes.filter(resumes).collect()
        } else {
            LaneSet::NONE
        };
        Mine {
            begins: if has_context {
                board.line(worker).waiting()
            } else {
                LaneSet::NONE
            },
            resumes,
            has_context,
            has_another_context: queues.has_another_context(worker),
            wait_queue: queues.next_for(self.wait_queue(), worker).is_some(),
        }
    }

    /// Lets an object decide.
    fn decide<T>(
        &mut self,
        worker: WorkerId,
        congested: bool,
        decide: impl FnOnce(&mut W, &mut Look<'_, Plain>) -> T,
    ) -> T {
        let mine = self.mine(worker);
        let mut look = Look {
            me: worker,
            mine,
            congested,
            board: &self.board,
            knowledge: &self.knowledge,
            random: &mut self.random,
        };
        decide(&mut self.objects[worker.index()], &mut look)
    }

    /// The worker whose queue a request of the type at `slot` joins which has lost its worker.
    fn place(&mut self, slot: usize) -> (WorkerId, HandOff) {
        let receiver = self.receiver();
        self.place_from(receiver, slot)
    }

    fn place_from(&mut self, receiver: WorkerId, slot: usize) -> (WorkerId, HandOff) {
        let congested = self.congestion.is_congested();
        let placed = self.decide(receiver, congested, |object, look| object.place(look, slot));
        let worker = placed.unwrap_or(receiver);
        let hand_off = match (self.ways.at_random, worker == receiver) {
            (false, _) => HandOff::Dispatched,
            (true, true) => HandOff::Own,
            (true, false) => HandOff::HandedOver,
        };
        (worker, hand_off)
    }

    /// Whether `worker` finds something in its own queue: now, if it is idle, or if it stopped.
    fn finds(&self, worker: WorkerId) -> bool {
        let lanes = |own| self.lane(worker, own);
        if self.running.is_busy(worker) {
            let yields_to = self.yields_to[worker.index()];
            let mut behind = (0..self.per_worker).filter(|&own| yields_to.contains(own));
            behind.any(|own| self.queues.next_behind(lanes(own), worker).is_some())
        } else {
            (0..self.per_worker).any(|own| self.queues.next_for(lanes(own), worker).is_some())
        }
    }

    /// Shows the own queue of `worker` on the board.
    fn show_queue(&self, worker: WorkerId) {
        let Self { queues, .. } = self;
        let mut shown = Queue { blocked_up: queues.is_blocked_up(worker), ..Queue::default() };
        let busy = self.running.is_busy(worker);
        for own in 0..self.per_worker {
            let lane = self.lane(worker, own);
            let queued = queues.lane_len(lane);
            let finds = if busy {
                queues.next_behind(lane, worker)
            } else {
                queues.next_for(lane, worker)
            };
            shown.queued += queued as u64;
            shown.held += queues.lane_len_at(lane, worker) as u64;
            if queued > 0 {
                shown.waiting = shown.waiting.or(LaneSet::of(own));
            }
            if finds.is_some() {
                shown.behind = shown.behind.or(LaneSet::of(own));
            }
        }
        self.board.line(worker).set_queue(shown);
    }

    /// A request joins the own queue of `worker`: `put` puts it there.
    fn join(
        &mut self,
        now_ns: u64,
        worker: WorkerId,
        own: usize,
        hand_off: HandOff,
        put: impl FnOnce(&mut Queues, usize),
    ) {
        let found = self.finds(worker);
        let lane = self.lane(worker, own);
        put(&mut self.queues, lane);
        self.show_queue(worker);
        if found || !self.finds(worker) {
            return;
        }
        if self.running.is_busy(worker) {
            self.timer.queue_begins(now_ns, worker, &self.running);
        } else {
            self.add_ready(worker, hand_off);
        }
    }

    fn arrived(&mut self, now_ns: u64, request: RequestId, request_type: RequestType, deadline_ns: Option<u64>) {
        let slot = self.queues.slot(request_type);
        let receiver = self.receives();
        let (worker, hand_off) = self.place_from(receiver, slot);
        let handed_over = hand_off == HandOff::HandedOver;
        let own = self.own_lane(slot);
        self.join(now_ns, worker, own, hand_off, |queues, lane| {
            queues.push_from(lane, now_ns, request, request_type, deadline_ns, handed_over);
        });
    }

    fn measured(&mut self, worker: WorkerId, samples: &[Sample]) {
        for sample in samples {
            let slot = self.queues.slot(sample.request_type);
            self.feedback.record(slot, sample);
            self.objects[worker.index()].measured(&self.knowledge, slot, sample);
        }
    }

    /// The request on `worker` waits again.
    fn gave_up(&mut self, now_ns: u64, worker: WorkerId, served_ns: u64) {
        let waiting = self.running.give_up(worker, served_ns);
        let own = self.own_lane(self.queues.slot(waiting.request_type));
        let requeue = self.objects[worker.index()].requeue();
        let put = |queues: &mut Queues, lane| match requeue {
            Requeue::Head => queues.put_back_first(lane, waiting),
            Requeue::Tail | Requeue::WaitQueue => queues.put_back_last(lane, waiting),
        };
        if requeue == Requeue::WaitQueue {
            self.unserved(worker, waiting.served_ns - served_ns);
            let lane = self.wait_queue();
            put(&mut self.queues, lane);
            self.congestion.put(1);
        } else if self.queues.keeps(worker, &waiting) {
            let lane = self.lane(worker, own);
            put(&mut self.queues, lane);
            self.served(worker, served_ns);
        } else {
            let slot = self.queues.slot(waiting.request_type);
            let (other, hand_off) = self.place(slot);
            self.served(other, waiting.served_ns);
            self.join(now_ns, other, own, hand_off, put);
            self.unserved(worker, waiting.served_ns - served_ns);
        }
        self.released(now_ns, worker);
    }

    /// A request that was blocked waits at the head of the queue of the worker where it ran, or of another if that
    /// is absent.
    fn unblocked(&mut self, now_ns: u64, request: RequestId) {
        let blocked = self.queues.blocked_request(request);
        let home = blocked.home;
        let slot = self.queues.slot(blocked.waiting.request_type);
        let served_ns = blocked.waiting.served_ns;
        let worker = if self.queues.keeps_blocked(home) {
            home
        } else {
            self.place(slot).0
        };
        self.served(worker, served_ns);
        let own = self.own_lane(slot);
        self.join(now_ns, worker, own, HandOff::Own, |queues, lane| {
            let waiting = queues.unblock(now_ns, request);
            queues.put_back_first(lane, waiting);
        });
        self.show_queue(home);
    }

    /// `worker` is idle.
    fn released(&mut self, now_ns: u64, worker: WorkerId) {
        self.timer.disarm(worker);
        self.idle.release(worker);
        self.yields_to[worker.index()] = LaneSet::NONE;
        self.board.line(worker).end(now_ns);
        self.show_queue(worker);
        if self.finds(worker) {
            self.add_ready(worker, HandOff::Own);
        }
    }

    /// Unfinished requests of `worker` ran for so much longer before their last turns.
    fn served(&self, worker: WorkerId, served_ns: u64) {
        let line = self.board.line(worker);
        line.set_served(line.served_ns().saturating_add(served_ns));
    }

    /// Such a request is the worker's no longer.
    fn unserved(&self, worker: WorkerId, served_ns: u64) {
        let line = self.board.line(worker);
        line.set_served(line.served_ns().saturating_sub(served_ns));
    }

    /// Workers come or go. The queues of those that go join others, request by request.
    fn set_present(&mut self, now_ns: u64, present: usize) {
        let before = std::mem::replace(&mut self.present, worker_count(present));
        self.queues.set_present(present);
        self.running.set_present(present);
        self.idle.set_present(self.present);
        self.board.set_present(present);
        let has_other_rights = self.feedback.set_present(self.present, &self.knowledge);
        for worker in (0..self.workers).map(WorkerId) {
            self.show_queue(worker);
        }
        for from in (self.present..self.workers).map(WorkerId) {
            for own in 0..self.per_worker {
                while let Some(&waiting) = self.queues.front(self.lane(from, own)) {
                    let slot = self.queues.slot(waiting.request_type);
                    let placed = self.place(slot);
                    self.move_first(now_ns, from, own, placed);
                }
            }
        }
        self.place_again(now_ns);
        self.keep_ready();
        let moved = before.min(self.present)..before.max(self.present);
        for worker in 0..self.workers {
            let has_moved = moved.contains(&worker) && self.timer.is_armed(WorkerId(worker));
            if has_other_rights || has_moved {
                self.arm_again(now_ns, WorkerId(worker));
            }
        }
    }

    /// The rules have changed for what runs on `worker`.
    fn arm_again(&mut self, now_ns: u64, worker: WorkerId) {
        let turn = self.running.on(worker).filter(|turn| !turn.preempted);
        if let Some(turn) = turn {
            let slot = self.queues.slot(turn.waiting.request_type);
            let at_ns = if self.ways.renewed { now_ns } else { turn.started_ns };
            self.arm(at_ns, worker, slot, false);
        }
    }

    /// `worker` is idle, and finds something in its own queue.
    fn add_ready(&mut self, worker: WorkerId, hand_off: HandOff) {
        // It may be ready still, if another worker has emptied its queue meanwhile.
        if !self.ready.iter().any(|&(ready, _)| ready == worker) {
            self.ready.push_back((worker, hand_off));
        }
    }

    /// Moves the first request that any worker may take of one worker's lane to another worker's.
    fn move_first(&mut self, now_ns: u64, from: WorkerId, own: usize, (to, hand_off): (WorkerId, HandOff)) {
        let from_lane = self.lane(from, own);
        let served_ns = self.queues.front(from_lane).map_or(0, |first| first.served_ns);
        self.unserved(from, served_ns);
        self.served(to, served_ns);
        let in_order = self.ways.at_random;
        self.join(now_ns, to, own, hand_off, |queues, lane| {
            if in_order {
                queues.move_first_in_order(from_lane, lane);
            } else {
                queues.move_first(from_lane, lane);
            }
        });
        self.show_queue(from);
    }

    /// Each worker looks through its own queue for requests that it must not run, and places them.
    fn place_again(&mut self, now_ns: u64) {
        if self.per_worker == 1 {
            return;
        }
        for from in (0..self.present).map(WorkerId) {
            for own in 0..self.per_worker {
                let lane = self.lane(from, own);
                let may_begin = |knowledge: &Knowledge<Plain>| knowledge.may_run(own, from);
                while !may_begin(&self.knowledge)
                    && let Some(&waiting) = self.queues.front(lane)
                {
                    let slot = self.queues.slot(waiting.request_type);
                    let placed = self.place_from(from, slot);
                    if placed.0 == from {
                        break;
                    }
                    self.move_first(now_ns, from, own, placed);
                }
            }
        }
    }

    /// Forgets ready workers that find nothing any more.
    fn keep_ready(&mut self) {
        let mut ready = std::mem::take(&mut self.ready);
        ready.retain(|&(worker, _)| self.finds(worker));
        self.ready = ready;
    }

    /// An idle worker takes its next request.
    fn run_next(&mut self, now_ns: u64) -> Option<Action> {
        self.stuck_ns = None;
        if self.queues.is_empty() || self.idle.all_busy() {
            return None;
        }
        let Self { feedback, board, knowledge, .. } = self;
        self.stuck_ns = feedback.relieve(now_ns, board, knowledge);
        while let Some((worker, hand_off)) = self.ready.pop_front() {
            if let Some(action) = self.take_next(now_ns, worker, hand_off) {
                return Some(action);
            }
        }
        if !self.objects[0].looks_elsewhere() {
            return None;
        }
        let mut looking = std::mem::take(&mut self.looking);
        looking.clear();
        looking.extend(self.idle.in_order());
        let mut looking_now = looking.iter();
        let action = looking_now.find_map(|&worker| self.take_next(now_ns, worker, HandOff::Own));
        self.looking = looking;
        action
    }

    /// `worker` takes its next request, if it finds any.
    fn take_next(&mut self, now_ns: u64, worker: WorkerId, hand_off: HandOff) -> Option<Action> {
        // Congestion as it was when the worker chose: the last request out of the queue ends it.
        let congested = self.congestion.is_congested();
        let next = self.decide(worker, congested, W::next);
        let (waiting, hand_off) = match next {
            Next::Own(lanes) => {
                let own = self.take_own(worker, lanes)?;
                let handed_over = own.handed_over && own.served_ns == 0;
                (own, if handed_over { HandOff::HandedOver } else { hand_off })
            }
            Next::Resume => {
                let resumed = self.queues.pop_for(self.wait_queue(), worker)?;
                self.served(worker, resumed.served_ns);
                self.congestion.took(now_ns);
                (resumed, HandOff::Own)
            }
            Next::Steal { victim, lanes, requests } => {
                let stolen = self.steal(worker, victim, lanes, requests)?;
                (stolen, HandOff::Stolen)
            }
            Next::Nothing => return None,
        };
        self.idle.remove(worker);
        let slot = self.queues.slot(waiting.request_type);
        self.feedback.began(slot, worker, 1, waiting.waited_ns(now_ns));
        let action = self.running.start(now_ns, worker, waiting, hand_off);
        self.begins(now_ns, worker, congested);
        Some(action)
    }

    /// Takes the request of these lanes of the worker's own queue that is first.
    fn take_own(&mut self, worker: WorkerId, lanes: LaneSet) -> Option<Waiting> {
        let own = self.first_own(worker, lanes)?;
        self.queues.pop_for(self.lane(worker, own), worker)
    }

    fn first_own(&self, worker: WorkerId, lanes: LaneSet) -> Option<usize> {
        if self.per_worker == 1 {
            return Some(0);
        }
        let lanes = lanes.iter().filter(|&own| own < self.per_worker);
        let first = |own| {
            let first = self.queues.next_for(self.lane(worker, own), worker)?;
            Some((first.sequence, own))
        };
        Some(lanes.filter_map(first).min()?.1)
    }

    /// Takes requests of another worker's queue. Returns the first.
    fn steal(&mut self, thief: WorkerId, victim: WorkerId, lanes: LaneSet, requests: usize) -> Option<Waiting> {
        let own_lanes = lanes.iter().filter(|&own| own < self.per_worker);
        let lane = self.queues.oldest(own_lanes.map(|own| self.lane(victim, own)))?;
        let own = lane - self.lane(victim, 0);
        let first = self.queues.pop(lane)?;
        self.unserved(victim, first.served_ns);
        self.served(thief, first.served_ns);
        for _ in 1..requests {
            if let Some(served_ns) = self.queues.front(lane).map(|next| next.served_ns) {
                self.unserved(victim, served_ns);
                self.served(thief, served_ns);
                self.queues.move_first(lane, self.lane(thief, own));
            }
        }
        self.show_queue(victim);
        if self.running.is_busy(victim) && !self.finds(victim) {
            self.timer.queue_is_empty(victim);
        }
        Some(first)
    }

    /// A request begins, or goes on, on `worker`.
    fn begins(&mut self, now_ns: u64, worker: WorkerId, congested: bool) {
        let Some(turn) = self.running.on(worker) else {
            return;
        };
        let slot = self.queues.slot(turn.waiting.request_type);
        let long = self.knowledge.is_long(slot);
        let ran_ns = turn.waiting.served_ns;
        let line = self.board.line(worker);
        line.begin(now_ns, ran_ns, Runs { slot, long });
        self.arm(now_ns, worker, slot, congested);
    }

    /// The board tells of what runs when these workers take over.
    fn show_turns(&self) {
        for (worker, turn) in self.running.turns() {
            let slot = self.queues.slot(turn.waiting.request_type);
            let long = self.knowledge.is_long(slot);
            let line = self.board.line(worker);
            let ran_ns = turn.waiting.served_ns;
            line.begin(turn.started_ns, ran_ns, Runs { slot, long });
            line.set_served(ran_ns);
        }
    }

    /// What runs on `worker` gets its quantum.
    fn arm(&mut self, now_ns: u64, worker: WorkerId, slot: usize, congested: bool) {
        let quantum = self.decide(worker, congested, |object, look| object.quantum(look, slot));
        self.board.line(worker).set_quantum(now_ns, quantum);
        let yields_to = quantum.map_or(LaneSet::NONE, |quantum| quantum.yields_to);
        self.yields_to[worker.index()] = yields_to;
        self.show_queue(worker);
        let Some(quantum) = quantum else {
            self.timer.disarm(worker);
            return;
        };
        let waited_for = self.finds(worker);
        self.timer.arm(now_ns, worker, &self.running, quantum.ns, waited_for);
        let Self { queues, .. } = self;
        if !queues.has_another_context(worker) && queues.suspended(worker) == 0 {
            self.timer.spare(worker);
        }
    }

    /// Time has passed, for feedback.
    fn learn(&mut self, now_ns: u64) {
        let counted = Counted {
            queues: &self.queues,
            running: &self.running,
            lanes: self.wait_queue(),
            now_ns,
        };
        if self.feedback.passes(now_ns, &counted, &self.knowledge) {
            self.place_again(now_ns);
            self.keep_ready();
            for worker in (0..self.workers).map(WorkerId) {
                self.arm_again(now_ns, worker);
            }
        }
    }
}

impl<W: WorkerPolicy<Plain>, F: Feedback<Plain>> Scheduler for Distributed<W, F> {
    fn on_event(&mut self, now_ns: u64, event: Event<'_>) {
        self.congestion.passes(now_ns);
        match event {
            Event::Arrived { request, request_type, deadline_ns } => {
                self.arrived(now_ns, request, request_type, deadline_ns);
            }
            Event::Completed { worker, samples, .. } => {
                let finished = self.running.finish(worker).waiting;
                self.unserved(worker, finished.served_ns);
                self.measured(worker, samples);
                self.released(now_ns, worker);
            }
            Event::Yielded { worker, served_ns } => self.gave_up(now_ns, worker, served_ns),
            Event::Blocked { worker, served_ns } => {
                let blocked = self.running.give_up(worker, served_ns);
                self.unserved(worker, blocked.served_ns - served_ns);
                self.queues.block(now_ns, worker, blocked);
                self.released(now_ns, worker);
            }
            Event::Unblocked { request } => self.unblocked(now_ns, request),
            Event::Workers { present } => self.set_present(now_ns, present),
            Event::Tick => {}
        }
        self.learn(now_ns);
    }

    fn poll(&mut self, now_ns: u64) -> Option<Action> {
        self.queues
            .pop_refused()
            .or_else(|| self.run_next(now_ns))
            .or_else(|| self.timer.preempt_next(now_ns, &mut self.running))
    }

    fn deadline_ns(&self) -> Option<u64> {
        let [timer, congestion] = [self.timer.deadline_ns(), self.congestion.deadline_ns()];
        let deadlines = [timer, congestion, self.stuck_ns];
        deadlines.into_iter().flatten().min()
    }

    fn handover(&mut self) -> Option<&mut dyn Handover> {
        Some(self)
    }

    fn same_run(&self, first: RequestType, next: RequestType) -> bool {
        self.feedback.same_run(first, next)
    }

    fn type_status(&self, slot: usize) -> TypeStatus {
        let TypeStatus { queued, rejections, .. } = self.queues.type_status(slot);
        TypeStatus { queued, rejections, ..self.feedback.type_status(slot) }
    }

    fn relief(&self, now_ns: u64, slot: usize) -> Relief {
        self.feedback.relief(now_ns, &self.board, slot)
    }

    fn reservation_updates(&self) -> u64 {
        self.feedback.reservation_updates()
    }
}

impl<W: WorkerPolicy<Plain>, F: Feedback<Plain>> Handover for Distributed<W, F> {
    fn hand_over(&mut self) -> Backlog {
        backlog(&self.queues, &self.running)
    }

    fn take_over(&mut self, now_ns: u64, backlog: Backlog) {
        let wait_queue = self.wait_queue();
        let resumes = self.objects[0].requeue() == Requeue::WaitQueue;
        let mut resumed = 0;
        self.running.fill(&backlog);
        self.idle.take_running(&self.running);
        self.show_turns();
        let Self {
            queues,
            objects,
            board,
            knowledge,
            random,
            ways,
            present,
            per_worker,
            ..
        } = self;
        queues.fill(&backlog, |waiting| {
            if resumes && waiting.served_ns > 0 {
                resumed += 1;
                return wait_queue;
            }
            let slot = knowledge.slot(waiting.request_type);
            let own = if *per_worker == 1 { 0 } else { lane_of(slot) };
            let worker = waiting.home.unwrap_or_else(|| {
                let receiver = if ways.at_random { random.below(*present) } else { 0 };
                let mut look = Look {
                    me: WorkerId(receiver),
                    mine: Mine::default(),
                    congested: false,
                    board,
                    knowledge,
                    random,
                };
                let placed = objects[receiver as usize].place(&mut look, slot);
                placed.unwrap_or(WorkerId(receiver))
            });
            let line = board.line(worker);
            line.set_served(line.served_ns().saturating_add(waiting.served_ns));
            line.set_queue(Queue { queued: line.queued() + 1, ..line.queue() });
            worker.index() * *per_worker + own
        });
        self.congestion.passes(now_ns);
        self.congestion.put(resumed);
        self.timer.take_over(now_ns, &self.running);
        for worker in (0..self.workers).map(WorkerId) {
            self.show_queue(worker);
            if let Some(turn) = self.running.on(worker) {
                let slot = self.queues.slot(turn.waiting.request_type);
                self.arm(now_ns, worker, slot, false);
            } else if self.finds(worker) {
                self.add_ready(worker, HandOff::Own);
            }
        }
    }
}
