//! Two ways of driving the objects of workers decide alike: the adapter, which has all queues in one place, and
//! workers that have a queue each and share nothing but the board and knowledge, as words that are atomics.

use std::collections::VecDeque;
use std::time::Duration;

use proptest::prelude::*;
use psp_policy::distributed::{
    AnyLocal, Congestion, InSystem, LaneSet, Live, Look, Mine, Next, Queue, Random, Requeue, Runs, Watch, lane_of,
};
use psp_policy::{
    Action, Contexts, Event, HandOff, Policy, Preemption, RequestId, RequestType, Sample, Scheduler, SchedulerSetup,
    StuckAfter, TypeSpec, TypeTable, WorkerId,
};

use crate::settings::policy_with_any_settings;

const WORKERS: usize = 4;
const PREEMPTION: Preemption = Preemption::new(700);

/// A request that waits or runs. Ids ascend in order of arrival.
#[derive(Debug, Clone, Copy)]
struct Request {
    id: u32,
    slot: usize,
    arrived_ns: u64,
    served_ns: u64,
    handed_over: bool,
}

/// A worker: its queue, and what it runs.
#[derive(Debug, Default)]
struct Worker {
    lanes: Vec<VecDeque<Request>>,
    runs: Option<(Request, u64)>,
}

/// Workers that schedule themselves, one event after the other.
struct Threads {
    local: AnyLocal<Live>,
    workers: Vec<Worker>,
    wait_queue: VecDeque<Request>,
    congestion: Congestion,
    watch: Watch,
    random: Random,
    /// Idle workers, the most recently active first.
    idle: Vec<WorkerId>,
    /// Idle workers that were woken, because something joined their queues.
    woken: VecDeque<(WorkerId, HandOff)>,
    log: Vec<Action>,
}

impl Threads {
    /// How many requests of a type wait or run.
    fn requests(&self, slot: usize) -> u64 {
        let queues = self.workers.iter().flat_map(|worker| &worker.lanes);
        let waiting = queues.flatten().chain(&self.wait_queue);
        let running = self.workers.iter().filter_map(|worker| worker.runs.as_ref());
        let running = running.map(|(request, _)| request);
        let of_type = waiting.chain(running).filter(|request| request.slot == slot);
        of_type.count() as u64
    }
}

/// What was in the system, and for how long the oldest of each type had waited.
struct Counts(Vec<u64>, Vec<u64>);

impl InSystem for Counts {
    fn requests(&self, slot: usize) -> u64 {
        self.0[slot]
    }

    fn waited_ns(&self, slot: usize) -> u64 {
        self.1[slot]
    }
}

fn worker_ids() -> impl Iterator<Item = WorkerId> {
    (0..WORKERS as u32).map(WorkerId)
}

impl Threads {
    fn new(policy: &Policy, setup: &SchedulerSetup<'_>) -> Self {
        let local = policy.local(setup).expect("workers schedule themselves");
        let slots = setup.types.len() + 1;
        let lanes = if local.typed { slots } else { 1 };
        let worker = || Worker { lanes: vec![VecDeque::new(); lanes], runs: None };
        Self {
            workers: worker_ids().map(|_| worker()).collect(),
            wait_queue: VecDeque::new(),
            congestion: Congestion::new(local.ways.congestion_ns),
            watch: Watch::new(WORKERS, local.ways),
            random: Random::new(setup.seed),
            idle: worker_ids().collect(),
            woken: VecDeque::new(),
            log: Vec::new(),
            local,
        }
    }

