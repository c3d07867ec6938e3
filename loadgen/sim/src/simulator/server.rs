//! A simulated server: the scheduler of a live server in virtual time, and what it schedules.
//!
//! ```text
//!   arrivals ─► dispatchers ─► Scheduler ◄── quanta, ticks
//!                (if they        │   ▲   ◄── requests that waited without a worker (Unblocked)
//!                 cost time)     ▼   │ Completed, Yielded, Blocked
//!                              workers ─► recorder
//! ```
//!
//! At the same nanosecond workers come first, then requests that waited long enough, then dispatchers. A request that
//! ends together with its quantum is therefore not preempted.

use psp_policy::admission::{Admission, Admit as _, Arrival, Ticket, Turn, Verdict};
use psp_policy::elastic::ElasticScheduler;
use psp_policy::{Action, Event, HandOff, Policy, RequestId, RequestType, Sample, Scheduler, TypeTable, WorkerId};
use psp_trace::Kind;

use super::dispatcher::Dispatchers;
use super::plan::SimPlan;
use super::present::Present;
use super::recorder::{Measured, Recorder, Unserved};
use super::slab::Slab;
use super::snapshot::Snapshot;
use super::tape::{About, SimTrace, Tape};
use super::wakes::Wakes;
use super::workers::{Left, Workers};

/// Time without an event after which the scheduler gets a tick, as from a live driver.
const TICK_NS: u64 = 1_000_000;

/// A request in the system.
#[derive(Debug, Clone, Copy)]
struct Request {
    measured: Measured,
    remaining_ns: u64,
    /// Whether it has yet to wait without its worker.
    will_wait: bool,
    request_type: RequestType,
    /// What admission calls it.
    ticket: Option<Ticket>,
    /// The worker that it ran on last.
    ran_on: Option<WorkerId>,
}

impl Request {
    /// Service until it completes, or until it waits: it does so when half of its service, rounded down, is
    /// done.
    const fn until_stop_ns(&self) -> u64 {
        let second_half_ns = self.measured.service_ns.div_ceil(2);
        if self.will_wait {
            self.remaining_ns - second_half_ns
        } else {
            self.remaining_ns
        }
    }
}

/// See the [module](self).
pub(super) struct Server<'a> {
    plan: &'a SimPlan,
    types: &'a TypeTable,
    scheduler: ElasticScheduler,
    admission: Option<Admission>,
    /// From when to when no request begins.
    stall_ns: Option<[u64; 2]>,
    present: Present,
    requests: Slab<Request>,
    workers: Workers,
    wakes: Wakes,
    /// `None` if dispatchers take no time or the policy has none.
    dispatchers: Option<Dispatchers>,
    /// Whether the policy has a dispatcher.
    dispatched: bool,
    /// Until when the timer core, which asks workers to preempt where there is no dispatcher, is busy.
    timer_until_ns: u64,
    in_system: u64,
    /// Time in which workers idled though requests waited, of all together up to `idle_since_ns`.
    idle_ns: u64,
    idle_since_ns: u64,
    preemptions: u64,
    steals: u64,
    /// Where somebody wants to know what happens to each request.
    tape: Option<Tape>,
    now_ns: u64,
    ticked_ns: u64,
}

impl<'a> Server<'a> {
    pub(super) fn new(
        plan: &'a SimPlan,
        types: &'a TypeTable,
        scheduler: Box<dyn Scheduler>,
        dispatched: bool,
        seed: u64,
    ) -> Self {
        let mut server = Self {
            plan,
            types,
            scheduler: ElasticScheduler::new(scheduler, plan.elastic(types)),
            admission: plan
                .overload
                .admission
                .map(|settings| Admission::new(plan.workers_at_start(), types, settings)),
            stall_ns: None,
            present: Present::new(plan),
            requests: Slab::default(),
            workers: Workers::new(plan.workers, seed),
            wakes: Wakes::default(),
            dispatchers: None,
            dispatched,
            timer_until_ns: 0,
            in_system: 0,
            idle_ns: 0,
            idle_since_ns: 0,
            preemptions: 0,
            steals: 0,
            tape: None,
            now_ns: 0,
            ticked_ns: 0,
        };
        server.employ_dispatchers();
        server
    }

