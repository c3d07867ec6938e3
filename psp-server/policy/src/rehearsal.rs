//! A scheduler driven by hand in virtual time, for the unit tests of policies.

use crate::event::{Action, Event, HandOff, RequestId, Sample, WorkerId};
use crate::policy::Policy;
use crate::request_type::{RequestType, TypeSpec, TypeTable};
use crate::scheduler::{Relief, Scheduler, TypeStatus, switch};
use crate::setup::{Contexts, History, Preemption, SchedulerSetup, StuckAfter};

/// The type of [`Rehearsal::with_one_type`].
pub(crate) const ONE: RequestType = RequestType::new(0);

/// Index of requests of no type.
pub(crate) const UNKNOWN: u32 = u32::MAX;

/// Requests that may wait per type where the type does not say.
const QUEUE_CAPACITY: usize = 64;

/// A scheduler, and short words for its events. Each event answers with the actions that follow
/// it: `"3@0"` for request 3 that runs on worker 0, `"stop 0"` for a preemption, `"refuse 3"`,
/// with commas between.
///
/// Where time matters, events are told theirs. Where only order does, there are
/// [`arrive_all`](Self::arrive_all), [`finishes`](Self::finishes), [`yields_now`](Self::yields_now)
/// and [`drain`](Self::drain), at the time of the event before.
pub(crate) struct Rehearsal {
    scheduler: Box<dyn Scheduler>,
    /// When the last event was.
    pub(crate) now_ns: u64,
    arrivals: u32,
    /// Type of what runs on each worker.
    running: Vec<Option<RequestType>>,
    /// How each request that ran got to its worker.
    pub(crate) hand_offs: Vec<HandOff>,
}

impl Rehearsal {
    /// `policy` with preemption.
    pub(crate) fn new(policy: impl Into<Policy>, workers: usize, types: impl IntoIterator<Item = TypeSpec>) -> Self {
        let preemption = Some(Preemption::new(1000));
        Self::with_preemption(policy, workers, types, preemption)
    }

    /// `policy` with preemption and one type, [`ONE`].
    pub(crate) fn with_one_type(policy: impl Into<Policy>, workers: usize) -> Self {
        Self::new(policy, workers, [TypeSpec::new("ONE")])
    }

    pub(crate) fn with_preemption(
        policy: impl Into<Policy>,
        workers: usize,
        types: impl IntoIterator<Item = TypeSpec>,
        preemption: Option<Preemption>,
    ) -> Self {
        Self::with_random(policy, workers, types, preemption, 7)
    }

    /// Where each worker has so many contexts, and requests resume at home.
    pub(crate) fn at_home(
        policy: impl Into<Policy>,
        workers: usize,
        types: impl IntoIterator<Item = TypeSpec>,
        preemption: Option<Preemption>,
        contexts: usize,
    ) -> Self {
        let types: TypeTable = types.into_iter().collect();
        let setup = SchedulerSetup {
            preemption,
            contexts: Contexts::at_home(contexts),
            seed: 7,
            ..setup(workers, &types)
        };
        Self::of(policy, &setup)
    }

    /// With a seed for policies that choose at random.
    pub(crate) fn with_random(
        policy: impl Into<Policy>,
        workers: usize,
        types: impl IntoIterator<Item = TypeSpec>,
        preemption: Option<Preemption>,
        seed: u64,
    ) -> Self {
        let types: TypeTable = types.into_iter().collect();
        let setup = SchedulerSetup { preemption, seed, ..setup(workers, &types) };
        Self::of(policy, &setup)
    }

    /// With preemption, and with samples from before of requests that arrived within `span_ns`.
    pub(crate) fn with_history(
        policy: impl Into<Policy>,
        workers: usize,
        types: impl IntoIterator<Item = TypeSpec>,
        samples: &[Sample],
        span_ns: u64,
    ) -> Self {
        let types: TypeTable = types.into_iter().collect();
        let setup = SchedulerSetup {
            preemption: Some(Preemption::new(1000)),
            history: History::new(samples, span_ns),
            ..setup(workers, &types)
        };
        Self::of(policy, &setup)
    }