    fn decide<T>(
        &mut self,
        me: WorkerId,
        decide: impl FnOnce(&mut dyn psp_policy::distributed::WorkerPolicy<Live>, &mut Look<'_, Live>) -> T,
    ) -> T {
        let own = self.waiting(me);
        let mut look = Look {
            me,
            mine: Mine {
                begins: own,
                resumes: LaneSet::NONE,
                has_context: true,
                has_another_context: true,
                wait_queue: !self.wait_queue.is_empty(),
            },
            congested: self.congestion.is_congested(),
            board: &self.local.board,
            knowledge: &self.local.knowledge,
            random: &mut self.random,
        };
        decide(&mut *self.local.workers[me.index()], &mut look)
    }

    fn waiting(&self, worker: WorkerId) -> LaneSet {
        let lanes = self.workers[worker.index()].lanes.iter().enumerate();
        let waiting = lanes.filter(|(_, lane)| !lane.is_empty());
        waiting.map(|(own, _)| own).collect()
    }

    fn show(&self, worker: WorkerId) {
        let waiting = self.waiting(worker);
        let lanes = self.workers[worker.index()].lanes.iter();
        self.local.board.line(worker).set_queue(Queue {
            queued: lanes.map(|lane| lane.len() as u64).sum(),
            held: 0,
            waiting,
            behind: waiting,
            blocked_up: false,
        });
    }

    fn serve(&self, worker: WorkerId, plus_ns: u64, minus_ns: u64) {
        let line = self.local.board.line(worker);
        line.set_served((line.served_ns() + plus_ns).saturating_sub(minus_ns));
    }

    fn own_lane(&self, slot: usize) -> usize {
        if self.local.typed { lane_of(slot) } else { 0 }
    }

    fn place(&mut self, receiver: WorkerId, slot: usize) -> (WorkerId, HandOff) {
        let placed = self.decide(receiver, |object, look| object.place(look, slot));
        let worker = placed.unwrap_or(receiver);
        let hand_off = match (self.local.ways.at_random, worker == receiver) {
            (false, _) => HandOff::Dispatched,
            (true, true) => HandOff::Own,
            (true, false) => HandOff::HandedOver,
        };
        (worker, hand_off)
    }

    /// A request joins the queue of a worker, and wakes it if that is idle and had none.
    fn join(&mut self, worker: WorkerId, request: Request, hand_off: HandOff, in_order: bool) {
        let own = self.own_lane(request.slot);
        let had_none = self.waiting(worker).is_empty();
        let lane = &mut self.workers[worker.index()].lanes[own];
        let later = lane.iter().position(|other| other.id > request.id);
        match later.filter(|_| in_order) {
            Some(place) => lane.insert(place, request),
            None => lane.push_back(request),
        }
        self.show(worker);
        if had_none && self.workers[worker.index()].runs.is_none() {
            self.wake(worker, hand_off);
        }
    }

    fn wake(&mut self, worker: WorkerId, hand_off: HandOff) {
        if !self.woken.iter().any(|&(woken, _)| woken == worker) {
            self.woken.push_back((worker, hand_off));
        }
    }

    fn arrives(&mut self, now_ns: u64, id: u32, slot: usize) {
        let receiver = if self.local.ways.at_random {
            WorkerId(self.random.below(WORKERS as u32))
        } else {
            WorkerId(0)
        };
        let (worker, hand_off) = self.place(receiver, slot);
        let request = Request {
            id,
            slot,
            arrived_ns: now_ns,
            served_ns: 0,
            handed_over: hand_off == HandOff::HandedOver,
        };
        self.join(worker, request, hand_off, false);
    }

    fn released(&mut self, now_ns: u64, worker: WorkerId) {
        self.idle.insert(0, worker);
        self.local.board.line(worker).end(now_ns);
        self.show(worker);
        if !self.waiting(worker).is_empty() {
            self.wake(worker, HandOff::Own);
        }
    }

    fn completes(&mut self, now_ns: u64, worker: WorkerId, sample: &Sample) {
        let (request, _) = self.workers[worker.index()].runs.take().expect("it runs");
        self.serve(worker, 0, request.served_ns);
        self.local.feedback.record(request.slot, sample);
        let AnyLocal { workers, knowledge, .. } = &mut self.local;
        workers[worker.index()].measured(knowledge, request.slot, sample);
        self.released(now_ns, worker);
    }

    fn yields(&mut self, now_ns: u64, worker: WorkerId, served_ns: u64) {
        let (mut request, _) = self.workers[worker.index()].runs.take().expect("it runs");
        request.served_ns += served_ns;
        let own = self.own_lane(request.slot);
        match self.local.workers[worker.index()].requeue() {
            Requeue::WaitQueue => {
                self.serve(worker, 0, request.served_ns - served_ns);
                self.wait_queue.push_back(request);
                self.congestion.put(1);
            }
            requeue => {
                self.serve(worker, served_ns, 0);
                let lane = &mut self.workers[worker.index()].lanes[own];
                let later = lane.iter().position(|other| other.id > request.id);
                match later.filter(|_| requeue == Requeue::Head) {
                    Some(place) => lane.insert(place, request),
                    None => lane.push_back(request),
                }
            }
        }
        self.released(now_ns, worker);
    }

    /// Feedback looks at the time, and workers look through their queues if it says so.
    fn learn(&mut self, now_ns: u64, slots: usize) {
        let heads = || self.workers.iter().flat_map(|worker| &worker.lanes);
        let waited = |slot| {
            let heads = heads().filter_map(VecDeque::front);
            let heads = heads.filter(|head| head.slot == slot);
            let waited = heads.map(|head| now_ns - head.arrived_ns - head.served_ns);
            waited.max().unwrap_or(0)
        };
        let counts = Counts((0..slots).map(|slot| self.requests(slot)).collect(), (0..slots).map(waited).collect());
        let AnyLocal { feedback, knowledge, .. } = &mut self.local;
        if !feedback.passes(now_ns, &counts, knowledge) {
            return;
        }
        for from in worker_ids() {
            for own in 0..self.workers[from.index()].lanes.len() {
                while self.local.typed && !self.local.knowledge.may_run(own, from) {
                    let Some(&first) = self.workers[from.index()].lanes[own].front() else {
                        break;
                    };
                    let (to, hand_off) = self.place(from, first.slot);
                    if to == from {
                        break;
                    }
                    self.workers[from.index()].lanes[own].pop_front();
                    self.serve(from, 0, first.served_ns);
                    self.serve(to, first.served_ns, 0);
                    self.join(to, first, hand_off, true);
                    self.show(from);
                }
            }
        }
        let mut woken = std::mem::take(&mut self.woken);
        woken.retain(|&(worker, _)| !self.waiting(worker).is_empty());
        self.woken = woken;
        for worker in worker_ids() {
            if let Some((request, started_ns)) = self.workers[worker.index()].runs {
                self.arm(started_ns, worker, request.slot);
            }
        }
    }

    fn arm(&mut self, at_ns: u64, worker: WorkerId, slot: usize) {
        let quantum = self.decide(worker, |object, look| object.quantum(look, slot));
        self.local.board.line(worker).set_quantum(at_ns, quantum);
    }

    /// Idle workers look until none finds anything. Then the timer core looks.
    fn look(&mut self, now_ns: u64) {
        while self.one_looks(now_ns) {}
        while let Some(expired) = self.watch.expired(now_ns, &self.local.board) {
            self.log.push(preempted(expired.worker));
        }
    }

    fn one_looks(&mut self, now_ns: u64) -> bool {
        let queues = self.workers.iter().flat_map(|worker| &worker.lanes);
        if queues.flatten().next().is_none() && self.wait_queue.is_empty() {
            return false;
        }
        if !self.idle.is_empty() {
            let AnyLocal { feedback, board, knowledge, .. } = &mut self.local;
            feedback.relieve(now_ns, board, knowledge);
        }
        while let Some((worker, hand_off)) = self.woken.pop_front() {
            if self.takes(now_ns, worker, hand_off) {
                return true;
            }
        }
        self.local.workers[0].looks_elsewhere()
            && self.idle.clone().into_iter().any(|worker| self.takes(now_ns, worker, HandOff::Own))
    }

    fn takes(&mut self, now_ns: u64, worker: WorkerId, hand_off: HandOff) -> bool {
        let congested = self.congestion.is_congested();
        let (request, hand_off) = match self.decide(worker, |object, look| object.next(look)) {
            Next::Nothing => return false,
            Next::Own(lanes) => {
                let request = self.pop(worker, lanes).expect("it found one");
                let handed_over = request.handed_over && request.served_ns == 0;
                let how = if handed_over { HandOff::HandedOver } else { hand_off };
                (request, how)
            }
            Next::Resume => {
                let request = self.wait_queue.pop_front().expect("it found one");
                self.serve(worker, request.served_ns, 0);
                self.congestion.took(now_ns);
                (request, HandOff::Own)
            }
            Next::Steal { victim, lanes, requests } => {
                let first = self.pop(victim, lanes).expect("the board said so");
                self.serve(victim, 0, first.served_ns);
                self.serve(worker, first.served_ns, 0);
                let own = self.own_lane(first.slot);
                for _ in 1..requests {
                    if let Some(next) = self.workers[victim.index()].lanes[own].pop_front() {
                        self.workers[worker.index()].lanes[own].push_back(next);
                    }
                }
                self.show(victim);
                (first, HandOff::Stolen)
            }
        };
        self.idle.retain(|&idle| idle != worker);
        let waited_ns = now_ns - request.arrived_ns - request.served_ns;
        self.local.feedback.began(request.slot, worker, 1, waited_ns);
        self.workers[worker.index()].runs = Some((request, now_ns));
        let slot = request.slot;
        let long = self.local.knowledge.is_long(slot);
        let line = self.local.board.line(worker);
        line.begin(now_ns, request.served_ns, Runs { slot, long });
        let own = self.waiting(worker);
        let look = Look {
            me: worker,
            mine: Mine { begins: own, ..Mine::default() },
            congested,
            board: &self.local.board,
            knowledge: &self.local.knowledge,
            random: &mut self.random,
        };
        let quantum = self.local.workers[worker.index()].quantum(&look, slot);
        line.set_quantum(now_ns, quantum);
        self.show(worker);
        self.log.push(Action::Run {
            worker,
            request: RequestId(request.id),
            request_type: RequestType::new(slot as u32),
            hand_off,
        });
        true
    }

    /// Takes the request of these lanes that arrived first, of those at their heads.
    fn pop(&mut self, worker: WorkerId, lanes: LaneSet) -> Option<Request> {
        let own = self.workers[worker.index()].lanes.iter_mut().enumerate();
        let own = own.filter(|(lane, queue)| lanes.contains(*lane) && !queue.is_empty());
        let first = own.min_by_key(|(_, queue)| queue.front().map(|first| first.id));
        first?.1.pop_front()
    }
}

/// One thing that happens, after some time.
#[derive(Debug, Clone, Copy)]
enum Step {
    Arrive(usize),
    /// The n-th busy worker completes, of a request that took so long.
    Complete(usize, u64),
    /// The n-th worker that was asked to stop does so.
    Obey(usize),
    Tick,
}

fn steps() -> impl Strategy<Value = Vec<(u64, Step)>> {
    let service_ns = prop_oneof![1..2_000_u64, 50_000..200_000_u64];
    let step = prop_oneof![
        5 => (0..3_usize).prop_map(Step::Arrive),
        4 => (any::<usize>(), service_ns).prop_map(|(nth, ns)| Step::Complete(nth, ns)),
        3 => any::<usize>().prop_map(Step::Obey),
        2 => Just(Step::Tick),
    ];
    let pause_ns = prop_oneof![Just(0_u64), 1..3_000_u64, 3_000..40_000_u64];
    prop::collection::vec((pause_ns, step), 0..150)
}

fn policies() -> impl Strategy<Value = Policy> {
    prop::sample::select(&["d-fcfs", "stealing", "jsq", "synergy", "darc-distributed"][..])
        .prop_flat_map(|name| policy_with_any_settings(name, WORKERS))
}

/// Polls until there is nothing to do.
fn poll(adapter: &mut dyn Scheduler, now_ns: u64, log: &mut Vec<Action>) {
    let actions = std::iter::from_fn(|| adapter.poll(now_ns));
    log.extend(actions.map(|action| match action {
        Action::Preempt { worker, .. } => preempted(worker),
        action => action,
    }));
}

/// A preemption. The adapter names the rest of a renewed quantum, and the timer core all of it.
const fn preempted(worker: WorkerId) -> Action {
    let quantum_ns = 0;
    Action::Preempt { worker, quantum_ns }
}

/// The adapter and the workers of their own, which hear of the same.
struct Both {
    adapter: Box<dyn Scheduler>,
    threads: Threads,
    log: Vec<Action>,
    now_ns: u64,
    arrived: u32,
    slots: usize,
}

impl Both {
    fn new(policy: &Policy, setup: &SchedulerSetup<'_>) -> Self {
        Self {
            adapter: policy.scheduler(setup),
            threads: Threads::new(policy, setup),
            log: Vec::new(),
            now_ns: 0,
            arrived: 0,
            slots: setup.types.len() + 1,
        }
    }