    /// As this, on a tape.
    pub(super) fn on_tape(self, tape: Option<Tape>) -> Self {
        Self { tape, ..self }
    }

    /// What was recorded until the end of the simulation.
    pub(super) fn into_trace(self, now_ns: u64) -> Option<SimTrace> {
        self.tape.and_then(|tape| tape.into_trace(now_ns))
    }

    /// Records something that happens to a request now, if that is asked for.
    #[inline]
    fn record(&mut self, kind: Kind, request: u32, worker: WorkerId) {
        if let Some(tape) = &mut self.tape {
            let request_type = self.requests.get(request).request_type;
            let slot = self.types.slot(request_type);
            let about = About { request, slot, worker };
            tape.record(self.now_ns, kind, about);
        }
    }

    /// Creates dispatchers if the policy has them and they take time. Arrivals that they hold stay
    /// with them when the policy changes.
    fn employ_dispatchers(&mut self) {
        let costs = &self.plan.costs;
        if self.dispatched && !costs.dispatcher_is_free() && self.dispatchers.is_none() {
            let waiting_max = self.plan.queue_capacity;
            self.dispatchers = Some(Dispatchers::new(costs.dispatchers, waiting_max));
        }
    }

    /// Requests that have arrived and not left.
    #[inline]
    pub(super) const fn in_system(&self) -> u64 {
        self.in_system
    }

    /// Preemptions so far.
    pub(super) const fn preemptions(&self) -> u64 {
        self.preemptions
    }

    /// Requests that a worker took from another worker's queue so far.
    pub(super) const fn steals(&self) -> u64 {
        self.steals
    }

    /// When its next own event is; the end of time if nothing runs, waits for its end or is classified.
    #[inline]
    pub(super) fn event_ns(&self) -> u64 {
        let others_ns = self.wakes.next_ns().min(self.dispatchers_ns());
        self.workers.next_ns().min(others_ns)
    }

    fn dispatchers_ns(&self) -> u64 {
        let dispatchers = self.dispatchers.as_ref();
        dispatchers.map_or(u64::MAX, Dispatchers::next_ns)
    }

    /// When the scheduler gets a tick if nothing happens before: at its deadline, or after a while.
    #[inline]
    pub(super) fn tick_ns(&self) -> u64 {
        // A deadline that does not move must not stop the clock.
        let deadline_ns = self.scheduler.deadline_ns();
        let deadline_ns = deadline_ns.map_or(u64::MAX, |ns| ns.max(self.ticked_ns + 1));
        deadline_ns.min(self.now_ns + TICK_NS)
    }

    /// Nothing happens until `now_ns`.
    #[inline]
    fn pass_until(&mut self, now_ns: u64) {
        self.idle_ns = self.idle_ns(now_ns);
        self.idle_since_ns = now_ns;
        self.now_ns = now_ns;
    }

    /// The time up to `now_ns` in which workers idled though requests waited, of all together.
    fn idle_ns(&self, now_ns: u64) -> u64 {
        let passed_ns = now_ns - self.idle_since_ns;
        let idle = self.present.workers().saturating_sub(self.workers.busy());
        if idle == 0 || passed_ns == 0 {
            return self.idle_ns;
        }
        let held = self.dispatchers.as_ref().map_or(0, Dispatchers::held);
        let elsewhere = self.workers.busy() + self.wakes.len() + held;
        let waiting = self.in_system.saturating_sub(elsewhere as u64);
        self.idle_ns + passed_ns * waiting.min(idle as u64)
    }

    /// The event that is due at `now_ns`, which is [`Server::event_ns`].
    #[inline]
    pub(super) fn proceed(&mut self, now_ns: u64, recorder: &mut Recorder) {
        self.pass_until(now_ns);
        if self.workers.next_ns() == now_ns {
            self.worker_free(recorder);
        } else if self.wakes.next_ns() == now_ns {
            self.wake(recorder);
        } else {
            self.classified(recorder);
        }
    }

