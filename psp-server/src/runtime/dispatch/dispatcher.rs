//! The dispatcher: classifies requests, reports events to the scheduler, counts.
//!
//! | file | what it asks the dispatcher for |
//! | --- | --- |
//! | this one | what happens to requests, and the scheduler's decisions |
//! | `types.rs` | types of requests, and counts of each |
//! | `admitting.rs` | what admission says |
//! | `periodic.rs` | what is done as time passes |
//! | `succession.rs` | another scheduler, and requests that other workers may run |

mod admitting;
mod periodic;
mod succession;
mod types;

use std::sync::Arc;
use std::time::Duration;

use psp_policy::elastic::ElasticScheduler;
use psp_policy::{Action, Event, RequestId, RequestType, Sample, Scheduler, TypeSpec, WorkerId};

use super::blocked::Blocked;
use super::brief::Brief;
use super::control::Control;
use super::lengths::Lengths;
use super::places::Places;
use super::studies::Studies;
use super::turns::{RunningTurn, Turns};
use crate::request_types::control_begun_max;
use crate::runtime::channel::turn_start::TurnStart;
use crate::runtime::host::cores::Cores;
use crate::shared::Receiver;

/// Runs on the net thread (Perséphone 5.1 puts both on one core, too): on kernel sockets the
/// system calls cost more than the decisions, and a hop between threads would cost more than both.
pub(crate) struct Dispatcher<K> {
    classifier: K,
    scheduler: ElasticScheduler,
    shared: Receiver,
    turns: Turns,
    /// Per type slot: how long requests may wait.
    waits_max: Vec<Option<Duration>>,
    /// Requests (or runs) that arrived or yielded, and were neither run nor refused since.
    places: Arc<Places>,
    blocked: Blocked,
    brief: Brief,
    /// Requests that the scheduler never sees.
    control: Control,
    /// Requests that arrived and have to be offered to all workers; `None` where the scheduler has one driver. They
    /// have their places as long as they are on offer.
    offered: Option<Vec<Arrived>>,
    /// Where ports move between threads.
    lengths: Option<Lengths>,
    /// How long requests keep their connections.
    keeping: Option<Lengths>,
    /// The request whose turn came too late, as admission says.
    too_late: Option<RequestId>,
    /// Where the scheduler may have work done aside.
    studies: Option<Studies>,
    /// The counts of the schedulers that were in force before.
    before: Counted,
    publish_at_ns: u64,
    tick_at_ns: u64,
    ticked_ns: u64,
}

/// A request that others may run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrived {
    pub(crate) request: RequestId,
    /// Slot of its type.
    pub(crate) slot: usize,
}

/// The counts that a scheduler keeps itself, from its start.
struct Counted {
    /// Per type slot.
    steals: Vec<u64>,
    /// Per type slot.
    relieved: Vec<u64>,
    reservation_updates: u64,
}

impl<K> Dispatcher<K> {
    /// `starts` says when the turns of each worker begin.
    pub(crate) fn new(
        classifier: K,
        scheduler: Box<dyn Scheduler>,
        shared: Receiver,
        starts: Vec<Arc<TurnStart>>,
    ) -> Self {
        Self {
            classifier,
            scheduler: shared.elastic_scheduler(scheduler),
            turns: Turns::new(shared.clone(), starts),
            waits_max: {
                let specs = shared.types.specs().iter();
                let max_wait = |spec: &TypeSpec| spec.max_wait.filter(|_| !spec.is_control());
                specs.map(max_wait).chain([None]).collect()
            },
            places: Arc::new(Places::new(&shared.types, &shared.config)),
            blocked: Blocked::new(shared.clone()),
            brief: Brief::new(&shared.types),
            control: Control::new(&shared.types, control_begun_max(&shared.config)),
            offered: None,
            lengths: None,
            keeping: None,
            too_late: None,
            studies: None,
            before: Counted {
                steals: vec![0; shared.types.len() + 1],
                relieved: vec![0; shared.types.len() + 1],
                reservation_updates: 0,
            },
            shared,
            publish_at_ns: 0,
            tick_at_ns: 0,
            ticked_ns: 0,
        }
    }

    /// As this, where the scheduler has studies done on these cores, if there are any.
    pub(crate) fn with_studies(mut self, cores: Option<Cores>) -> Self {
        self.studies = cores.map(Studies::new);
        self
    }

