//! What must be true of any scheduler, kept in the simplest way beside it.

use std::collections::{BTreeMap, VecDeque};

use psp_server::policy::{Action, Event, HandOff, RequestId, Sample, Scheduler};
use psp_server::{RequestType, WorkerId};

use crate::operations::{Case, Measured, Operation, Step};
use crate::promises::{Idling, Places, Preempts, Promises, Quantum, Seen};

/// A request that waits.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Waiting {
    slot: usize,
    /// It ran before, and gave way.
    resumes: bool,
    /// Where that was, if the policy is still the same.
    ran_on: Option<WorkerId>,
    /// Where that was, if it can go on there alone, whatever the policy.
    home: Option<WorkerId>,
}

impl Waiting {
    /// Whether the policy may run it on `worker`.
    fn may_use(&self, places: &Places, seen: &Seen<'_>, worker: usize) -> bool {
        if self.home.is_some() {
            places.allow_at_home(seen, self.slot, worker)
        } else {
            places.allow(seen, self.slot, worker)
        }
    }

    /// Whether the driver can run it on `worker`, which can begin another request or cannot.
    fn can_run_on(&self, worker: usize, begins: bool) -> bool {
        self.home.map_or(begins, |home| home.index() == worker)
    }
}

/// A request that runs.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Turn {
    id: u32,
    slot: usize,
    started_ns: u64,
    /// Its worker was asked to stop.
    preempted: bool,
}

/// A scheduler, and what must be true of it.
pub(crate) struct Model<'a> {
    case: &'a Case,
    scheduler: Box<dyn Scheduler>,
    promises: Promises,
    /// Since when it has been this scheduler.
    since_ns: u64,
    now_ns: u64,
    /// When the scheduler was told something last.
    told_ns: u64,
    /// By the numbers of requests, which ascend in order of arrival.
    types_of_requests: Vec<RequestType>,
    waiting: BTreeMap<u32, Waiting>,
    running: Vec<Option<Turn>>,
    /// Refusals that the scheduler owes, in order.
    refusals: VecDeque<u32>,
    refused: Vec<u64>,
    completed: usize,
}

/// Deadlines at which the driver ticks while time passes; those beyond, it misses.
const TICKS_MAX: usize = 32;

impl<'a> Model<'a> {
    pub(crate) fn new(case: &'a Case) -> Self {
        for policy in &case.policies {
            assert_eq!(policy.validate(case.workers), Ok(()));
        }
        let policy = &case.policies[0];
        Self {
            case,
            scheduler: policy.scheduler(&case.setup()),
            promises: Promises::of(policy, case.useful_preemption()),
            since_ns: 0,
            now_ns: 0,
            told_ns: 0,
            types_of_requests: Vec::new(),
            waiting: BTreeMap::new(),
            running: vec![None; case.workers],
            refusals: VecDeque::new(),
            refused: vec![0; case.types.len() + 1],
            completed: 0,
        }
    }

    pub(crate) fn apply(&mut self, step: &Step) {
        match &step.operation {
            Operation::Arrive(types) => {
                for &number in types {
                    self.arrive(RequestType::new(number));
                }
            }
            Operation::Complete { nth, measured } => self.complete(*nth, *measured),
            Operation::Yield { nth } => self.give_way(*nth, |_| true),
            Operation::Obey { nth } => self.give_way(*nth, |turn| turn.preempted),
            Operation::Advance(by_ns) => self.advance(*by_ns),
            Operation::Stall(by_ns) => self.now_ns += by_ns,
            Operation::Tick => self.tell(Event::Tick),
            Operation::Switch { nth } => self.switch(nth % self.case.policies.len()),
        }
        self.poll(step.polls_max);
        self.check_status();
    }

    /// Everything that was accepted ends, whatever it needs for that.
    pub(crate) fn drain(&mut self) {
        self.poll(usize::MAX);
        for nth in 0..2 * self.types_of_requests.len() + 4 {
            if self.running.iter().all(Option::is_none) {
                break;
            }
            self.advance(1_000);
            match nth % 4 {
                0 => self.give_way(nth, |turn| turn.preempted),
                1 => self.give_way(nth, |_| true),
                2 => self.complete(nth, None),
                _ => self.complete(
                    nth,
                    Some(Measured {
                        count: 1,
                        service_ns: 1_000,
                    }),
                ),
            }
            self.poll(usize::MAX);
            self.check_status();
        }
        assert_eq!(self.waiting, BTreeMap::new(), "stranded");
        assert_eq!(self.running, vec![None; self.case.workers], "endless");
        let refused: u64 = self.refused.iter().sum();
        let answered = self.completed + usize::try_from(refused).unwrap();
        assert_eq!(answered, self.types_of_requests.len());
        assert_eq!(self.scheduler.deadline_ns(), None, "nothing to do by then");
        self.check_runs();
    }