    /// The tick that is due at `tick_ns`, which is [`Server::tick_ns`].
    pub(super) fn tick(&mut self, tick_ns: u64, recorder: &mut Recorder) {
        self.pass_until(tick_ns.max(self.now_ns));
        self.ticked_ns = self.now_ns;
        self.scheduler.on_event(self.now_ns, Event::Tick);
        if let Some(present) = self.scheduler.follow_load(self.now_ns) {
            self.present.change(self.now_ns, present);
            if let Some(admission) = &mut self.admission {
                admission.workers(self.now_ns, present);
            }
        }
        self.poll(recorder);
    }

    /// A request arrives, which the server takes for one of `request_type`.
    pub(super) fn arrive(&mut self, measured: Measured, request_type: RequestType, recorder: &mut Recorder) {
        self.pass_until(measured.arrived_ns);
        self.in_system += 1;
        if let Some(stall) = self.plan.overload.stall.filter(|_| measured.measured) {
            let from_ns = self.now_ns + stall.from_ns;
            self.stall_ns.get_or_insert([from_ns, from_ns + stall.length_ns]);
        }
        if let Some(tape) = self.tape.as_mut().filter(|_| measured.measured) {
            tape.begin(self.now_ns);
        }
        let request = self.requests.insert(Request {
            measured,
            remaining_ns: measured.service_ns,
            will_wait: measured.wait_ns > 0,
            request_type,
            ticket: None,
            ran_on: None,
        });
        self.record(Kind::Arrived, request, WorkerId(0));
        match &mut self.dispatchers {
            Some(dispatchers) if self.dispatched => {
                if !dispatchers.arrived(self.now_ns, request, &self.plan.costs) {
                    self.leave(request, Unserved::Rejected, recorder);
                }
            }
            _ => self.enqueue(request, recorder),
        }
    }

    /// A dispatcher has classified a request.
    fn classified(&mut self, recorder: &mut Recorder) {
        let Some(dispatchers) = &mut self.dispatchers else {
            return;
        };
        if let Some(request) = dispatchers.classified() {
            self.enqueue(request, recorder);
        }
        if let Some(dispatchers) = &mut self.dispatchers {
            dispatchers.take_up(self.now_ns, &self.plan.costs);
        }
    }

    /// The scheduler gets a request.
    fn enqueue(&mut self, request: u32, recorder: &mut Recorder) {
        if let Some(refused) = self.refused(request) {
            self.leave(request, refused, recorder);
            // Time passed, and a stall may have ended.
            self.poll(recorder);
            return;
        }
        let Request { request_type, measured, .. } = *self.requests.get(request);
        let request = RequestId(request);
        let arrived = Event::Arrived { request, request_type, deadline_ns: measured.deadline_ns };
        self.scheduler.on_event(self.now_ns, arrived);
        if let Some(study) = self.scheduler.study() {
            self.scheduler.conclude(self.now_ns, Some(&study.run()));
        }
        self.poll(recorder);
    }

    /// Why admission refuses a request, if it does.
    fn refused(&mut self, request: u32) -> Option<Unserved> {
        let admission = self.admission.as_mut()?;
        let Request { request_type, measured, .. } = *self.requests.get(request);
        let arrival = Arrival::new(RequestId(request), request_type, measured.arrived_ns)
            .priority(measured.priority)
            .tenant(measured.tenant)
            .deadline_ns(measured.deadline_ns);
        match admission.arrive(self.now_ns, &arrival) {
            Verdict::Refuse(refusal) => Some(Unserved::Refused(refusal.reason)),
            Verdict::Admit(ticket) => {
                self.requests.get_mut(request).ticket = Some(ticket);
                None
            }
        }
    }

