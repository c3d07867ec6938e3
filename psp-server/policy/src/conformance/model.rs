//! What must be true of a scheduler, kept in the simplest way beside it.

use std::collections::{BTreeMap, VecDeque};

use super::broken::{Broken, Promise};
use super::cases::{Case, Measured, Operation, Step};
use super::promises::{AllowedWorkers, Idling, Order, Place, Preempts, Promises, Quantum};
use super::seen::Seen;
use crate::event::{Action, Event, HandOff, RequestId, Sample, WorkerId};
use crate::policy::Policy;
use crate::request_type::RequestType;
use crate::scheduler::{Scheduler, switch};
use crate::setup::SchedulerSetup;

/// Returns the broken promise unless the condition holds.
macro_rules! require {
    ($promise:ident, $holds:expr, $($what:tt)+) => {
        if !$holds {
            return Err(Broken::new(Promise::$promise, format!($($what)+)));
        }
    };
}

/// A request that waits.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Waiting {
    slot: usize,
    /// When its turn shall have come at the latest.
    deadline_ns: Option<u64>,
    /// For how long it ran in earlier turns; `None` if it never ran.
    served_ns: Option<u64>,
    /// Where it ran last, if that worker is present and the policy has not changed since.
    ran_on: Option<WorkerId>,
    /// It waited when workers went: it may have moved to another queue.
    moved: bool,
    /// Where it ran last, if it can resume there alone.
    home: Option<WorkerId>,
    /// It was blocked, and has not run since.
    unblocked: bool,
}

impl Waiting {
    /// Whether it ran before, and yielded.
    const fn resumes(&self) -> bool {
        self.served_ns.is_some()
    }

    /// Whether the driver drops it when it would begin now.
    fn is_late(&self, now_ns: u64) -> bool {
        !self.resumes() && self.deadline_ns.is_some_and(|at_ns| at_ns < now_ns)
    }

    const fn place(&self, id: u32) -> Place {
        Place {
            slot: self.slot,
            id,
            deadline_ns: self.deadline_ns,
            resumes: self.resumes(),
        }
    }

    /// Whether the policy may run it on `worker`.
    fn may_use(&self, workers: &AllowedWorkers, seen: &Seen<'_>, worker: usize) -> bool {
        if self.home.is_some() {
            workers.allow_at_home(seen, self.slot)
        } else {
            workers.allow(seen, self.slot, worker)
        }
    }

    /// Whether the driver can run it on `worker`; `begins` says whether that worker can begin
    /// another request.
    fn can_run_on(&self, worker: usize, begins: bool) -> bool {
        self.home.map_or(begins, |home| home.index() == worker)
    }
}

/// A request that runs.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Turn {
    id: u32,
    slot: usize,
    deadline_ns: Option<u64>,
    started_ns: u64,
    /// For how long the request ran in earlier turns.
    served_ns: u64,
    /// Its worker was asked to stop.
    preempted: bool,
    /// It was blocked before this turn.
    unblocked: bool,
}

type PromisesOf<'a> = dyn Fn(&Policy, &SchedulerSetup<'_>) -> Promises + 'a;

/// A scheduler, and what must be true of it.
pub(super) struct Model<'a> {
    case: &'a Case,
    promises_of: &'a PromisesOf<'a>,
    scheduler: Box<dyn Scheduler>,
    promises: Promises,
    /// When this scheduler took over.
    since_ns: u64,
    now_ns: u64,
    /// How many workers are present.
    present: usize,
    /// When the scheduler got its last event.
    told_ns: u64,
    /// By the ids of requests, which ascend in order of arrival.
    types_of_requests: Vec<RequestType>,
    waiting: BTreeMap<u32, Waiting>,
    /// What is blocked, as it will wait.
    blocked: BTreeMap<u32, Waiting>,
    running: Vec<Option<Turn>>,
    /// Per worker: the last request that began there under this policy, by its class in the order.
    begun_last: Vec<BTreeMap<usize, u32>>,
    /// How often the policy had reserved workers when `begun_last` began.
    reservations: u64,
    /// Per type slot: registered without a hint, and not measured under this policy.
    unmeasured: Vec<bool>,
    /// Refusals that the scheduler owes, in order.
    refusals: VecDeque<u32>,
    refused: Vec<u64>,
}

/// Deadlines at which the driver ticks while time passes. It misses further ones.
const TICKS_MAX: usize = 32;