    /// Time passes. The timer core looks whenever a quantum ends, and so does the driver of the adapter.
    fn pass(&mut self, pause_ns: u64) {
        let until_ns = self.now_ns + pause_ns;
        while let Some(at_ns) = self.adapter.deadline_ns().filter(|&at_ns| at_ns <= until_ns) {
            self.now_ns = at_ns.max(self.now_ns);
            self.threads.congestion.passes(self.now_ns);
            self.adapter.on_event(self.now_ns, Event::Tick);
            self.look();
        }
        self.now_ns = until_ns;
        self.threads.congestion.passes(until_ns);
        let watched_ns = self.threads.watch.next_ns(until_ns, &self.threads.local.board);
        assert!(watched_ns.is_none_or(|at_ns| at_ns >= until_ns), "{watched_ns:?}");
    }

    fn apply(&mut self, step: Step) {
        let Self { adapter, threads, log, now_ns, arrived, .. } = self;
        let now_ns = *now_ns;
        let busy = worker_ids().filter(|worker| threads.workers[worker.index()].runs.is_some());
        let busy: Vec<WorkerId> = busy.collect();
        match step {
            Step::Arrive(slot) => {
                let request_type = RequestType::new(slot as u32);
                let request = RequestId(*arrived);
                adapter.on_event(now_ns, Event::Arrived { request, request_type, deadline_ns: None });
                threads.arrives(now_ns, *arrived, slot);
                *arrived += 1;
            }
            Step::Complete(nth, service_ns) if !busy.is_empty() => {
                let worker = busy[nth % busy.len()];
                let (request, _) = threads.workers[worker.index()].runs.unwrap();
                let request_type = RequestType::new(request.slot as u32);
                let sample = Sample { request_type, count: 1, service_ns };
                adapter.on_event(now_ns, Event::Completed { worker, samples: &[sample], dropped: false });
                threads.completes(now_ns, worker, &sample);
            }
            Step::Obey(nth) => {
                let asked: Vec<WorkerId> = busy.into_iter().filter(|&worker| is_asked(log, worker)).collect();
                if let Some(&worker) = asked.get(nth % asked.len().max(1)) {
                    let (_, started_ns) = threads.workers[worker.index()].runs.unwrap();
                    let served_ns = now_ns - started_ns;
                    adapter.on_event(now_ns, Event::Yielded { worker, served_ns });
                    threads.yields(now_ns, worker, served_ns);
                } else {
                    adapter.on_event(now_ns, Event::Tick);
                }
            }
            Step::Complete(..) | Step::Tick => adapter.on_event(now_ns, Event::Tick),
        }
    }

