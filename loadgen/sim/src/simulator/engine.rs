//! The event loop that drives the scheduler of a live server in virtual time.
//!
//! ```text
//!   arrivals ─► dispatchers ─► Scheduler ◄── quanta, ticks
//!                (if they        │   ▲   ◄── requests that waited without a worker (Unblocked)
//!                 cost time)     ▼   │ Completed, Yielded, Blocked
//!                              workers ─► recorder
//! ```
//!
//! At the same nanosecond workers come first, then requests that waited long enough, dispatchers, deadlines and
//! arrivals. A request that ends together with its quantum is therefore not preempted.

use psp_policy::elastic::ElasticScheduler;
use psp_policy::{
    Action, Event, HandOff, Policy, RequestId, RequestType, Sample, Scheduler, TypeTable, WorkerId,
};
use psp_trace::Kind;
use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;

use super::arrivals::{Arrivals, Stream};
use super::dispatcher::Dispatchers;
use super::outcome::Outcome;
use super::plan::{ClassifierModel, PolicySwitch, SimError, SimPlan};
use super::present::Present;
use super::recorder::{Counts, Measured, Recorder};
use super::slab::Slab;
use super::snapshot::Snapshot;
use super::tape::{About, Tape};
use super::wakes::Wakes;
use super::workers::{Left, Workers};

/// Time without an event after which the scheduler gets a tick, as from a live driver.
const TICK_NS: u64 = 1_000_000;

/// Ticks in a row, with nothing running and nothing to arrive, after which the waiting requests are
/// stranded: windows of a minute have closed by then.
const TICKS_STRANDED: u32 = 60_000;

/// A request in the system.
#[derive(Debug, Clone, Copy)]
struct Request {
    measured: Measured,
    remaining_ns: u64,
    /// Whether it has yet to wait without its worker.
    will_wait: bool,
    request_type: RequestType,
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

struct Engine<'a> {
    plan: &'a SimPlan,
    types: &'a TypeTable,
    scheduler: ElasticScheduler,
    present: Present,
    switch: Option<&'a PolicySwitch>,
    requests: Slab<Request>,
    workers: Workers,
    wakes: Wakes,
    /// `None` if dispatchers take no time or the policy has none.
    dispatchers: Option<Dispatchers>,
    /// Whether the policy has a dispatcher.
    dispatched: bool,
    classifier: Option<Xoshiro256PlusPlus>,
    recorder: Recorder,
    tape: Option<Tape>,
    counts: Counts,
    now_ns: u64,
}

/// Simulates a policy of live servers.
pub(super) fn simulate(
    plan: &SimPlan,
    policy: &Policy,
    arrivals: &mut Arrivals<'_>,
) -> Result<Outcome, SimError> {
    let types = plan.type_table();
    let scheduler = policy.scheduler(&plan.setup(&types));
    let mut engine = Engine::new(plan, &types, scheduler, policy.has_dispatcher());
    engine.run(arrivals)?;
    engine.counts.interrupted = arrivals.interrupted();
    let last = engine.snapshot();
    let Engine {
        recorder,
        tape,
        counts,
        now_ns,
        ..
    } = engine;
    let mut outcome = recorder.into_outcome(plan, counts, &last);
    outcome.trace = tape.and_then(|tape| tape.into_trace(now_ns));
    Ok(outcome)
}