    fn seen(&self) -> Seen<'_> {
        Seen {
            scheduler: &*self.scheduler,
            workers: self.case.workers,
            types: self.case.types.len(),
            running: self
                .running
                .iter()
                .flatten()
                .map(|turn| turn.slot)
                .collect(),
        }
    }

    fn queued(&self, slot: usize) -> usize {
        self.waiting.values().filter(|w| w.slot == slot).count()
    }

    /// How many requests a worker can hold, where preempted ones stay there.
    fn at_home(&self) -> Option<usize> {
        let preemption = self.case.preemption?;
        (!preemption.migrates).then_some(preemption.contexts)
    }

    /// How many requests are suspended on `worker`.
    fn suspended(&self, worker: usize) -> usize {
        let homes = self.waiting.values().filter_map(|waiting| waiting.home);
        homes.filter(|home| home.index() == worker).count()
    }

    /// Whether `worker` can begin a request, beside so many that it holds.
    fn begins(&self, worker: usize, held: usize) -> bool {
        self.at_home()
            .is_none_or(|contexts| self.suspended(worker) + held < contexts)
    }

    /// Whether `worker`, which is idle, can run one that waits.
    fn can_run(&self, waiting: &Waiting, worker: usize) -> bool {
        waiting.can_run_on(worker, self.begins(worker, 0))
    }

    /// How many of those that wait can use `worker`, which is busy, when it stops.
    fn waiting_for(&self, worker: usize) -> usize {
        let begins = self.begins(worker, 1);
        let waiting = self.waiting.values();
        waiting
            .filter(|waiting| waiting.can_run_on(worker, begins))
            .count()
    }

    fn tell(&mut self, event: Event<'_>) {
        self.scheduler.on_event(self.now_ns, event);
        self.told_ns = self.now_ns;
    }

    fn arrive(&mut self, request_type: RequestType) {
        let id = u32::try_from(self.types_of_requests.len()).unwrap();
        self.types_of_requests.push(request_type);
        let slot = self.case.types.slot(request_type);
        if self.queued(slot) < self.case.capacity(slot) {
            let waiting = Waiting {
                slot,
                resumes: false,
                ran_on: None,
                home: None,
            };
            self.waiting.insert(id, waiting);
        } else {
            self.refusals.push_back(id);
            self.refused[slot] += 1;
        }
        self.tell(Event::Arrived {
            request: RequestId(id),
            request_type,
        });
    }

    /// Takes what runs on the n-th of the workers with such a turn.
    fn take_turn(&mut self, nth: usize, such: impl Fn(&Turn) -> bool) -> Option<(WorkerId, Turn)> {
        let workers: Vec<usize> = (0..self.case.workers)
            .filter(|&worker| self.running[worker].as_ref().is_some_and(&such))
            .collect();
        let worker = *workers.get(nth.checked_rem(workers.len())?)?;
        let turn = self.running[worker].take()?;
        Some((WorkerId(u32::try_from(worker).unwrap()), turn))
    }

    fn complete(&mut self, nth: usize, measured: Option<Measured>) {
        let Some((worker, turn)) = self.take_turn(nth, |_| true) else {
            return;
        };
        self.completed += 1;
        let sample = measured.map(|measured| Sample {
            request_type: self.types_of_requests[turn.id as usize],
            count: measured.count,
            service_ns: measured.service_ns * u64::from(measured.count),
        });
        self.tell(Event::Completed {
            worker,
            samples: sample.as_slice(),
        });
    }

    fn give_way(&mut self, nth: usize, such: impl Fn(&Turn) -> bool) {
        let Some((worker, turn)) = self.take_turn(nth, such) else {
            return;
        };
        let waiting = Waiting {
            slot: turn.slot,
            resumes: true,
            ran_on: Some(worker),
            home: self.at_home().map(|_| worker),
        };
        self.waiting.insert(turn.id, waiting);
        self.tell(Event::Yielded {
            worker,
            served_ns: self.now_ns - turn.started_ns,
        });
    }

    fn advance(&mut self, by_ns: u64) {
        let until_ns = self.now_ns + by_ns;
        for _ in 0..TICKS_MAX {
            let deadline_ns = self.scheduler.deadline_ns();
            let Some(deadline_ns) = deadline_ns.filter(|&at_ns| at_ns <= until_ns) else {
                break;
            };
            self.now_ns = self.now_ns.max(deadline_ns);
            self.tell(Event::Tick);
            self.poll(usize::MAX);
        }
        self.now_ns = until_ns;
    }

    fn switch(&mut self, index: usize) {
        let policy = &self.case.policies[index];
        let mut next = policy.scheduler(&self.case.setup());
        next.take_over(self.now_ns, self.scheduler.hand_over());
        self.scheduler = next;
        self.promises = Promises::of(policy, self.case.useful_preemption());
        self.since_ns = self.now_ns;
        for waiting in self.waiting.values_mut() {
            waiting.ran_on = None;
        }
    }

    fn poll(&mut self, polls_max: usize) {
        for _ in 0..polls_max {
            let Some(action) = self.scheduler.poll(self.now_ns) else {
                self.check_rest();
                return;
            };
            match action {
                Action::Reject {
                    request,
                    request_type,
                } => {
                    assert_eq!(self.refusals.pop_front(), Some(request.0), "not owed");
                    assert_eq!(self.types_of_requests[request.0 as usize], request_type);
                }
                Action::Preempt { worker, .. } => self.check_preempt(worker),
                Action::Run {
                    worker,
                    request,
                    request_type,
                    hand_off,
                } => {
                    assert_eq!(self.types_of_requests[request.0 as usize], request_type);
                    self.check_run(worker, request, hand_off);
                }
            }
        }
    }

    fn check_run(&mut self, worker: WorkerId, RequestId(id): RequestId, hand_off: HandOff) {
        let started = self.waiting.get(&id).copied();
        let started = started.expect("it runs, ended, or was refused");
        let Promises { order, places, .. } = &self.promises;
        let seen = self.seen();
        for (&other, waiting) in &self.waiting {
            // Who was preempted waits where the policy wants; who never ran keeps its place.
            let comparable =
                self.promises.preempts == Preempts::Never || !(waiting.resumes || started.resumes);
            let passed_over = comparable
                && order.is_before(&seen, (waiting.slot, other), (started.slot, id))
                && places.allow(&seen, waiting.slot, worker.index())
                && self.can_run(waiting, worker.index());
            assert!(!passed_over, "{id} runs, and {other} should before it");
        }
        let allowed = started.may_use(places, &seen, worker.index());
        assert!(allowed, "{worker:?} is not for slot {}", started.slot);
        let stays = started.ran_on.is_none_or(|ran_on| ran_on == worker);
        assert!(!self.promises.stays || stays, "{id} moved to {worker:?}");
        assert!(
            self.can_run(&started, worker.index()),
            "{id} cannot run on {worker:?}: {started:?}"
        );
        let own_thread_free = self.case.inline
            && self.running[0].is_none()
            && started.home.is_none()
            && self.suspended(0) == 0;
        assert!(
            worker.0 == 0
                || !(own_thread_free && self.promises.own_thread_first)
                || !places.allow(&seen, started.slot, 0),
            "{worker:?} was sent what worker 0 could do itself"
        );
        assert!(self.promises.hand_offs.contains(&hand_off), "{hand_off:?}");
        self.waiting.remove(&id);
        let before = self.running[worker.index()].replace(Turn {
            id,
            slot: started.slot,
            started_ns: self.now_ns,
            preempted: false,
        });
        assert_eq!(before, None, "{worker:?} is busy");
    }

    fn check_preempt(&mut self, worker: WorkerId) {
        assert!(self.case.preemption.is_some(), "nothing can be preempted");
        // What is suspended can use no other worker, whichever stop.
        let (stopping, unbound) = (self.stopping_for_all(), self.unbound());
        assert!(
            self.suspended(worker.index()) > 0 || self.promises.preempts.allow(stopping, unbound),
            "{:?}: {stopping} are stopping, {unbound} wait",
            self.promises.preempts,
        );
        assert!(
            self.begins(worker.index(), 1) || self.suspended(worker.index()) > 0,
            "{worker:?} has no context for another"
        );
        if self.promises.preempts != Preempts::Whenever {
            let waiting = self.waiting_for(worker.index());
            assert!(waiting > 0, "nobody can use {worker:?}");
        }
        let turn = self.running[worker.index()].as_mut();
        let turn = turn.expect("only what runs can be preempted");
        assert!(!turn.preempted, "{worker:?} was asked already");
        assert!(self.case.gives_way(turn.slot), "{worker:?} will not stop");
        turn.preempted = true;
    }

    /// Number of workers that were asked to stop and have nothing suspended to go on with.
    fn stopping_for_all(&self) -> usize {
        let turns = self.running.iter().enumerate();
        turns
            .filter(|(_, turn)| turn.is_some_and(|turn| turn.preempted))
            .filter(|&(worker, _)| self.suspended(worker) == 0)
            .count()
    }

    /// How many wait that any worker may take up.
    fn unbound(&self) -> usize {
        let waiting = self.waiting.values();
        waiting.filter(|waiting| waiting.home.is_none()).count()
    }

    /// What must hold whenever.
    fn check_status(&self) {
        for slot in 0..=self.case.types.len() {
            let status = self.scheduler.type_status(slot);
            assert_eq!(status.queued, self.queued(slot), "slot {slot}");
            assert_eq!(status.rejections, self.refused[slot], "slot {slot}");
            let first = status.worker_first.map_or(0, WorkerId::index);
            assert!(first + status.workers_reserved <= self.case.workers);
            assert!(status.service_ns_mean.is_finite() && status.service_ns_mean >= 0.0);
            assert!((0.0..=1.0).contains(&status.share), "{}", status.share);
        }
    }

    /// Which types may travel in one run.
    fn check_runs(&self) {
        let types: Vec<RequestType> = (0..=self.case.types.len())
            .map(|index| RequestType::new(u32::try_from(index).unwrap()))
            .chain([RequestType::UNKNOWN])
            .collect();
        for &first in &types {
            assert!(self.scheduler.same_run(first, first));
            for &next in &types {
                let same = self.scheduler.same_run(first, next);
                assert_eq!(same, self.scheduler.same_run(next, first));
                let known =
                    |request_type| self.case.types.slot(request_type) < self.case.types.len();
                assert!(!same || first == next || (known(first) && known(next)));
            }
        }
    }

    /// What must hold when the scheduler has nothing more to do and knows what time it is.
    fn check_time(&self) {
        let deadline_ns = self.scheduler.deadline_ns();
        let overdue = deadline_ns.is_some_and(|at_ns| at_ns <= self.now_ns);
        assert!(!overdue, "at {} due at {deadline_ns:?}", self.now_ns);
        if self.case.preemption.is_some() {
            self.check_quanta();
        }
    }

    /// Nobody who waits, waits for a worker that is beyond its quantum.
    fn check_quanta(&self) {
        let running = || {
            let turns = self.running.iter().enumerate();
            turns.filter_map(|(worker, turn)| Some((worker, turn.as_ref()?)))
        };
        let expired = |quantum_ns: u64| {
            running().filter(move |(_, turn)| {
                let started_ns = turn.started_ns.max(self.since_ns);
                self.case.gives_way(turn.slot)
                    && !turn.preempted
                    && started_ns.saturating_add(quantum_ns) <= self.now_ns
            })
        };
        let unbound = self.unbound();
        match self.promises.quantum {
            Quantum::Endless => {}
            Quantum::ForAll(quantum_ns) => {
                let wanted = unbound > self.stopping_for_all();
                for (worker, _) in expired(quantum_ns) {
                    assert_eq!(self.suspended(worker), 0, "of {worker}");
                    assert!(!wanted || !self.begins(worker, 1), "{worker} is late");
                }
            }
            Quantum::ForThoseBehind(quantum_ns) => {
                let can_stop = |&(worker, _): &(usize, &Turn)| self.begins(worker, 1);
                let all = running().filter(can_stop).count();
                let late = expired(quantum_ns).filter(can_stop).count();
                assert!(unbound == 0 || all == 0 || late < running().count());
            }
        }
    }

    /// What must hold when the scheduler has nothing more to do.
    fn check_rest(&self) {
        assert_eq!(self.refusals, [], "neither run nor refused");
        if self.told_ns == self.now_ns {
            self.check_time();
        }
        let idle: Vec<usize> = (0..self.case.workers)
            .filter(|&worker| self.running[worker].is_none())
            .collect();
        if idle.len() == self.case.workers {
            assert_eq!(self.waiting, BTreeMap::new(), "all workers idle");
        }
        let owed = match &self.promises.idling {
            Idling::Never => &self.promises.places,
            Idling::UnlessLent(owed) => owed,
            Idling::BesideQueues { queued_max } => {
                let busy = self.case.workers - idle.len();
                let queued_max = busy.saturating_mul(*queued_max);
                let stuck = idle.iter().all(|&worker| !self.begins(worker, 0));
                assert!(stuck || self.unbound() <= queued_max);
                for &worker in &idle {
                    assert_eq!(self.suspended(worker), 0, "on {worker}, which is idle");
                }
                return;
            }
        };
        let seen = self.seen();
        // One that ran before may be aged, and leave idle workers to those that may come.
        let may_age = matches!(self.promises.idling, Idling::UnlessLent(_));
        let owed_now = self
            .waiting
            .iter()
            .filter(|(_, waiting)| !(may_age && waiting.resumes));
        for (id, waiting) in owed_now {
            let could = idle.iter().find(|&&worker| {
                waiting.may_use(owed, &seen, worker) && self.can_run(waiting, worker)
            });
            assert_eq!(could, None, "{id} waits for nothing");
        }
    }
}