    /// Where requests are stuck after some time, and worker 0 may be the driver's own thread.
    pub(crate) fn with_stuck(
        policy: impl Into<Policy>,
        workers: usize,
        types: impl IntoIterator<Item = TypeSpec>,
        stuck: StuckAfter,
        inline: bool,
    ) -> Self {
        let types: TypeTable = types.into_iter().collect();
        let setup = SchedulerSetup { stuck: Some(stuck), inline, ..setup(workers, &types) };
        Self::of(policy, &setup)
    }

    fn of(policy: impl Into<Policy>, setup: &SchedulerSetup<'_>) -> Self {
        Self {
            scheduler: policy.into().scheduler(setup),
            now_ns: 0,
            arrivals: 0,
            running: vec![None; setup.workers],
            hand_offs: Vec::new(),
        }
    }

    pub(crate) fn arrives(&mut self, now_ns: u64, id: u32, request_type: RequestType) -> String {
        self.notes_arrival(now_ns, id, request_type);
        self.actions()
    }

    /// As [`arrives`](Self::arrives), with a deadline of the request's own.
    pub(crate) fn arrives_due(&mut self, now_ns: u64, id: u32, type_index: u32, deadline_ns: Option<u64>) -> String {
        self.arrivals += 1;
        let arrived = Event::Arrived {
            request: RequestId(id),
            request_type: RequestType::new(type_index),
            deadline_ns,
        };
        self.after(now_ns, arrived)
    }

    /// The driver drops the request that was to run on a worker.
    pub(crate) fn drops(&mut self, now_ns: u64, worker: u32) -> String {
        self.ends(worker);
        let dropped = Event::Completed { worker: WorkerId(worker), samples: &[], dropped: true };
        self.after(now_ns, dropped)
    }

    /// Requests of types with these indices arrive a nanosecond apart, and nothing runs before all
    /// are there. They are numbered on from earlier arrivals.
    pub(crate) fn arrive_all(&mut self, types: impl IntoIterator<Item = u32>) -> String {
        for index in types {
            let request_type = RequestType::new(index);
            self.notes_arrival(self.now_ns + 1, self.arrivals, request_type);
        }
        self.actions()
    }

    /// The order in which requests run that [arrive together](Self::arrive_all) and take
    /// `service_ns` each, and requests that waited before.
    pub(crate) fn order_of(&mut self, types: impl IntoIterator<Item = u32>, service_ns: u64) -> Vec<u32> {
        let mut ran = requests(&self.arrive_all(types));
        ran.extend(self.drain(service_ns));
        ran
    }

    pub(crate) fn completes(&mut self, now_ns: u64, worker: u32) -> String {
        self.measures(now_ns, worker, &[])
    }

    /// A completion and what the worker measured.
    pub(crate) fn measures(&mut self, now_ns: u64, worker: u32, samples: &[Sample]) -> String {
        self.ends(worker);
        self.after(now_ns, completed(worker, samples))
    }

    /// A completion, now, of a request that took `service_ns`.
    pub(crate) fn finishes(&mut self, worker: u32, service_ns: u64) -> String {
        let request_type = self.ends(worker);
        let samples = &[sample(request_type, service_ns)];
        self.after(self.now_ns, completed(worker, samples))
    }

    pub(crate) fn yields(&mut self, now_ns: u64, worker: u32) -> String {
        self.yields_after(now_ns, worker, 1)
    }

    /// A worker stops what it ran for `served_ns`.
    pub(crate) fn yields_after(&mut self, now_ns: u64, worker: u32, served_ns: u64) -> String {
        self.ends(worker);
        let worker = WorkerId(worker);
        self.after(now_ns, Event::Yielded { worker, served_ns })
    }

    /// A worker stops, now, what it ran for `served_ns`.
    pub(crate) fn yields_now(&mut self, worker: u32, served_ns: u64) -> String {
        self.yields_after(self.now_ns, worker, served_ns)
    }

    /// So many workers are present from now on.
    pub(crate) fn has_workers(&mut self, present: usize) -> String {
        self.after(self.now_ns, Event::Workers { present })
    }

    /// What runs on a worker is blocked after `served_ns`.
    pub(crate) fn blocks(&mut self, now_ns: u64, worker: u32, served_ns: u64) -> String {
        self.ends(worker);
        let worker = WorkerId(worker);
        self.after(now_ns, Event::Blocked { worker, served_ns })
    }