    /// Both do what there is to do.
    fn look(&mut self) {
        self.threads.learn(self.now_ns, self.slots);
        poll(&mut *self.adapter, self.now_ns, &mut self.log);
        self.threads.look(self.now_ns);
    }
}

/// Whether the last that `worker` heard is to stop.
fn is_asked(log: &[Action], worker: WorkerId) -> bool {
    let last = log.iter().rfind(|action| match action {
        Action::Run { worker: at, .. } | Action::Preempt { worker: at, .. } => *at == worker,
        Action::Reject { .. } => false,
    });
    matches!(last, Some(Action::Preempt { .. }))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_adapter_and_workers_of_their_own_decide_alike(
        policy in policies(),
        hints in any::<bool>(),
        stuck_ns in prop::option::of(50_000..300_000_u64),
        seed in any::<u64>(),
        steps in steps(),
    ) {
        let spec = |name: &str, us| {
            let spec = TypeSpec::new(name);
            if hints { spec.service_time(Duration::from_micros(us)) } else { spec }
        };
        let types: TypeTable = [spec("A", 1), spec("B", 20), spec("C", 100)].into_iter().collect();
        let setup = SchedulerSetup::new(WORKERS, &types)
            .preemption(Some(PREEMPTION))
            .contexts(Contexts::migrating())
            .stuck(stuck_ns.map(|time_ns| StuckAfter::new(time_ns, 2)))
            .seed(seed);
        let mut both = Both::new(&policy, &setup);
        for (pause_ns, step) in steps {
            both.pass(pause_ns);
            both.apply(step);
            both.look();
            prop_assert_eq!(&both.threads.log, &both.log);
        }
    }
}