    /// A request whose turn has come for the first time: whether it runs. It may be another one that changed places
    /// with it.
    fn turn(&mut self, request: u32) -> bool {
        let Request { ticket, measured, .. } = *self.requests.get(request);
        let Some((admission, ticket)) = self.admission.as_mut().zip(ticket) else {
            return measured.deadline_ns.is_none_or(|deadline_ns| self.now_ns <= deadline_ns);
        };
        let Turn { runs, instead, .. } = admission.begin(self.now_ns, ticket);
        if let Some(other) = instead {
            self.requests.swap(request, other.0);
        }
        runs
    }

    /// The next request has waited long enough without its worker.
    fn wake(&mut self, recorder: &mut Recorder) {
        if let Some(request) = self.wakes.pop() {
            self.record(Kind::Woken, request, WorkerId(0));
            if let Some((admission, ticket)) = self.admission.as_mut().zip(self.requests.get(request).ticket) {
                admission.unblock(self.now_ns, ticket);
            }
            let request = RequestId(request);
            self.scheduler.on_event(self.now_ns, Event::Unblocked { request });
            self.poll(recorder);
        }
    }

    /// A worker completed its request, was preempted, or has a request that waits.
    fn worker_free(&mut self, recorder: &mut Recorder) {
        let Some(left) = self.workers.free_next() else {
            return;
        };
        let Left { worker, request, served_ns, completed } = left;
        let kind = match completed {
            true if self.requests.get(request).will_wait => Kind::Blocked,
            true => Kind::Completed,
            false => Kind::Yielded,
        };
        self.record(kind, request, worker);
        let slot = self.requests.get_mut(request);
        if completed && slot.will_wait {
            slot.will_wait = false;
            slot.remaining_ns -= served_ns;
            let wakes_ns = self.now_ns.saturating_add(slot.measured.wait_ns);
            self.wakes.push(wakes_ns, request);
            if let Some((admission, ticket)) = self.admission.as_mut().zip(slot.ticket) {
                admission.block(self.now_ns, ticket);
            }
            let blocked = Event::Blocked { worker, served_ns };
            self.scheduler.on_event(self.now_ns, blocked);
        } else if completed {
            let Request { measured, request_type, ticket, .. } = self.requests.remove(request);
            self.in_system -= 1;
            recorder.completed(self.now_ns, &measured);
            if let Some((admission, ticket)) = self.admission.as_mut().zip(ticket) {
                admission.end(self.now_ns, ticket, measured.service_ns, 1);
            }
            let samples = [Sample { request_type, count: 1, service_ns: measured.service_ns }];
            let completed = Event::Completed { worker, samples: &samples, dropped: false };
            self.scheduler.on_event(self.now_ns, completed);
        } else {
            self.preemptions += 1;
            slot.remaining_ns -= served_ns;
            let yielded = Event::Yielded { worker, served_ns };
            self.scheduler.on_event(self.now_ns, yielded);
        }
        self.poll(recorder);
    }

    /// Carries out the scheduler's actions until there are none.
    fn poll(&mut self, recorder: &mut Recorder) {
        if self
            .stall_ns
            .is_some_and(|[from_ns, until_ns]| (from_ns..until_ns).contains(&self.now_ns))
        {
            return;
        }
        while let Some(action) = self.scheduler.poll(self.now_ns) {
            match action {
                Action::Run { worker, request, hand_off, .. } => {
                    if self.requests.get(request.0).ran_on.is_some() || self.turn(request.0) {
                        self.start(worker, request.0, hand_off);
                    } else {
                        let dropped = Event::Completed { worker, samples: &[], dropped: true };
                        self.scheduler.on_event(self.now_ns, dropped);
                        self.leave(request.0, Unserved::Dropped, recorder);
                    }
                }
                Action::Preempt { worker, .. } => {
                    if let Some(tape) = &mut self.tape {
                        let about = About { request: 0, slot: 0, worker };
                        tape.record(self.now_ns, Kind::Asked, about);
                    }
                    self.preempt(worker);
                }
                Action::Reject { request, .. } => {
                    if let Some((admission, ticket)) = self.admission.as_mut().zip(self.requests.get(request.0).ticket)
                    {
                        admission.cancel(self.now_ns, ticket);
                    }
                    self.leave(request.0, Unserved::Rejected, recorder);
                }
            }
        }
    }