    /// As this, where ports move between threads.
    pub(crate) fn with_lengths(mut self) -> Self {
        self.lengths = Some(Lengths::new(self.shared.types.len() + 1));
        self
    }

    /// As this, where so many runs may leave each connection.
    pub(crate) fn with_detached(mut self, runs_max: usize) -> Self {
        self.keeping = (runs_max > 0).then(|| Lengths::new(self.shared.types.len() + 1));
        self
    }

    /// The places in the typed queues.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn places(&self) -> &Arc<Places> {
        &self.places
    }

    /// How many requests wait, in all queues.
    #[cfg(test)]
    fn waiting(&self) -> usize {
        self.places.waiting()
    }

    /// Whether any request waits, in whichever queue.
    #[inline]
    pub(crate) fn any_waiting(&self) -> bool {
        self.places.any_waiting()
    }

    /// Whether the typed queue of this slot has room for another request.
    #[inline]
    pub(crate) fn has_room(&self, slot: usize) -> bool {
        self.places.has_free(slot)
    }

    /// A request enters its queue. The scheduler calls it `name`.
    #[inline]
    fn enter(
        &mut self,
        now_ns: u64,
        (request, name): (RequestId, RequestId),
        request_type: RequestType,
        deadline_ns: Option<u64>,
    ) {
        let slot = self.slot(request_type);
        self.shared.trace.arrived(self.shared.index(), request, slot);
        if self.control.has(slot) {
            return self.control.put(request, request_type);
        }
        self.places.take(slot);
        if let Some(offered) = &mut self.offered {
            offered.push(Arrived { request, slot });
        }
        let arrived = Event::Arrived { request: name, request_type, deadline_ns };
        self.scheduler.on_event(now_ns, arrived);
    }

    #[inline]
    pub(crate) fn completed(&mut self, now_ns: u64, worker: WorkerId, samples: &[Sample]) {
        if let Some((gate, request)) = self.shared.gate.as_ref().zip(self.turns.request_on(worker)) {
            gate.end(now_ns, request, samples);
        }
        self.turns.completed(worker);
        let dropped = false;
        let completed = Event::Completed { worker, samples, dropped };
        self.scheduler.on_event(now_ns, completed);
    }

    /// The request that was to begin on `worker` is not run.
    pub(crate) fn dropped(&mut self, now_ns: u64, worker: WorkerId) {
        if let Some(request) = self.turns.request_on(worker) {
            let slot = self.slot(self.turns.type_on(worker));
            self.shared.trace.dropped(self.shared.index(), request, slot);
            if let Some(gate) = &self.shared.gate {
                gate.cancel(now_ns, request);
                // Another request may have this number next.
                self.too_late = None;
            }
        }
        self.turns.dropped(worker);
        let dropped = Event::Completed { worker, samples: &[], dropped: true };
        self.scheduler.on_event(now_ns, dropped);
    }

    /// The request on `worker` was asked to yield, by others than the scheduler.
    pub(crate) fn asked(&self, worker: WorkerId) {
        self.turns.asked(worker);
    }

    pub(crate) fn yielded(&mut self, now_ns: u64, worker: WorkerId, served_ns: u64) {
        if self.counts_all() {
            self.places.take(self.slot(self.turns.type_on(worker)));
        }
        self.turns.yielded(worker);
        self.scheduler.on_event(now_ns, Event::Yielded { worker, served_ns });
    }

    /// The request on `worker` waits for a wake.
    pub(crate) fn blocked(&mut self, now_ns: u64, worker: WorkerId, served_ns: u64) {
        if let Some(request) = self.turns.request_on(worker) {
            let request_type = self.turns.type_on(worker);
            self.blocked.begin(now_ns, request, request_type);
            if let Some(gate) = &self.shared.gate {
                gate.block(now_ns, request);
            }
        }
        let woken = self.turns.blocked(worker);
        self.scheduler.on_event(now_ns, Event::Blocked { worker, served_ns });
        if let Some(request) = woken {
            self.unblocked(now_ns, request);
        }
    }

    /// The request on `worker` has had the net thread for too long: it neither runs nor waits until it
    /// [goes on](Self::goes_on).
    pub(crate) fn paused(&mut self, now_ns: u64, worker: WorkerId, served_ns: u64) {
        self.turns.paused(worker);
        self.scheduler.on_event(now_ns, Event::Blocked { worker, served_ns });
    }

    /// The request on `worker` yielded because it is stuck: it neither runs nor waits until it
    /// [goes on](Self::goes_on).
    pub(crate) fn shares(&mut self, now_ns: u64, worker: WorkerId, served_ns: u64) {
        self.turns.yielded(worker);
        self.scheduler.on_event(now_ns, Event::Blocked { worker, served_ns });
    }

    /// The turn on `worker`, unless the policy ends it.
    #[inline]
    pub(crate) fn unasked(&self, now_ns: u64, worker: WorkerId) -> Option<RunningTurn> {
        self.turns.unasked(now_ns, worker)
    }

    /// The request that runs on `worker`.
    #[inline]
    pub(crate) fn request_on(&self, worker: WorkerId) -> Option<RequestId> {
        self.turns.request_on(worker)
    }

    /// A request that paused waits for its worker.
    pub(crate) fn goes_on(&mut self, now_ns: u64, request: RequestId, request_type: RequestType) {
        self.waits_again(now_ns, request, self.slot(request_type));
    }

    /// Whether a request waits that may take less than `long_ns`.
    pub(crate) fn any_short_waiting(&self, long_ns: u64) -> bool {
        let may_be_short = |slot| mean_ns(&self.scheduler, &self.shared, slot) < long_ns as f64;
        self.places.slots_waiting().any(may_be_short)
    }

    /// A request that blocks, or is about to block, on `worker` was woken.
    pub(crate) fn woken(&mut self, now_ns: u64, worker: WorkerId, request: RequestId) {
        if !self.turns.woken(worker, request) {
            self.unblocked(now_ns, request);
        }
    }

    fn unblocked(&mut self, now_ns: u64, request: RequestId) {
        let request_type = self.blocked.end(now_ns, request);
        let slot = self.slot(request_type);
        if self.control.has(slot) {
            self.shared.trace.woken(self.shared.index(), request, slot);
            return self.control.put(request, request_type);
        }
        if let Some(gate) = &self.shared.gate {
            gate.unblock(now_ns, request);
        }
        self.waits_again(now_ns, request, slot);
    }

    fn waits_again(&mut self, now_ns: u64, request: RequestId, slot: usize) {
        self.shared.trace.woken(self.shared.index(), request, slot);
        if self.counts_all() {
            self.places.take(slot);
        }
        let request = self.shared.gate.as_ref().map_or(request, |gate| gate.name_of(request));
        self.scheduler.on_event(now_ns, Event::Unblocked { request });
    }

    /// How many control requests are to be run by the net worker.
    #[inline]
    pub(crate) fn control_at_hand(&self) -> usize {
        self.control.at_hand()
    }

    /// The next control request, with its type.
    pub(crate) fn next_control(&mut self) -> Option<(RequestId, RequestType)> {
        self.control.next()
    }

    /// A turn of a control request has ended on `worker`, which is the net thread.
    pub(crate) fn ran_control(&mut self, worker: WorkerId, request_type: RequestType) {
        self.turns.ran_aside(worker, request_type);
    }

    /// A control request goes on later.
    pub(crate) fn control_yielded(&mut self, request: RequestId, request_type: RequestType) {
        self.control.note_begun(request);
        self.control.put(request, request_type);
    }

    /// A control request has ended.
    pub(crate) fn control_ended(&mut self, request: RequestId) {
        self.control.note_ended(request);
    }

    /// A control request waits for a wake.
    pub(crate) fn control_blocked(&mut self, now_ns: u64, request: RequestId, request_type: RequestType) {
        self.control.note_begun(request);
        self.blocked.begin(now_ns, request, request_type);
    }

    /// Whether every request that waits has a place, also between two turns. Elsewhere those have one that are on
    /// offer.
    #[inline]
    fn counts_all(&self) -> bool {
        self.offered.is_none()
    }

    /// The next action. A preemption comes only when the turn has had its quantum.
    #[inline]
    pub(crate) fn poll(&mut self, now_ns: u64) -> Option<Action> {
        if let Some(due) = self.turns.next_due(now_ns) {
            return Some(due);
        }
        loop {
            // The action is returned as it is in memory. If it were unwrapped and wrapped again, it would be
            // copied in other pieces than it was written in, and the processor would wait for that.
            let mut polled = self.scheduler.poll(now_ns);
            let Some(action) = &mut polled else {
                return None;
            };
            self.pass(now_ns, action);
            if let Action::Run { request_type, .. } | Action::Reject { request_type, .. } = action
                && self.counts_all()
            {
                self.places.give_back(self.shared.types.slot(*request_type));
            }
            if self.turns.decided(now_ns, action) {
                return polled;
            }
        }
    }
}