impl<'a> Engine<'a> {
    fn new(
        plan: &'a SimPlan,
        types: &'a TypeTable,
        scheduler: Box<dyn Scheduler>,
        dispatched: bool,
    ) -> Self {
        let random = plan.classifier == ClassifierModel::Random;
        let mut engine = Self {
            plan,
            types,
            scheduler: ElasticScheduler::new(scheduler, plan.elastic(types)),
            present: Present::new(plan),
            switch: plan.switch.as_ref(),
            requests: Slab::default(),
            workers: Workers::new(plan.workers),
            wakes: Wakes::default(),
            dispatchers: None,
            dispatched,
            classifier: random.then(|| Stream::Classifier.rng(plan.seed)),
            recorder: Recorder::new(plan),
            tape: plan.trace.map(Tape::new),
            counts: Counts::default(),
            now_ns: 0,
        };
        engine.employ_dispatchers();
        engine
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

    fn run(&mut self, arrivals: &mut Arrivals<'_>) -> Result<(), SimError> {
        let mut ticked_ns = 0;
        let mut ticks_stranded = 0;
        loop {
            let worker_ns = self.workers.next_ns();
            let dispatcher_ns = self
                .dispatchers
                .as_ref()
                .map_or(u64::MAX, Dispatchers::next_ns);
            // A deadline that does not move must not stop the clock.
            let deadline_ns = self.scheduler.deadline_ns();
            let deadline_ns = deadline_ns.map_or(u64::MAX, |ns| ns.max(ticked_ns + 1));
            let tick_ns = deadline_ns.min(self.now_ns + TICK_NS);
            let arrival_ns = arrivals.next_ns();
            let wake_ns = self.wakes.next_ns();
            let next_ns = worker_ns.min(wake_ns).min(dispatcher_ns).min(arrival_ns);
            if next_ns == u64::MAX && self.recorder.in_system() == 0 {
                return Ok(());
            }
            if next_ns <= tick_ns {
                self.now_ns = next_ns;
                ticks_stranded = 0;
                if worker_ns == next_ns {
                    self.worker_free();
                } else if wake_ns == next_ns {
                    self.wake();
                } else if dispatcher_ns == next_ns {
                    self.classified();
                } else {
                    self.arrive(arrivals);
                }
            } else {
                self.now_ns = tick_ns.max(self.now_ns);
                ticked_ns = self.now_ns;
                ticks_stranded += 1;
                if ticks_stranded > TICKS_STRANDED && next_ns == u64::MAX {
                    return Err(SimError::Stranded {
                        policy: Box::new(self.plan.policy.clone()),
                        waiting: self.recorder.in_system(),
                    });
                }
                self.scheduler.on_event(self.now_ns, Event::Tick);
                if let Some(present) = self.scheduler.follow_load(self.now_ns) {
                    self.present.change(self.now_ns, present);
                }
                self.poll();
            }
        }
    }

    /// The next request arrives.
    fn arrive(&mut self, arrivals: &mut Arrivals<'_>) {
        let Some(arrival) = arrivals.take() else {
            return;
        };
        let (scheduler, workers, present) = (&*self.scheduler, &self.workers, &self.present);
        let (now_ns, types) = (self.now_ns, self.types.len());
        let snapshot = || snapshot(now_ns, scheduler, workers, present, types);
        let measured = self.recorder.arrived(now_ns, snapshot);
        if arrivals.peek().is_none() {
            self.recorder.end(now_ns, snapshot());
        }
        if let Some(tape) = self.tape.as_mut().filter(|_| measured) {
            tape.begin(now_ns);
        }
        let type_index = match &mut self.classifier {
            None => arrival.kind,
            Some(rng) => rng.random_range(0..self.types.len() as u32),
        };
        let request = self.requests.insert(Request {
            measured: Measured {
                arrived_ns: now_ns,
                service_ns: arrival.service_ns,
                wait_ns: arrival.wait_ns,
                kind: arrival.kind,
                measured,
            },
            remaining_ns: arrival.service_ns,
            will_wait: arrival.wait_ns > 0,
            request_type: RequestType::new(type_index),
            ran_on: None,
        });
        self.record(Kind::Arrived, request, WorkerId(0));
        if let Some(switch) = self.switch
            && self.recorder.measured() > switch.at_request
        {
            self.switch_to(&switch.policy);
            self.switch = None;
        }
        match &mut self.dispatchers {
            Some(dispatchers) if self.dispatched => {
                if !dispatchers.arrived(now_ns, request, &self.plan.costs) {
                    self.reject(request);
                }
            }
            _ => self.enqueue(request),
        }
    }

    /// Records something that happens to a request now, if that is asked for.
    #[inline]
    fn record(&mut self, kind: Kind, request: u32, worker: WorkerId) {
        if let Some(tape) = &mut self.tape {
            let request_type = self.requests.get(request).request_type;
            let slot = self.types.slot(request_type);
            let about = About {
                request,
                slot,
                worker,
            };
            tape.record(self.now_ns, kind, about);
        }
    }

    /// A dispatcher has classified a request.
    fn classified(&mut self) {
        let Some(dispatchers) = &mut self.dispatchers else {
            return;
        };
        if let Some(request) = dispatchers.classified() {
            self.enqueue(request);
        }
        if let Some(dispatchers) = &mut self.dispatchers {
            dispatchers.take_up(self.now_ns, &self.plan.costs);
        }
    }

    /// The scheduler gets a request.
    fn enqueue(&mut self, request: u32) {
        let request_type = self.requests.get(request).request_type;
        let request = RequestId(request);
        let arrived = Event::Arrived {
            request,
            request_type,
            deadline_ns: None,
        };
        self.scheduler.on_event(self.now_ns, arrived);
        self.poll();
    }

    /// The next request has waited long enough without its worker.
    fn wake(&mut self) {
        if let Some(request) = self.wakes.pop() {
            self.record(Kind::Woken, request, WorkerId(0));
            let request = RequestId(request);
            self.scheduler
                .on_event(self.now_ns, Event::Unblocked { request });
            self.poll();
        }
    }

    /// A worker completed its request, was preempted, or has a request that waits.
    fn worker_free(&mut self) {
        let Some(left) = self.workers.free_next() else {
            return;
        };
        let Left {
            worker,
            request,
            served_ns,
            completed,
        } = left;
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
            let blocked = Event::Blocked { worker, served_ns };
            self.scheduler.on_event(self.now_ns, blocked);
        } else if completed {
            let Request {
                measured,
                request_type,
                ..
            } = self.requests.remove(request);
            self.recorder.completed(self.now_ns, &measured);
            let samples = [Sample {
                request_type,
                count: 1,
                service_ns: measured.service_ns,
            }];
            let completed = Event::Completed {
                worker,
                samples: &samples,
                dropped: false,
            };
            self.scheduler.on_event(self.now_ns, completed);
        } else {
            self.counts.preemptions += 1;
            slot.remaining_ns -= served_ns;
            let yielded = Event::Yielded { worker, served_ns };
            self.scheduler.on_event(self.now_ns, yielded);
        }
        self.poll();
    }