impl<'a> Model<'a> {
    pub(super) fn new(case: &'a Case, promises_of: &'a PromisesOf<'a>) -> Self {
        for policy in &case.policies {
            assert_eq!(policy.validate(case.workers), Ok(()), "{policy:?}");
        }
        let policy = &case.policies[0];
        Self {
            case,
            promises_of,
            scheduler: policy.scheduler(&case.setup()),
            promises: promised(promises_of, case, policy),
            since_ns: 0,
            now_ns: 0,
            present: case.present,
            told_ns: 0,
            types_of_requests: Vec::new(),
            waiting: BTreeMap::new(),
            blocked: BTreeMap::new(),
            running: vec![None; case.workers],
            begun_last: vec![BTreeMap::new(); case.workers],
            reservations: 0,
            unmeasured: unhinted(case),
            refusals: VecDeque::new(),
            refused: vec![0; case.types.len() + 1],
        }
    }

    /// Applies an operation, and checks what follows.
    pub(super) fn apply(&mut self, step: &Step) -> Result<(), Broken> {
        match &step.operation {
            Operation::Arrive(types) => {
                for &number in types {
                    self.arrive(RequestType::new(number), None);
                }
            }
            Operation::ArriveDue { request_type, within_ns } => {
                let deadline_ns = self.now_ns.saturating_add(*within_ns);
                self.arrive(RequestType::new(*request_type), Some(deadline_ns));
            }
            Operation::Complete { nth, measured } => self.complete(*nth, *measured),
            Operation::Yield { nth } => self.stop(*nth, |_| true),
            Operation::Obey { nth } => self.stop(*nth, |turn| turn.preempted),
            Operation::Block { nth } => self.block(*nth),
            Operation::Unblock { nth } => self.unblock(*nth),
            Operation::Advance(by_ns) => self.advance(*by_ns)?,
            Operation::Stall(by_ns) => self.now_ns += by_ns,
            Operation::Tick => self.tell(Event::Tick),
            Operation::Workers { nth } => self.come_or_go(1 + nth % self.case.workers),
            Operation::Switch { nth } => self.switch(nth % self.case.policies.len()),
        }
        self.poll(step.polls_max)?;
        self.check_status()
    }

    /// Lets every accepted request end, and checks that it does.
    pub(super) fn drain(&mut self) -> Result<(), Broken> {
        self.poll(usize::MAX)?;
        for nth in 0..3 * self.types_of_requests.len() + 4 {
            if self.running.iter().all(Option::is_none) && self.blocked.is_empty() {
                break;
            }
            self.advance(1_000)?;
            self.unblock(nth);
            match nth % 4 {
                0 => self.stop(nth, |turn| turn.preempted),
                1 => self.stop(nth, |_| true),
                2 => self.complete(nth, None),
                _ => {
                    let (count, service_ns) = (1, 1_000);
                    self.complete(nth, Some(Measured { count, service_ns }));
                }
            }
            self.poll(usize::MAX)?;
            self.check_status()?;
        }
        let all_ended = self.waiting.is_empty() && self.blocked.is_empty() && self.running.iter().all(Option::is_none);
        let (waiting, running, blocked) = (&self.waiting, &self.running, &self.blocked);
        require!(
            NothingLost,
            all_ended,
            "{waiting:?} wait, {running:?} run and {blocked:?} are blocked in the end"
        );
        let deadline_ns = self.scheduler.deadline_ns();
        require!(Deadline, deadline_ns.is_none(), "{deadline_ns:?} with no request");
        self.check_runs()
    }