/// The mean service time of the type at `slot`, as the scheduler has profiled it, or as all workers have measured it; 0
/// if it is unknown.
fn mean_ns(scheduler: &ElasticScheduler, shared: &Receiver, slot: usize) -> f64 {
    let profiled_ns = scheduler.type_status(slot).service_ns_mean;
    if profiled_ns > 0.0 {
        profiled_ns
    } else {
        shared.telemetry.service_ns_mean(slot)
    }
}

#[cfg(all(test, not(loom)))]
mod late_workers;

#[cfg(test)]
mod tests {
    use psp_policy::admission::{Admit, Arrival, Ticket, Turn, Verdict};
    use psp_policy::{Policy, TypeSpec, TypeTable};

    use super::*;
    use crate::config::Config;
    use crate::shared::{Gate, Shared};
    use crate::transport::run::TOO_LATE_NS;

    /// Has the second of two that wait go first; it is too late for that one.
    #[derive(Default)]
    struct Second(Vec<RequestId>);

    impl Admit for Second {
        fn arrive(&mut self, _: u64, arrival: &Arrival) -> Verdict {
            self.0.push(arrival.request);
            Verdict::Admit(Ticket(self.0.len() as u32 - 1))
        }

        fn begin(&mut self, _: u64, _: Ticket) -> Turn {
            Turn::new(false, self.0.get(1).copied())
        }