    /// Carries out the scheduler's actions until there are none.
    fn poll(&mut self) {
        while let Some(action) = self.scheduler.poll(self.now_ns) {
            match action {
                Action::Run {
                    worker,
                    request,
                    hand_off,
                    ..
                } => self.start(worker, request.0, hand_off),
                Action::Preempt { worker, .. } => {
                    if let Some(tape) = &mut self.tape {
                        let about = About {
                            request: 0,
                            slot: 0,
                            worker,
                        };
                        tape.record(self.now_ns, Kind::Asked, about);
                    }
                    self.workers.preempt(self.now_ns, worker, &self.plan.costs);
                }
                Action::Reject { request, .. } => self.reject(request.0),
            }
        }
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
                self.counts.steals += 1;
                starts_ns += costs.steal_ns;
            }
            HandOff::HandedOver => starts_ns += costs.hand_over_ns,
            HandOff::Dispatched | HandOff::Own => {}
        }
        slot.ran_on = Some(worker);
        let until_stop_ns = slot.until_stop_ns();
        if let Some(tape) = &mut self.tape {
            let slot = self.types.slot(slot.request_type);
            let about = About {
                request,
                slot,
                worker,
            };
            tape.begun(now_ns, starts_ns, about, hand_off);
        }
        self.workers
            .start(now_ns, worker, request, starts_ns, until_stop_ns);
    }

    fn reject(&mut self, request: u32) {
        self.record(Kind::Rejected, request, WorkerId(0));
        let Request { measured, .. } = self.requests.remove(request);
        self.recorder.rejected(self.now_ns, &measured);
    }

    /// Another policy takes over all waiting and running requests.
    fn switch_to(&mut self, policy: &Policy) {
        let next = policy.scheduler(&self.plan.setup(self.types));
        let switched = self.scheduler.switch_to(self.now_ns, next);
        assert!(switched, "plans switch between policies that can hand over");
        self.dispatched = policy.has_dispatcher();
        self.employ_dispatchers();
        self.poll();
    }

    fn snapshot(&self) -> Snapshot {
        let types = self.types.len();
        let (scheduler, workers, present) = (&*self.scheduler, &self.workers, &self.present);
        snapshot(self.now_ns, scheduler, workers, present, types)
    }
}