    /// Asks a worker to stop its request.
    fn preempt(&mut self, worker: WorkerId) {
        let costs = &self.plan.costs;
        let asked_ns = match &mut self.dispatchers {
            Some(dispatchers) if self.dispatched => dispatchers.send(self.now_ns, costs),
            _ => {
                let begins_ns = self.timer_until_ns.max(self.now_ns);
                self.timer_until_ns = begins_ns + costs.send_ns;
                begins_ns
            }
        };
        self.workers.preempt(asked_ns, worker, costs);
    }

    /// Sends a request to a worker.
    fn start(&mut self, worker: WorkerId, request: u32, hand_off: HandOff) {
        let costs = &self.plan.costs;
        let now_ns = self.now_ns;
        let mut starts_ns = now_ns;
        if let Some(dispatchers) = &mut self.dispatchers
            && self.dispatched
        {
            let handed_out_ns = dispatchers.hand_out(now_ns, costs);
            if hand_off == HandOff::Dispatched {
                let heard_ns = self.workers.freed_ns(worker) + costs.channel_ns;
                starts_ns = handed_out_ns.max(heard_ns + costs.dispatch_ns) + costs.channel_ns;
            }
        }
        let slot = self.requests.get_mut(request);
        if let Some(home) = slot.ran_on {
            assert!(
                self.plan.migrates || home == worker,
                "request {request} left worker {} for worker {}",
                home.0,
                worker.0
            );
            starts_ns += costs.switch_ns;
        } else if !self.dispatched {
            starts_ns += costs.classify_ns;
        }
        match hand_off {
            HandOff::Stolen => {
                self.steals += 1;
                starts_ns += costs.steal_ns;
            }
            HandOff::HandedOver => starts_ns += costs.hand_over_ns,
            HandOff::Dispatched | HandOff::Own => {}
        }
        slot.ran_on = Some(worker);
        let until_stop_ns = slot.until_stop_ns();
        if let Some(tape) = &mut self.tape {
            let slot = self.types.slot(slot.request_type);
            let about = About { request, slot, worker };
            tape.begun(now_ns, starts_ns, about, hand_off);
        }
        self.workers.start(now_ns, worker, request, starts_ns, until_stop_ns);
    }

    /// A request leaves without having run.
    fn leave(&mut self, request: u32, unserved: Unserved, recorder: &mut Recorder) {
        self.record(Kind::Rejected, request, WorkerId(0));
        let Request { measured, .. } = self.requests.remove(request);
        self.in_system -= 1;
        recorder.left(self.now_ns, &measured, unserved);
    }

    /// Another policy takes over all waiting and running requests.
    pub(super) fn switch_to(&mut self, now_ns: u64, policy: &Policy, recorder: &mut Recorder) {
        self.pass_until(now_ns);
        let next = policy.scheduler(&self.plan.setup(self.types));
        let switched = self.scheduler.switch_to(self.now_ns, next);
        assert!(switched, "plans switch between policies that can hand over");
        self.dispatched = policy.has_dispatcher();
        self.employ_dispatchers();
        self.poll(recorder);
    }

    /// Adds its workers' time up to `now_ns` to that of other servers.
    pub(super) fn add_to(&self, now_ns: u64, snapshot: &mut Snapshot) {
        let (served_each_ns, occupied_ns) = self.workers.spent_ns(now_ns);
        snapshot.served_ns += served_each_ns.iter().sum::<u64>();
        snapshot.served_each_ns.extend(served_each_ns);
        snapshot.occupied_ns += occupied_ns;
        snapshot.present_ns += self.present.spent_ns(now_ns);
        snapshot.idle_ns += self.idle_ns(now_ns);
        snapshot.worker_changes += self.present.changes();
        snapshot.reservation_updates += self.scheduler.reservation_updates();
        snapshot.workers_reserved.resize(self.types.len(), 0);
        for (slot, reserved) in snapshot.workers_reserved.iter_mut().enumerate() {
            *reserved += self.scheduler.type_status(slot).workers_reserved;
        }
    }
}