        fn end(&mut self, _: u64, _: Ticket, _: u64, _: u32) {}

        fn cancel(&mut self, _: u64, _: Ticket) {}
    }

    #[test]
    fn what_is_always_let_in_goes_by_the_name_that_its_number_has() {
        let types: TypeTable = ["GET", "HANDSHAKE"].map(TypeSpec::new).into_iter().collect();
        let [get, handshake] = [0, 1].map(RequestType::new);
        let mut shared = Shared::example(Config::default(), types, 1);
        shared.handshake = Some(handshake);
        shared.gate = Some(Gate::new(Box::<Second>::default(), 1, 3, false));
        let shared = Receiver::new(Arc::new(shared), 0);
        let scheduler = Policy::c_fcfs().scheduler(&shared.scheduler_setup());
        let starts = vec![Arc::new(TurnStart::new())];
        let mut dispatcher = Dispatcher::new(|_: &[u8]| get, scheduler, shared, starts);
        let arrive = |dispatcher: &mut Dispatcher<_>, id, request_type| {
            let request = RequestId(id);
            let arrival = || Arrival::new(request, request_type, 0);
            dispatcher.arrived(0, (request, request_type), None, arrival).unwrap();
        };
        let worker = WorkerId(0);
        arrive(&mut dispatcher, 5, get);
        arrive(&mut dispatcher, 7, get);
        let runs = |dispatcher: &mut Dispatcher<_>| match dispatcher.poll(0) {
            Some(Action::Run { request, .. }) => request.0,
            other => panic!("{other:?}"),
        };
        assert_eq!(runs(&mut dispatcher), 7, "in the place of 5");
        assert_eq!(dispatcher.turn_ns(3, RequestId(7)), TOO_LATE_NS);
        dispatcher.dropped(0, worker);
        assert_eq!(dispatcher.turn_ns(3, RequestId(7)), 3, "what has this number next is another request");
        arrive(&mut dispatcher, 7, handshake);
        assert_eq!(runs(&mut dispatcher), 5);
        dispatcher.dropped(0, worker);
        assert_eq!(runs(&mut dispatcher), 7, "the handshake");
    }

