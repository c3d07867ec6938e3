//! The dispatcher: classifies requests, reports events to the scheduler, counts.

use std::sync::Arc;
use std::time::Duration;

use psp_policy::admission::{Arrival, Refusal};
use psp_policy::elastic::ElasticScheduler;
use psp_policy::{
    Action, BacklogRequest, Event, Policy, Relief, RequestId, RequestState, RequestType, Sample, Scheduler, TypeSpec,
    TypeStatus, WorkerId,
};

use super::blocked::Blocked;
use super::brief::Brief;
use super::control::Control;
use super::lengths::{Length, Lengths};
use super::places::Places;
use super::studies::Studies;
use super::turns::{RunningTurn, Turns};
use crate::classifier::Classifier;
use crate::request_types::control_begun_max;
use crate::runtime::channel::turn_start::TurnStart;
use crate::runtime::host::cores::Cores;
use crate::shared::{Gate, Receiver};
use crate::telemetry::{DispatchCounters, Telemetry};
use crate::transport::run::{Standing, TOO_LATE_NS};

/// How often queue lengths and reservations are published for other threads.
const PUBLISH_INTERVAL_NS: u64 = 10_000_000;
/// How often the scheduler gets a tick while nothing else happens.
const TICK_INTERVAL_NS: u64 = 1_000_000;
/// If a tick did not move the deadline, the next tick comes after this time: the deadline must not keep the net
/// thread awake.
const UNMOVED_DEADLINE_NS: u64 = 10_000;
/// Requests that arrive between two polls and for which memory is set aside.
const OFFERED_PREALLOCATED: usize = 1024;

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

    /// As this, with a scheduler whose requests other workers may run. They give back the `places` of these.
    pub(crate) fn offering(mut self, places: Arc<Places>) -> Self {
        self.offer_on(places);
        self
    }

    fn offer_on(&mut self, places: Arc<Places>) {
        self.places = places;
        self.offered = Some(Vec::with_capacity(OFFERED_PREALLOCATED));
    }

    /// A request that arrived since the last call and that others may run. Its task must be where they find it before
    /// the scheduler is polled.
    #[inline]
    pub(crate) fn next_offered(&mut self) -> Option<Arrived> {
        self.offered.as_mut()?.pop()
    }

    /// Goes on under another policy with all waiting and running requests.
    pub(crate) fn switch_to(&mut self, now_ns: u64, policy: &Policy) {
        self.keep_counts();
        let next = self.shared.scheduler(policy);
        if self.scheduler.switch_to(now_ns, next) {
            self.is_switched();
        }
        self.publish_at_ns = now_ns;
    }

    /// Goes on under another scheduler with all requests that wait or began here, between two turns. With `offers`, the
    /// places of these, other workers may run what waits from now on.
    pub(crate) fn succeed(&mut self, now_ns: u64, next: Box<dyn Scheduler>, offers: Option<Arc<Places>>) {
        self.keep_counts();
        let was_offering = self.offered.is_some();
        let mut waiting: Vec<BacklogRequest> = Vec::new();
        let is_switched = self.scheduler.switch_seeing(now_ns, next, |backlog| {
            let requests = backlog.requests.iter();
            waiting.extend(requests.filter(|request| request.waits()));
        });
        if is_switched {
            self.is_switched();
        }
        match offers {
            Some(places) if !was_offering => self.offer_on(places),
            None if was_offering => {
                self.places = Arc::new(Places::new(&self.shared.types, &self.shared.config));
                self.offered = None;
            }
            _ => waiting.clear(),
        }
        for request in waiting {
            let slot = self.slot(request.request_type);
            let is_new = request.state == RequestState::Waiting;
            match &mut self.offered {
                None => self.places.take(slot),
                Some(offered) if is_new => {
                    self.places.take(slot);
                    offered.push(Arrived { request: request.request, slot });
                }
                Some(_) => {}
            }
        }
        self.publish_at_ns = now_ns;
    }

    /// Takes a request over that is on offer and in no queue.
    pub(crate) fn adopt(&mut self, now_ns: u64, request: RequestId, request_type: RequestType) {
        if self.counts_all() {
            self.places.take(self.slot(request_type));
        }
        let deadline_ns = None;
        let arrived = Event::Arrived { request, request_type, deadline_ns };
        self.scheduler.on_event(now_ns, arrived);
    }

    /// Keeps what the scheduler counted, which ends.
    fn keep_counts(&mut self) {
        for slot in 0..=self.shared.types.len() {
            let status = self.scheduler.type_status(slot);
            self.before.steals[slot] += status.steals;
            self.before.relieved[slot] += status.relieved;
        }
        self.before.reservation_updates += self.scheduler.reservation_updates();
    }

    /// The request's type. An answer beyond the table, or a panic, is `UNKNOWN`.
    #[inline]
    pub(crate) fn classify<H>(&self, request: &[u8], head: &H) -> RequestType
    where
        K: Classifier<H>,
    {
        let classify = std::panic::AssertUnwindSafe(|| self.classifier.classify(request, head));
        let request_type = std::panic::catch_unwind(classify).unwrap_or(RequestType::UNKNOWN);
        match request_type.index() {
            Some(index) if index < self.shared.types.len() && Some(request_type) != self.shared.handshake => {
                request_type
            }
            _ => RequestType::UNKNOWN,
        }
    }

    /// What admission has to know of a request whose peer waits for `own` from `arrived_ns` on; `None` without
    /// admission. Of one with which the classifier panics it knows nothing.
    #[inline]
    pub(crate) fn standing<H>(
        &self,
        request: &[u8],
        head: &H,
        arrived_ns: u64,
        own: Option<Duration>,
    ) -> Option<Standing>
    where
        K: Classifier<H>,
    {
        self.shared.gate.as_ref()?;
        let ask = std::panic::AssertUnwindSafe(|| Standing {
            priority: self.classifier.priority(request, head),
            tenant: self.classifier.tenant(request, head),
            deadline_ns: own.map(|own| end_ns(arrived_ns, own)),
        });
        Some(std::panic::catch_unwind(ask).unwrap_or_default())
    }

    /// The type of TLS handshakes, which only servers with TLS have.
    pub(crate) fn handshake_type(&self) -> RequestType {
        self.shared.handshake.unwrap_or(RequestType::UNKNOWN)
    }

    /// Whether requests of two types may travel in one run: because the policy says so, or because both are brief. They
    /// yield by the same mechanism then. Control requests travel with their like alone.
    pub(crate) fn same_run(&self, first: RequestType, next: RequestType) -> bool {
        let [first_slot, next_slot] = [first, next].map(|request_type| self.slot(request_type));
        if self.control.has(first_slot) || self.control.has(next_slot) {
            return first == next;
        }
        let preempt = &self.shared.preempt;
        let are_alike = self.scheduler.same_run(first, next);
        (are_alike || self.brief.are([first_slot, next_slot])) && preempt[first_slot] == preempt[next_slot]
    }

    /// Whether requests of this type are known to be brief.
    #[inline]
    pub(crate) fn is_brief(&self, request_type: RequestType) -> bool {
        self.brief.is(self.slot(request_type))
    }

    /// Counts requests that were accepted from a peer.
    #[inline]
    pub(crate) fn count_arrival(&self, request_type: RequestType) {
        self.counters(request_type).arrivals.add(1);
    }

    /// Takes back the count of a request that will arrive again.
    pub(crate) fn uncount_arrival(&self, request_type: RequestType) {
        self.counters(request_type).arrivals.sub(1);
    }

    pub(crate) fn count_rejection(&self, request_type: RequestType) {
        self.counters(request_type).rejections.add(1);
    }

    /// Counts a request that waits for a place in its typed queue.
    pub(crate) fn count_held(&self, request_type: RequestType) {
        self.counters(request_type).held.add(1);
    }

    /// Counts a request that was not run because its peer is gone.
    pub(crate) fn count_abandoned(&self, request_type: RequestType) {
        self.counters(request_type).abandoned.add(1);
    }

    /// Counts a request that was not run because it had waited for too long.
    pub(crate) fn count_expired(&self, request_type: RequestType) {
        self.counters(request_type).expired.add(1);
    }

    fn counters(&self, request_type: RequestType) -> &DispatchCounters {
        self.shared.counters(self.shared.types.slot(request_type))
    }

    /// Until when a request that arrived at `arrived_ns` may wait for its turn: by its type, and by the deadline of
    /// its own. `None` if neither says so.
    #[inline]
    pub(crate) fn latest_turn_ns(
        &self,
        arrived_ns: u64,
        request_type: RequestType,
        own: Option<Duration>,
    ) -> Option<u64> {
        let slot = self.shared.types.slot(request_type);
        let waits = [self.waits_max[slot], own];
        let wait = waits.into_iter().flatten().min()?;
        Some(end_ns(arrived_ns, wait))
    }

    pub(crate) fn type_name(&self, request_type: RequestType) -> &str {
        self.shared.types.name_of_slot(self.shared.types.slot(request_type))
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

    /// The type's slot in arrays that have one entry for each type.
    #[inline]
    pub(crate) fn slot(&self, request_type: RequestType) -> usize {
        self.shared.types.slot(request_type)
    }

    /// Whether the typed queue of this slot has room for another request.
    #[inline]
    pub(crate) fn has_room(&self, slot: usize) -> bool {
        self.places.has_free(slot)
    }

    /// How many requests a run may have that begins with one of this type, where admission says so.
    #[inline]
    pub(crate) fn run_len_max(&self, request_type: RequestType) -> Option<usize> {
        let gate = self.shared.gate.as_ref()?;
        Some(gate.run_len_max(self.slot(request_type)))
    }

    /// A request has come, which may wait for its turn until `latest_ns`. Admission, if there is any, hears of its
    /// `arrival`, and may refuse it. Then nobody else hears of it.
    #[inline]
    pub(crate) fn arrived(
        &mut self,
        now_ns: u64,
        (request, request_type): (RequestId, RequestType),
        latest_ns: Option<u64>,
        arrival: impl FnOnce() -> Arrival,
    ) -> Result<(), Refusal> {
        let name = match &self.shared.gate {
            None => request,
            Some(gate) if self.is_always_let_in(request_type) => gate.name_of(request),
            Some(gate) => gate.arrive(now_ns, arrival())?,
        };
        self.enter(now_ns, (request, name), request_type, latest_ns);
        Ok(())
    }

    /// Whether admission has nothing to say about requests of this type.
    fn is_always_let_in(&self, request_type: RequestType) -> bool {
        self.control.has(self.slot(request_type)) || Some(request_type) == self.shared.handshake
    }

    /// Work has come that admission has nothing to say about.
    pub(crate) fn entered(&mut self, now_ns: u64, request: RequestId, request_type: RequestType) {
        let name = self.shared.gate.as_ref().map_or(request, |gate| gate.name_of(request));
        self.enter(now_ns, (request, name), request_type, None);
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
            if let Some(gate) = &self.shared.gate {
                self.too_late = pass(gate, now_ns, action);
            }
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

    /// The time by which it is told whether a request that is to begin comes too late: now, or the end of all times if
    /// admission says so.
    #[inline]
    pub(crate) fn turn_ns(&self, now_ns: u64, request: RequestId) -> u64 {
        match self.is_too_late(request) {
            true => TOO_LATE_NS,
            false => now_ns,
        }
    }

    /// Whether admission says that the request of the latest action comes too late.
    #[inline]
    pub(crate) fn is_too_late(&self, request: RequestId) -> bool {
        self.too_late == Some(request)
    }

    /// When [`Dispatcher::tick`] has to be called at the latest, if no event comes before.
    pub(crate) fn deadline_ns(&self) -> Option<u64> {
        let moved_ns = |deadline_ns| {
            if deadline_ns > self.ticked_ns {
                deadline_ns
            } else {
                self.ticked_ns + UNMOVED_DEADLINE_NS
            }
        };
        let scheduler_ns = self.scheduler.deadline_ns().map(moved_ns);
        scheduler_ns.into_iter().chain(self.turns.deadline_ns()).min()
    }

    /// Does the periodic work, and ticks at the scheduler's deadlines.
    pub(crate) fn tick(&mut self, now_ns: u64) {
        let deadline_ns = self.scheduler.deadline_ns().unwrap_or(u64::MAX);
        if now_ns >= self.tick_at_ns || now_ns >= deadline_ns {
            self.ticked_ns = now_ns;
            self.tick_at_ns = now_ns + TICK_INTERVAL_NS;
            self.scheduler.on_event(now_ns, Event::Tick);
            self.turns.watch(now_ns);
        }
        if self.shared.config.arbiter.is_none()
            && let Some(present) = self.scheduler.follow_load(now_ns)
        {
            self.note_present(now_ns, present);
        }
        self.study(now_ns);
        if now_ns >= self.publish_at_ns {
            self.publish_at_ns = now_ns + PUBLISH_INTERVAL_NS;
            self.publish(now_ns);
            let (scheduler, shared) = (&self.scheduler, &self.shared);
            { &mut self.brief }.follow(|slot| mean_ns(scheduler, shared, slot));
            if let Some(lengths) = &mut self.lengths {
                lengths.measure(&self.shared, Telemetry::length_ns_mean);
            }
            if let Some(keeping) = &mut self.keeping {
                keeping.measure(&self.shared, Telemetry::handling_ns_mean);
            }
        }
    }

    /// Tells the scheduler what came of a study, and begins the next.
    #[inline]
    fn study(&mut self, now_ns: u64) {
        let Some(studies) = &mut self.studies else {
            return;
        };
        if let Some(outcome) = studies.ended(now_ns) {
            let findings = outcome.findings.as_ref();
            self.shared.telemetry.studies.add(u64::from(findings.is_some()));
            if outcome.is_wanted {
                self.scheduler.conclude(now_ns, findings);
            }
        }
        if studies.may_begin(now_ns)
            && let Some(study) = self.scheduler.study()
            && studies.begin(now_ns, study).is_err()
        {
            self.scheduler.conclude(now_ns, None);
        }
    }

    /// Another scheduler is in force.
    fn is_switched(&mut self) {
        if let Some(studies) = &mut self.studies {
            studies.scheduler_is_replaced();
        }
    }

    /// How long requests of a type are. Asked where ports move between threads. Of the steps of handshakes that is
    /// unknown even if most are short: they reach no checkpoint, and some need what others than the server have.
    #[inline]
    pub(crate) fn length(&self, request_type: RequestType) -> Length {
        let slot = self.slot(request_type);
        let known = self.lengths.as_ref().map(|lengths| lengths.of(slot));
        match known {
            Some(Length::Short) if Some(request_type) == self.shared.handshake => Length::Unknown,
            known => known.unwrap_or(Length::Unknown),
        }
    }

    /// Whether requests of a type are known to keep their connections for a short time, whether they run or wait.
    #[inline]
    pub(crate) fn keeps_briefly(&self, request_type: RequestType) -> bool {
        let slot = self.slot(request_type);
        self.keeping.as_ref().is_some_and(|keeping| keeping.of(slot) == Length::Short)
    }

    /// At the end of an interval, how many workers the load needs. Servers with an arbiter ask for as many cores, and
    /// [set](Self::set_present) how many workers they got.
    pub(crate) fn needed(&mut self, now_ns: u64) -> Option<usize> {
        self.scheduler.needed(now_ns)
    }

    /// So many workers are present from now on.
    pub(crate) fn set_present(&mut self, now_ns: u64, present: usize) {
        self.scheduler.set_present(now_ns, present);
        self.note_present(now_ns, present);
    }

    fn note_present(&self, now_ns: u64, present: usize) {
        self.shared.telemetry.elastic.changed_to(present);
        if let Some(gate) = &self.shared.gate {
            gate.workers(now_ns, present);
        }
    }

    /// The next request that is stuck and was not returned before, and what is left to its type. To be asked after
    /// each tick.
    #[inline]
    pub(crate) fn next_stuck(&mut self, now_ns: u64) -> Option<(RunningTurn, Relief)> {
        let (scheduler, shared) = (&self.scheduler, &self.shared);
        let stuck = self
            .turns
            .next_stuck(now_ns, |request_type| mean_ns(scheduler, shared, shared.types.slot(request_type)))?;
        let slot = self.slot(stuck.request_type);
        Some((stuck, self.scheduler.relief(now_ns, slot)))
    }

    /// Whether a request of this type that has run for `for_ns` may never end.
    pub(crate) fn is_stuck(&self, request_type: RequestType, for_ns: u64) -> bool {
        for_ns >= self.stuck_after_ns(request_type)
    }

    /// The service time from which on a request of this type may never end.
    pub(crate) fn stuck_after_ns(&self, request_type: RequestType) -> u64 {
        let mean_ns = || mean_ns(&self.scheduler, &self.shared, self.slot(request_type));
        let after = self.shared.config.stuck_after();
        after.map_or(u64::MAX, |after| after.service_ns(mean_ns()))
    }

    /// Counts a request on `worker` that may never end.
    pub(crate) fn count_stuck(&self, worker: WorkerId) {
        self.turns.count_stuck(worker);
    }

    fn publish(&self, now_ns: u64) {
        for slot in 0..=self.shared.types.len() {
            let status = self.scheduler.type_status(slot);
            self.shared.counters(slot).publish(&TypeStatus {
                steals: status.steals + self.before.steals[slot],
                relieved: status.relieved + self.before.relieved[slot],
                ..status
            });
        }
        let updates = self.before.reservation_updates + self.scheduler.reservation_updates();
        self.shared.telemetry.reservation_updates.set(updates);
        if let Some(gate) = &self.shared.gate {
            self.measure(now_ns, gate);
        }
    }

    /// Has the load measured, and says if an SLO cannot be held.
    fn measure(&self, now_ns: u64, gate: &Gate) {
        if let Some((slot, status)) = gate.measure(now_ns) {
            let request_type = self.shared.types.name_of_slot(slot);
            let service_us = (status.service_ns_mean / 1e3) as u64;
            let slo_us = (status.slo_ns / 1e3) as u64;
            tracing::warn!(
                request_type,
                service_us,
                slo_us,
                "an SLO is shorter than two service times, and counts as two: a longer one, or shorter requests, would do"
            );
        }
    }
}

/// The time behind so long a time.
fn end_ns(from_ns: u64, time: Duration) -> u64 {
    from_ns.saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

/// Has an action concern the request that admission says, in the place of the one that the scheduler named. Returns it
/// if it is too late for it.
fn pass(gate: &Gate, now_ns: u64, action: &mut Action) -> Option<RequestId> {
    match action {
        Action::Run { request, .. } => {
            let turn = gate.turn(now_ns, *request);
            *request = turn.request;
            turn.is_too_late.then_some(turn.request)
        }
        Action::Reject { request, .. } => {
            *request = gate.rejected(now_ns, *request);
            None
        }
        Action::Preempt { .. } => None,
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
    use super::*;
    use crate::config::Config;
    use crate::shared::Shared;
    use psp_policy::admission::{Admit, Ticket, Turn, Verdict};
    use psp_policy::{TypeSpec, TypeTable};

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
