//! What must be true of a scheduler, kept in the simplest way beside it.

use std::collections::{BTreeMap, VecDeque};

use super::broken::{Broken, Promise};
use super::cases::{Case, Measured, Operation, Step};
use super::promises::{AllowedWorkers, Place, Promises};
use super::seen::Seen;
use crate::event::{Action, Event, RequestId, Sample, WorkerId};
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

mod checks;

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