    pub(crate) fn unblocks(&mut self, now_ns: u64, id: u32) -> String {
        let request = RequestId(id);
        self.after(now_ns, Event::Unblocked { request })
    }

    pub(crate) fn ticks(&mut self, now_ns: u64) -> String {
        self.after(now_ns, Event::Tick)
    }

    /// The busy worker with the lowest number finishes what it runs, as if each request took
    /// `service_ns`, until nothing runs. The requests that ran meanwhile, in their order.
    pub(crate) fn drain(&mut self, service_ns: u64) -> Vec<u32> {
        let mut ran = Vec::new();
        while let Some(busy) = self.running.iter().position(Option::is_some) {
            let actions = self.finishes(u32::try_from(busy).unwrap(), service_ns);
            ran.extend(requests(&actions));
        }
        ran
    }

    pub(crate) fn deadline_ns(&self) -> Option<u64> {
        self.scheduler.deadline_ns()
    }

    pub(crate) fn type_status(&self, slot: usize) -> TypeStatus {
        self.scheduler.type_status(slot)
    }

    pub(crate) fn relief(&self, slot: usize) -> Relief {
        self.scheduler.relief(self.now_ns, slot)
    }

    pub(crate) fn reservation_updates(&self) -> u64 {
        self.scheduler.reservation_updates()
    }

    /// Whether requests of the types with these indices may travel in one run.
    pub(crate) fn same_run(&self, first: u32, next: u32) -> bool {
        self.scheduler.same_run(RequestType::new(first), RequestType::new(next))
    }

    /// Goes on under the policy of `next`.
    pub(crate) fn switches(&mut self, now_ns: u64, next: Self) -> String {
        let mut next = next.scheduler;
        assert!(switch(&mut *self.scheduler, &mut *next, now_ns));
        self.scheduler = next;
        self.now_ns = now_ns;
        self.actions()
    }

    fn notes_arrival(&mut self, now_ns: u64, id: u32, request_type: RequestType) {
        self.arrivals += 1;
        let event = Event::Arrived { request: RequestId(id), request_type, deadline_ns: None };
        self.notes(now_ns, event);
    }

    /// The type of what ran on `worker`.
    fn ends(&mut self, worker: u32) -> RequestType {
        let running = self.running[worker as usize].take();
        running.expect("something runs there")
    }

    fn after(&mut self, now_ns: u64, event: Event<'_>) -> String {
        self.notes(now_ns, event);
        self.actions()
    }

    fn notes(&mut self, now_ns: u64, event: Event<'_>) {
        assert!(self.now_ns <= now_ns, "time goes backwards");
        self.now_ns = now_ns;
        self.scheduler.on_event(now_ns, event);
    }

    fn actions(&mut self) -> String {
        let mut actions = Vec::new();
        while let Some(action) = self.scheduler.poll(self.now_ns) {
            actions.push(match action {
                Action::Run { worker, request, request_type, hand_off } => {
                    let before = self.running[worker.index()].replace(request_type);
                    assert_eq!(before, None, "worker {} is busy", worker.0);
                    self.hand_offs.push(hand_off);
                    format!("{}@{}", request.0, worker.0)
                }
                Action::Preempt { worker, .. } => format!("stop {}", worker.0),
                Action::Reject { request, .. } => format!("refuse {}", request.0),
            });
        }
        actions.join(", ")
    }
}

const fn completed(worker: u32, samples: &[Sample]) -> Event<'_> {
    Event::Completed { worker: WorkerId(worker), samples, dropped: false }
}

/// What a part of a policy is built for, without preemption, where requests migrate.
pub(crate) const fn setup(workers: usize, types: &TypeTable) -> SchedulerSetup<'_> {
    SchedulerSetup {
        queue_capacity: QUEUE_CAPACITY,
        contexts: Contexts::migrating(),
        seed: 0,
        ..SchedulerSetup::new(workers, types)
    }
}

/// The requests that run by these actions.
pub(crate) fn requests(actions: &str) -> Vec<u32> {
    let runs = actions.split(", ").filter_map(|run| run.split_once('@'));
    runs.map(|(request, _)| request.parse().unwrap()).collect()
}

/// One measured request.
pub(crate) const fn sample(request_type: RequestType, service_ns: u64) -> Sample {
    Sample { request_type, count: 1, service_ns }
}