    #[test]
    fn requests_that_arrived_or_yielded_wait_until_they_run_or_are_refused() {
        let types: TypeTable = [TypeSpec::new("ONE").queue_capacity(3)].into_iter().collect();
        let shared = Receiver::example(Config::default(), types, 1);
        let scheduler = Policy::c_fcfs().scheduler(&shared.scheduler_setup());
        let starts = vec![Arc::new(TurnStart::new())];
        let classify = |_: &[u8]| RequestType::new(0);
        let mut dispatcher = Dispatcher::new(classify, scheduler, shared, starts);
        for id in 0..4 {
            dispatcher.entered(0, RequestId(id), RequestType::new(0));
        }
        assert_eq!(dispatcher.waiting(), 4);
        let worker = WorkerId(0);
        let refused = dispatcher.poll(0);
        assert!(matches!(refused, Some(Action::Reject { .. })));
        assert_eq!(dispatcher.waiting(), 3);
        for waiting in [2, 1] {
            assert!(matches!(dispatcher.poll(0), Some(Action::Run { .. })));
            assert!(dispatcher.poll(0).is_none());
            assert_eq!(dispatcher.waiting(), waiting);
            dispatcher.completed(0, worker, &[]);
        }
        assert!(matches!(dispatcher.poll(0), Some(Action::Run { .. })));
        assert_eq!(dispatcher.waiting(), 0);
        dispatcher.yielded(0, worker, 1);
        assert_eq!(dispatcher.waiting(), 1);
        dispatcher.switch_to(0, &Policy::darc());
        assert!(matches!(dispatcher.poll(0), Some(Action::Run { .. })));
        assert_eq!(dispatcher.waiting(), 0);
    }

    #[test]
    fn control_requests_wait_for_no_worker_and_travel_with_their_like() {
        let types = [TypeSpec::new("GET"), TypeSpec::new("PING").control()];
        let shared = Receiver::example(Config::default(), types.into_iter().collect(), 1);
        let scheduler = Policy::c_fcfs().scheduler(&shared.scheduler_setup());
        let starts = vec![Arc::new(TurnStart::new())];
        let classify = |_: &[u8]| RequestType::UNKNOWN;
        let mut dispatcher = Dispatcher::new(classify, scheduler, shared.clone(), starts);
        let [get, ping] = [0, 1].map(RequestType::new);
        for (id, request_type) in [(0, get), (1, ping), (2, get), (3, ping)] {
            dispatcher.entered(0, RequestId(id), request_type);
        }
        assert_eq!((dispatcher.waiting(), dispatcher.control_at_hand()), (2, 2));
        assert!(matches!(dispatcher.poll(0), Some(Action::Run { .. })));
        assert!(dispatcher.poll(0).is_none(), "the only worker is busy");
        assert_eq!(dispatcher.next_control(), Some((RequestId(1), ping)));
        let behind_all = WorkerId(1);
        dispatcher.ran_control(behind_all, ping);
        dispatcher.control_blocked(1, RequestId(1), ping);
        dispatcher.woken(2, behind_all, RequestId(1));
        let at_hand = [(); 3].map(|()| dispatcher.next_control());
        let in_order = [3, 1].map(|id| Some((RequestId(id), ping)));
        assert_eq!(at_hand, [in_order[0], in_order[1], None]);
        let turns = &shared.counters(1).turns.turns;
        assert_eq!((turns.get(), shared.counters(1).waits.waits.get()), (1, 1));
        assert!(dispatcher.same_run(ping, ping) && dispatcher.same_run(get, get));
        assert!(!dispatcher.same_run(get, ping) && !dispatcher.same_run(ping, get));
    }

    #[test]
    fn the_earlier_of_two_deadlines_holds() {
        let ms = Duration::from_millis;
        let types = [TypeSpec::new("ANY"), TypeSpec::new("SOON").max_wait(ms(5))];
        let types = types.into_iter().collect();
        let shared = Receiver::example(Config::default(), types, 1);
        let scheduler = Policy::c_fcfs().scheduler(&shared.scheduler_setup());
        let classify = |_: &[u8]| RequestType::UNKNOWN;
        let dispatcher = Dispatcher::new(classify, scheduler, shared, Vec::new());
        let [any, soon] = [0, 1].map(RequestType::new);
        for (request_type, own, wait_ms) in [
            (any, None, None),
            (RequestType::UNKNOWN, None, None),
            (any, Some(ms(9)), Some(9)),
            (soon, None, Some(5)),
            (soon, Some(ms(9)), Some(5)),
            (soon, Some(ms(2)), Some(2)),
        ] {
            let deadline_ns = dispatcher.latest_turn_ns(7, request_type, own);
            assert_eq!(deadline_ns, wait_ms.map(|ms| 7 + ms * 1_000_000));
        }
        let for_ever = dispatcher.latest_turn_ns(7, any, Some(Duration::MAX));
        assert_eq!(for_ever, Some(u64::MAX));
    }
}