fn snapshot(
    now_ns: u64,
    scheduler: &dyn Scheduler,
    workers: &Workers,
    present: &Present,
    types: usize,
) -> Snapshot {
    let (served_each_ns, occupied_ns) = workers.spent_ns(now_ns);
    Snapshot {
        served_ns: served_each_ns.iter().sum(),
        served_each_ns,
        occupied_ns,
        present_ns: present.spent_ns(now_ns),
        worker_changes: present.changes(),
        reservation_updates: scheduler.reservation_updates(),
        workers_reserved: (0..types)
            .map(|slot| scheduler.type_status(slot).workers_reserved)
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::ops::ControlFlow;

    use super::*;
    use crate::workload::{ArrivalProcess, Workload};

    const QUANTUM_NS: u64 = 300;

    /// One worker in turns of a quantum.
    #[derive(Default)]
    struct Turns {
        waiting: VecDeque<(RequestId, RequestType)>,
        running: Option<(RequestId, RequestType)>,
        ends_ns: Option<u64>,
    }

    impl Scheduler for Turns {
        fn on_event(&mut self, _now_ns: u64, event: Event<'_>) {
            match event {
                Event::Arrived {
                    request,
                    request_type,
                    ..
                } => self.waiting.push_back((request, request_type)),
                Event::Completed { .. } => self.running = None,
                Event::Yielded { served_ns, .. } => {
                    assert!((QUANTUM_NS - 2..1_000).contains(&served_ns), "{served_ns}");
                    self.waiting.extend(self.running.take());
                }
                _ => {}
            }
        }

        fn poll(&mut self, now_ns: u64) -> Option<Action> {
            let worker = WorkerId(0);
            if self.running.is_some() {
                self.ends_ns.take_if(|ends_ns| *ends_ns <= now_ns)?;
                return Some(Action::Preempt {
                    worker,
                    quantum_ns: QUANTUM_NS,
                });
            }
            self.running = self.waiting.pop_front();
            let (request, request_type) = self.running?;
            self.ends_ns = Some(now_ns + QUANTUM_NS);
            Some(Action::Run {
                worker,
                request,
                request_type,
                hand_off: HandOff::Own,
            })
        }

        fn deadline_ns(&self) -> Option<u64> {
            self.ends_ns.filter(|_| self.running.is_some())
        }
    }

    /// Requests of 1 us, so far apart that none meets another, in turns.
    fn run(change: fn(&mut SimPlan)) -> Outcome {
        let workload = Workload::named("fixed").unwrap();
        let mut plan = SimPlan::new(workload, Policy::c_fcfs(), 1, 0.01).requests(100);
        plan.workload.arrivals = ArrivalProcess::Uniform;
        plan.warmup = 0;
        change(&mut plan);
        let types = plan.type_table();
        let mut progress = |_| ControlFlow::Continue(());
        let mut arrivals = Arrivals::new(&plan, &mut progress);
        let mut engine = Engine::new(&plan, &types, Box::new(Turns::default()), false);
        engine.run(&mut arrivals).unwrap();
        let (
            last,
            Engine {
                recorder, counts, ..
            },
        ) = (engine.snapshot(), engine);
        recorder.into_outcome(&plan, counts, &last)
    }

    #[test]
    fn quanta_are_kept_without_costs() {
        let outcome = run(|_| {});
        assert_eq!((outcome.completed, outcome.preemptions), (100, 300));
        assert_eq!(outcome.types[0].latency_ns.max(), 1_000);
    }

    #[test]
    fn preemption_costs_the_worker_and_not_the_service() {
        let outcome = run(|plan| {
            plan.costs.preempt_ns = 40;
            plan.costs.switch_ns = 2;
        });
        // Switching is part of the quantum.
        assert_eq!(outcome.preemptions, 300);
        assert_eq!(outcome.types[0].latency_ns.max(), 1_000 + 3 * 42);
    }

    #[test]
    fn a_victim_goes_on_while_the_decision_is_on_its_way() {
        let outcome = run(|plan| plan.costs.propagation_ns = 150);
        // Turns of 450 ns: stopped at 450 and 900, done before the third decision.
        assert_eq!(outcome.preemptions, 200);
        assert_eq!(outcome.types[0].latency_ns.max(), 1_000);
        let outcome = run(|plan| plan.costs.propagation_ns = 700);
        assert_eq!(outcome.preemptions, 0, "done before it hears of it");
    }
}