    fn seen(&self) -> Seen<'_> {
        Seen {
            scheduler: &*self.scheduler,
            workers: self.present,
            types: self.case.types.len(),
            running: self.running.iter().flatten().map(|turn| turn.slot).collect(),
            blocked: self.blocked.values().map(|blocked| blocked.slot).collect(),
            unmeasured: &self.unmeasured,
        }
    }

    /// Whether the request may not begin on `worker` because that is the driver's own thread.
    fn is_spared(&self, waiting: &Waiting, worker: usize) -> bool {
        let others = self.present > 1 && !self.case.types.is_empty();
        self.promises.own_thread_spared
            && (self.case.inline && others && worker == 0 && waiting.home.is_none())
            && !self.seen().knows_length(waiting.slot)
    }

    /// Whether a turn has lasted for so long that its request is stuck.
    fn is_stuck(&self, turn: &Turn) -> bool {
        let mean_ns = self.scheduler.type_status(turn.slot).service_ns_mean;
        let attained_ns = turn.served_ns + self.now_ns - turn.started_ns;
        let after = self.case.stuck;
        after.is_some_and(|after| attained_ns >= after.service_ns(mean_ns))
    }

    /// Whether a request of the type at `slot` may begin on `worker`, which is not its own, because its own are all
    /// stuck.
    fn relief(&self, seen: &Seen<'_>, slot: usize, worker: usize) -> bool {
        let workers = &self.promises.workers;
        let own_thread = self.case.inline && worker == 0;
        if !self.promises.relieves || worker >= self.present || own_thread {
            return false;
        }
        let turns = || {
            let turns = self.running.iter().enumerate();
            turns.filter_map(|(on, turn)| Some((on, (*turn)?)))
        };
        let alike = |turn: &Turn| workers.are_alike(seen, turn.slot, slot);
        if matches!(workers, AllowedWorkers::AnyWithLimit) {
            let longs_max = seen.workers - seen.reserved_for_short();
            let limited = seen.workers > 1 && seen.knows_lengths() && !seen.is_short(slot);
            let longs = || turns().filter(|(_, turn)| alike(turn));
            return limited && longs().count() == longs_max && longs().all(|(_, turn)| self.is_stuck(&turn));
        }
        let is_own = |worker| workers.allow(seen, slot, worker);
        let own_stuck = (0..self.present)
            .filter(|&own| is_own(own))
            .all(|own| self.running[own].is_some_and(|turn| self.is_stuck(&turn)));
        let any_away = || turns().any(|(on, turn)| alike(&turn) && !is_own(on));
        own_stuck && !is_own(worker) && !any_away()
    }

    fn queued(&self, slot: usize) -> usize {
        self.waiting.values().filter(|w| w.slot == slot).count()
    }

    /// How many requests a worker can hold, where requests do not migrate.
    fn contexts(&self) -> Option<usize> {
        let contexts = self.case.contexts;
        (!contexts.migrates).then_some(contexts.per_worker)
    }

    /// How many requests are suspended on `worker`.
    fn suspended(&self, worker: usize) -> usize {
        let homes = self.waiting.values().filter_map(|waiting| waiting.home);
        homes.filter(|home| home.index() == worker).count()
    }

    /// How many requests are blocked on `worker`.
    fn blocked(&self, worker: usize) -> usize {
        let homes = self.blocked.values().filter_map(|blocked| blocked.home);
        homes.filter(|home| home.index() == worker).count()
    }

    /// Whether `worker` can begin a request beside its suspended and blocked ones and `held` others.
    fn begins(&self, worker: usize, held: usize) -> bool {
        let has_context = |contexts| self.suspended(worker) + self.blocked(worker) + held < contexts;
        worker < self.present && self.contexts().is_none_or(has_context)
    }

    /// Whether `worker`, which is idle, can run a request.
    fn can_run(&self, waiting: &Waiting, worker: usize) -> bool {
        waiting.can_run_on(worker, self.begins(worker, 0))
    }

    /// Whether any request that waits could run on `worker`, which is busy, if that stopped.
    fn anyone_can_use(&self, worker: usize) -> bool {
        let begins = self.begins(worker, 1);
        let mut waiting = self.waiting.values();
        waiting.any(|waiting| waiting.can_run_on(worker, begins))
    }

    fn tell(&mut self, event: Event<'_>) {
        self.scheduler.on_event(self.now_ns, event);
        if let Some(study) = self.scheduler.study() {
            self.scheduler.conclude(self.now_ns, Some(&study.run()));
        }
        self.told_ns = self.now_ns;
    }

    fn arrive(&mut self, request_type: RequestType, deadline_ns: Option<u64>) {
        let id = u32::try_from(self.types_of_requests.len()).expect("few requests");
        self.types_of_requests.push(request_type);
        let slot = self.case.types.slot(request_type);
        if self.queued(slot) < self.case.capacity(slot) {
            let waiting = Waiting {
                slot,
                deadline_ns,
                served_ns: None,
                ran_on: None,
                moved: false,
                home: None,
                unblocked: false,
            };
            self.waiting.insert(id, waiting);
        } else {
            self.refusals.push_back(id);
            self.refused[slot] += 1;
        }
        self.tell(Event::Arrived { request: RequestId(id), request_type, deadline_ns });
    }

    /// Takes what runs on the n-th of the workers with such a turn.
    fn take_turn(&mut self, nth: usize, such: impl Fn(&Turn) -> bool) -> Option<(WorkerId, Turn)> {
        let workers: Vec<usize> = (0..self.case.workers)
            .filter(|&worker| self.running[worker].as_ref().is_some_and(&such))
            .collect();
        let worker = *workers.get(nth.checked_rem(workers.len())?)?;
        let turn = self.running[worker].take()?;
        Some((worker_id(worker), turn))
    }

    fn complete(&mut self, nth: usize, measured: Option<Measured>) {
        let Some((worker, turn)) = self.take_turn(nth, |_| true) else {
            return;
        };
        self.unmeasured[turn.slot] &= measured.is_none_or(|measured| measured.count == 0);
        let sample = measured.map(|measured| Sample {
            request_type: self.types_of_requests[turn.id as usize],
            count: measured.count,
            service_ns: measured.service_ns * u64::from(measured.count),
        });
        self.tell(Event::Completed { worker, samples: sample.as_slice(), dropped: false });
    }

    /// The request that just got `worker` is not run.
    fn drop_at(&mut self, worker: WorkerId) {
        self.running[worker.index()] = None;
        self.tell(Event::Completed { worker, samples: &[], dropped: true });
    }

    /// The request of the n-th such turn yields.
    fn stop(&mut self, nth: usize, such: impl Fn(&Turn) -> bool) {
        let Some((worker, turn)) = self.take_turn(nth, such) else {
            return;
        };
        let served_ns = self.now_ns - turn.started_ns;
        let waiting = self.after_turn(worker, &turn);
        self.waiting.insert(turn.id, waiting);
        self.tell(Event::Yielded { worker, served_ns });
    }

    /// The request of a turn that ended on `worker`, as it waits from now on.
    fn after_turn(&self, worker: WorkerId, turn: &Turn) -> Waiting {
        Waiting {
            slot: turn.slot,
            deadline_ns: turn.deadline_ns,
            served_ns: Some(turn.served_ns + self.now_ns - turn.started_ns),
            ran_on: Some(worker).filter(|worker| worker.index() < self.present),
            moved: worker.index() >= self.present,
            home: self.contexts().map(|_| worker),
            unblocked: false,
        }
    }

    /// The request on the n-th busy worker is blocked.
    fn block(&mut self, nth: usize) {
        let Some((worker, turn)) = self.take_turn(nth, |_| true) else {
            return;
        };
        let served_ns = self.now_ns - turn.started_ns;
        let blocked = self.after_turn(worker, &turn);
        self.blocked.insert(turn.id, blocked);
        self.tell(Event::Blocked { worker, served_ns });
    }

    /// The n-th blocked request is blocked no longer.
    fn unblock(&mut self, nth: usize) {
        let nth = nth.checked_rem(self.blocked.len());
        let Some((&id, _)) = nth.and_then(|nth| self.blocked.iter().nth(nth)) else {
            return;
        };
        let Some(waiting) = self.blocked.remove(&id) else {
            return;
        };
        let unblocked = true;
        self.waiting.insert(id, Waiting { unblocked, ..waiting });
        self.tell(Event::Unblocked { request: RequestId(id) });
    }

    fn advance(&mut self, by_ns: u64) -> Result<(), Broken> {
        let until_ns = self.now_ns + by_ns;
        for _ in 0..TICKS_MAX {
            let deadline_ns = self.scheduler.deadline_ns();
            let Some(deadline_ns) = deadline_ns.filter(|&at_ns| at_ns <= until_ns) else {
                break;
            };
            self.now_ns = self.now_ns.max(deadline_ns);
            self.tell(Event::Tick);
            self.poll(usize::MAX)?;
        }
        self.now_ns = until_ns;
        Ok(())
    }

    /// Workers come or go.
    fn come_or_go(&mut self, present: usize) {
        self.present = present;
        for begun in self.waiting.values_mut().chain(self.blocked.values_mut()) {
            begun.moved = true;
            let is_present = |ran_on: &WorkerId| ran_on.index() < present;
            begun.ran_on = begun.ran_on.filter(is_present);
        }
        self.tell(Event::Workers { present });
    }

    /// Another policy takes over, unless one of the two has no handover.
    fn switch(&mut self, index: usize) {
        let policy = &self.case.policies[index];
        let mut next = policy.scheduler(&self.case.setup());
        if !switch(&mut *self.scheduler, &mut *next, self.now_ns) {
            return;
        }
        self.scheduler = next;
        self.promises = promised(self.promises_of, self.case, policy);
        self.since_ns = self.now_ns;
        self.begun_last.fill(BTreeMap::new());
        self.unmeasured = unhinted(self.case);
        for begun in self.waiting.values_mut().chain(self.blocked.values_mut()) {
            begun.ran_on = None;
            begun.unblocked = false;
        }
        self.come_or_go(self.present);
    }

    fn poll(&mut self, polls_max: usize) -> Result<(), Broken> {
        for _ in 0..polls_max {
            let Some(action) = self.scheduler.poll(self.now_ns) else {
                return self.check_rest();
            };
            match action {
                Action::Reject { request, request_type } => {
                    let owed = self.refusals.pop_front();
                    require!(
                        RefusedOnlyWhenFull,
                        owed == Some(request.0),
                        "{request:?} was refused, and {owed:?} found its queue full"
                    );
                    self.check_type(request, request_type)?;
                }
                Action::Preempt { worker, quantum_ns } => self.check_preempt(worker, quantum_ns)?,
                Action::Run { worker, request, request_type, hand_off } => {
                    let is_late = self.check_run(worker, request, hand_off)?;
                    self.check_type(request, request_type)?;
                    if is_late {
                        self.drop_at(worker);
                    }
                }
            }
        }
        Ok(())
    }

    fn check_type(&self, request: RequestId, named: RequestType) -> Result<(), Broken> {
        let request_type = self.types_of_requests[request.0 as usize];
        require!(
            NothingTwice,
            named == request_type,
            "{request:?} of {request_type:?} was called {named:?}"
        );
        Ok(())
    }

    /// Returns whether the request is too late to be run.
    fn check_run(&mut self, worker: WorkerId, RequestId(id): RequestId, hand_off: HandOff) -> Result<bool, Broken> {
        let Some(started) = self.waiting.get(&id).copied() else {
            let blocked = self.blocked.contains_key(&id);
            let what = format!("request {id} runs, and does not wait; it is blocked: {blocked}");
            return Err(Broken::new(Promise::NothingTwice, what));
        };
        let index = worker.index();
        let before = self.running.get(index).copied();
        require!(
            OneRequestPerWorker,
            before == Some(None),
            "{worker:?} has {before:?} and got request {id}"
        );
        let at_home = started.home.is_none_or(|home| home == worker);
        require!(HomeWorker, at_home, "{id} resumed on {worker:?}: {started:?}");
        let is_present = index < self.present || started.home.is_some();
        require!(PresentWorkers, is_present, "{worker:?} is absent, and began {id}: {started:?}");
        let fits = self.can_run(&started, index);
        require!(Contexts, fits, "{worker:?} has no context for request {id}");
        self.check_order(worker, id, &started, hand_off)?;
        let seen = self.seen();
        let promises = &self.promises;
        let is_relieved = || started.home.is_none() && self.relief(&seen, started.slot, index);
        require!(
            AllowedWorkers,
            started.may_use(&promises.workers, &seen, index) || is_relieved(),
            "{worker:?} ran a request of slot {}",
            started.slot
        );
        let stays = started.ran_on.is_none_or(|ran_on| ran_on == worker);
        require!(Stays, !promises.stays || stays, "{id} moved to {worker:?}");
        require!(
            OwnThreadSpared,
            !self.is_spared(&started, index),
            "request {id} of slot {}, whose length is unknown, began on the driver's own thread",
            started.slot
        );
        let own_thread_free = self.case.inline
            && self.running[0].is_none()
            && started.home.is_none()
            && self.suspended(0) == 0
            && self.begins(0, 0);
        require!(
            OwnThreadFirst,
            index == 0
                || !(own_thread_free && promises.own_thread_first)
                || self.is_spared(&started, 0)
                || !promises.workers.allow(&seen, started.slot, 0),
            "{worker:?} got request {id}, which worker 0 could run"
        );
        let hand_offs = promises.hand_offs;
        require!(HandOff, hand_offs.contains(&hand_off), "{hand_off:?} is not promised");
        self.waiting.remove(&id);
        self.running[index] = Some(Turn {
            id,
            slot: started.slot,
            deadline_ns: started.deadline_ns,
            started_ns: self.now_ns,
            served_ns: started.served_ns.unwrap_or(0),
            preempted: false,
            unblocked: started.unblocked,
        });
        Ok(started.is_late(self.now_ns))
    }

    fn check_order(&mut self, worker: WorkerId, id: u32, started: &Waiting, hand_off: HandOff) -> Result<(), Broken> {
        let Promises { order, workers, .. } = &self.promises;
        let seen = self.seen();
        for (&other, waiting) in &self.waiting {
            // Preempted requests wait where the policy wants; requests that never ran keep their places.
            let comparable = self.promises.preempts == Preempts::Never || !(waiting.resumes() || started.resumes());
            let before = comparable && order.is_before(&seen, waiting.place(other), started.place(id));
            // In queues of the workers, it is first in that of the worker where it ran.
            let in_first_place = !order.is_at_workers()
                || waiting.home.is_some()
                || (self.promises.stays && waiting.ran_on == Some(worker));
            let is_owned = match &self.promises.idling {
                Idling::UnlessLent(owed) => owed.allow(&seen, waiting.slot, worker.index()),
                Idling::Freely => false,
                Idling::Never | Idling::BesideQueues { .. } => true,
            };
            let by_arrival =
                *order != Order::Deadline || (waiting.deadline_ns.is_none() && started.deadline_ns.is_none());
            let first_of_type = waiting.unblocked
                && (in_first_place && is_owned && by_arrival)
                && waiting.slot == started.slot
                && !started.resumes()
                && other < id;
            let passed_over = (before || first_of_type)
                && workers.allow(&seen, waiting.slot, worker.index())
                && !self.is_spared(waiting, worker.index())
                && self.can_run(waiting, worker.index());
            require!(Order, !passed_over, "{id} ran before {other} on {worker:?}");
        }
        let order = *order;
        let reservations = self.scheduler.reservation_updates();
        if std::mem::replace(&mut self.reservations, reservations) != reservations {
            self.begun_last.fill(BTreeMap::new());
        }
        let last = &mut self.begun_last[worker.index()];
        if hand_off == HandOff::Stolen {
            last.clear();
        }
        if order.is_at_workers() && !started.resumes() && !started.moved {
            let before = last.insert(order.class_at_worker(started.slot), id);
            let ascends = before.is_none_or(|before| before < id);
            require!(Order, ascends, "{id} began after {before:?} on {worker:?}");
        }
        Ok(())
    }

    fn check_preempt(&mut self, worker: WorkerId, quantum_ns: u64) -> Result<(), Broken> {
        let allowed = self.case.preemption.is_some();
        require!(PreemptsWhatCanStop, allowed, "nothing can be preempted here");
        let index = worker.index();
        let Some(turn) = self.running.get(index).copied().flatten() else {
            let what = format!("{worker:?} was asked to stop, and runs nothing");
            return Err(Broken::new(Promise::PreemptsWhatCanStop, what));
        };
        let stops = self.case.yields(turn.slot);
        require!(PreemptsWhatCanStop, stops, "slot {} never yields", turn.slot);
        require!(PreemptsOnce, !turn.preempted, "{worker:?} was asked already");
        let since_ns = self.now_ns - turn.started_ns;
        require!(
            PreemptsAfterQuantum,
            since_ns >= quantum_ns,
            "{worker:?} was asked to stop after {since_ns} ns of {quantum_ns}"
        );
        let has_next = self.begins(index, 1) || self.suspended(index) > 0;
        require!(Contexts, has_next, "{worker:?} has no context for another request");
        self.check_purpose(index, &turn, quantum_ns)?;
        if let Some(turn) = &mut self.running[index] {
            turn.preempted = true;
        }
        Ok(())
    }

    /// Whether the policy may preempt a turn at all.
    fn check_purpose(&self, worker: usize, turn: &Turn, quantum_ns: u64) -> Result<(), Broken> {
        let usable = self.anyone_can_use(worker);
        let suspended = self.suspended(worker) > 0;
        let holds = match self.promises.preempts {
            Preempts::Never => false,
            Preempts::Freely => true,
            Preempts::OneForEachWaiting => {
                // Suspended requests can use no other worker, whichever stop.
                usable && (suspended || self.stopping_for_all() < self.unbound())
            }
            Preempts::ForOthers => usable,
            Preempts::AfterQuantum => quantum_ns > 0,
            Preempts::ForShorterOrAged { aged_ns } => {
                let seen = self.seen();
                let group = |slot| seen.group(slot).unwrap_or(usize::MAX);
                let is_shorter = |waiting: &Waiting| group(waiting.slot) < group(turn.slot);
                let attained_ns = turn.served_ns + self.now_ns - turn.started_ns;
                attained_ns >= aged_ns || (usable && self.waiting.values().any(is_shorter))
            }
        };
        let (preempts, waiting) = (self.promises.preempts, self.waiting.len());
        require!(
            PreemptsForOthers,
            holds,
            "worker {worker} was asked to stop {turn:?}, {waiting} wait, promised is {preempts:?}"
        );
        Ok(())
    }

    /// Number of workers that were asked to stop and have no suspended request.
    fn stopping_for_all(&self) -> usize {
        let turns = self.running.iter().enumerate();
        turns
            .filter(|(_, turn)| turn.is_some_and(|turn| turn.preempted))
            .filter(|&(worker, _)| worker < self.present && self.suspended(worker) == 0)
            .count()
    }

    /// How many requests may wait in queues of workers beyond their bounds: one on each worker that runs a
    /// request which was blocked, and went before it.
    fn put_off(&self) -> usize {
        let turns = self.running.iter().flatten();
        turns.filter(|turn| turn.unblocked).count()
    }

    /// How many requests wait that any worker may run.
    fn unbound(&self) -> usize {
        let waiting = self.waiting.values();
        waiting.filter(|waiting| waiting.home.is_none()).count()
    }

    /// Checks the telemetry, which must be right at any time.
    fn check_status(&self) -> Result<(), Broken> {
        if !self.promises.telemetry {
            return Ok(());
        }
        for slot in 0..=self.case.types.len() {
            let status = self.scheduler.type_status(slot);
            let (queued, refused) = (self.queued(slot), self.refused[slot]);
            let first = status.worker_first.map_or(0, WorkerId::index);
            let makes_sense = status.queued == queued
                && status.rejections == refused
                && first + status.workers_reserved <= self.present
                && status.service_ns_mean.is_finite()
                && status.service_ns_mean >= 0.0
                && (0.0..=1.0).contains(&status.share);
            require!(
                Telemetry,
                makes_sense,
                "{queued} wait and {refused} were refused in slot {slot}: {status:?}"
            );
        }
        Ok(())
    }

    /// Checks which types may travel in one run.
    fn check_runs(&self) -> Result<(), Broken> {
        let types: Vec<RequestType> = (0..=self.case.types.len())
            .map(|index| RequestType::new(u32::try_from(index).expect("few types")))
            .chain([RequestType::UNKNOWN])
            .collect();
        let known = |request_type| self.case.types.slot(request_type) < self.case.types.len();
        for &first in &types {
            for &next in &types {
                let same = self.scheduler.same_run(first, next);
                let holds = same == self.scheduler.same_run(next, first)
                    && (same || first != next)
                    && (!same || first == next || (known(first) && known(next)));
                require!(Runs, holds, "{first:?} and {next:?} in one run: {same}");
            }
        }
        let specs = self.case.types.specs();
        let group = |slot| self.scheduler.type_status(slot).group;
        for (alone, _) in { specs.iter().enumerate() }.filter(|(_, spec)| spec.is_never_grouped()) {
            let is_with = |&slot: &usize| slot != alone && group(slot) == group(alone);
            let with = (0..specs.len()).find(is_with).filter(|_| group(alone).is_some());
            require!(Runs, with.is_none(), "slots {alone} and {with:?} are one group");
        }
        Ok(())
    }

    /// Checks the deadline and quanta, when the scheduler has nothing more to do and knows the time.
    fn check_time(&self) -> Result<(), Broken> {
        let deadline_ns = self.scheduler.deadline_ns();
        let overdue = deadline_ns.is_some_and(|at_ns| at_ns <= self.now_ns);
        require!(Deadline, !overdue, "at {} ns it is {deadline_ns:?}", self.now_ns);
        if self.case.preemption.is_some() {
            self.check_quanta()?;
        }
        Ok(())
    }

    /// The workers that run a request beyond `quantum_ns` which yields and was not asked to.
    fn expired(&self, quantum_ns: u64) -> impl Iterator<Item = usize> {
        let turns = self.running.iter().enumerate();
        let expired = move |turn: &Turn| {
            let started_ns = turn.started_ns.max(self.since_ns);
            self.case.yields(turn.slot) && !turn.preempted && started_ns.saturating_add(quantum_ns) <= self.now_ns
        };
        turns
            .filter(move |(_, turn)| turn.as_ref().is_some_and(&expired))
            .map(|(worker, _)| worker)
    }

    /// Checks that no request waits for a worker that is beyond its quantum.
    fn check_quanta(&self) -> Result<(), Broken> {
        let unbound = self.unbound();
        match self.promises.quantum {
            Quantum::None => {}
            Quantum::ForAnyWaiting { quantum_ns } => {
                let wanted = unbound > self.stopping_for_all();
                for worker in self.expired(quantum_ns) {
                    let late = self.suspended(worker) > 0 || (wanted && self.begins(worker, 1));
                    require!(Quantum, !late, "worker {worker} runs on, and {unbound} wait");
                }
            }
            Quantum::ForOwnQueue { quantum_ns, queued_max } => {
                let can_stop = |worker: &usize| self.begins(*worker, 1);
                let expired: Vec<usize> = self.expired(quantum_ns).filter(can_stop).collect();
                for &worker in &expired {
                    let stays = |waiting: &&Waiting| {
                        waiting.home == Some(worker_id(worker))
                            || (self.promises.stays && waiting.ran_on == Some(worker_id(worker)))
                    };
                    let behind = self.waiting.values().find(stays);
                    require!(Quantum, behind.is_none(), "worker {worker} runs on, and {behind:?} waits behind");
                }
                // No request is in the queue of an expired worker, so all are in those of others.
                let keeps = |&worker: &usize| self.running[worker].is_some() || !self.begins(worker, 0);
                let keeping = (0..self.present).filter(keeps).count();
                let others = keeping - expired.len();
                let room = others.saturating_mul(queued_max);
                let room = room.saturating_add(self.put_off());
                require!(
                    Quantum,
                    expired.is_empty() || unbound <= room,
                    "{expired:?} run on, and {unbound} wait, of which {room} can wait elsewhere"
                );
            }
        }
        Ok(())
    }

    /// Checks what must hold when the scheduler has nothing more to do.
    fn check_rest(&self) -> Result<(), Broken> {
        let owed = &self.refusals;
        require!(RefusedOnlyWhenFull, owed.is_empty(), "{owed:?} found their queues full");
        if self.told_ns == self.now_ns {
            self.check_time()?;
        }
        let idle: Vec<usize> = (0..self.case.workers).filter(|&worker| self.running[worker].is_none()).collect();
        // Without a context a worker begins nothing, and a request may wait in its queue for it.
        let all_begin = || idle.iter().all(|&worker| self.begins(worker, 0));
        let suspended = |waiting: &Waiting| waiting.home.is_some();
        let stranded = idle.len() == self.case.workers
            && !self.waiting.is_empty()
            && (all_begin() || self.waiting.values().any(suspended));
        let waiting = &self.waiting;
        require!(NothingLost, !stranded, "all workers idle, and {waiting:?} wait");
        self.check_idling(&idle)
    }

    fn check_idling(&self, idle: &[usize]) -> Result<(), Broken> {
        let owed = match &self.promises.idling {
            Idling::Never => &self.promises.workers,
            Idling::UnlessLent(owed) => owed,
            Idling::Freely => return Ok(()),
            Idling::BesideQueues { queued_max } => {
                let begin = idle.iter().filter(|&&worker| self.begins(worker, 0));
                let begin = begin.count();
                // A worker without a context keeps the requests of its queue as a busy one does.
                let keep = self.present - begin;
                let queued_max = keep.saturating_mul(*queued_max);
                let queued_max = queued_max.saturating_add(self.put_off());
                let unbound = self.unbound();
                require!(
                    WorkConserving,
                    begin == 0 || unbound <= queued_max,
                    "{idle:?} idle and {unbound} wait, of which {queued_max} can wait in queues"
                );
                let holds = idle.iter().find(|&&worker| self.suspended(worker) > 0);
                require!(WorkConserving, holds.is_none(), "{holds:?} idles with suspended requests");
                return Ok(());
            }
        };
        let seen = self.seen();
        for (id, waiting) in self.waiting.iter().filter(|(_, waiting)| !waiting.resumes()) {
            let could = idle
                .iter()
                .find(|&&worker| self.begins(worker, 0) && self.relief(&seen, waiting.slot, worker));
            require!(Relieved, could.is_none(), "{id} waits for stuck workers, and {could:?} idles");
        }
        // A request that ran before may be aged, and leave idle workers to requests yet to come.
        let may_age = matches!(self.promises.idling, Idling::UnlessLent(_));
        let owed_now = self.waiting.iter().filter(|(_, waiting)| !(may_age && waiting.resumes()));
        for (id, waiting) in owed_now {
            let could = idle.iter().find(|&&worker| {
                waiting.may_use(owed, &seen, worker)
                    && !self.is_spared(waiting, worker)
                    && self.can_run(waiting, worker)
            });
            require!(WorkConserving, could.is_none(), "{id} waits, and {could:?} idles");
        }
        Ok(())
    }
}

/// What a policy promises under the setup of a case.
fn promised(promises_of: &PromisesOf<'_>, case: &Case, policy: &Policy) -> Promises {
    let setup = case.setup();
    let preemption = setup.useful_preemption();
    promises_of(policy, &setup.preemption(preemption))
}

/// Per type slot: whether it is registered without a hint.
fn unhinted(case: &Case) -> Vec<bool> {
    let types = case.types.specs().iter();
    let unhinted = types.map(|spec| spec.service_time.is_none());
    unhinted.chain([false]).collect()
}

fn worker_id(index: usize) -> WorkerId {
    WorkerId(u32::try_from(index).expect("worker ids are 32 bits wide"))
}
