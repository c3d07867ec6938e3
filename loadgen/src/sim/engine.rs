//! The event loop that drives the scheduler of a live server in virtual time.
//!
//! ```text
//!   arrivals ─► dispatchers ─► Scheduler ◄── quanta, ticks
//!                (if they        │   ▲
//!                 cost time)     ▼   │ Completed, Yielded
//!                              workers ─► recorder
//! ```
//!
//! Of things that happen at the same nanosecond workers come first, then dispatchers, deadlines and
//! arrivals, so that a request whose quantum ends with it is not preempted.

use psp_server::policy::{Action, Event, HandOff, RequestId, Sample, Scheduler};
use psp_server::{Policy, RequestType, TypeTable, WorkerId};
use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;

use super::arrivals::{Arrivals, Stream};
use super::dispatcher::Dispatchers;
use super::outcome::Outcome;
use super::plan::{ClassifierModel, PolicySwitch, SimError, SimPlan};
use super::policy::has_dispatcher;
use super::recorder::{Counts, Measured, Recorder, Snapshot};
use super::slab::Slab;
use super::workers::{Left, Workers};

/// Time without an event after which the scheduler gets a tick, as from a live driver.
const TICK_NS: u64 = 1_000_000;

/// Ticks in a row, with nothing running and nothing to come, after which what waits will wait for
/// good: windows of a minute have closed by then.
const TICKS_STRANDED: u32 = 60_000;

/// A request in the system.
#[derive(Debug, Clone, Copy)]
struct Request {
    measured: Measured,
    remaining_ns: u64,
    request_type: RequestType,
    /// Whether it ran before.
    started: bool,
}

struct Engine<'a> {
    plan: &'a SimPlan,
    types: &'a TypeTable,
    scheduler: Box<dyn Scheduler>,
    switch: Option<&'a PolicySwitch>,
    requests: Slab<Request>,
    workers: Workers,
    /// `None` while they took no time or there was none.
    dispatchers: Option<Dispatchers>,
    /// Whether the policy has a dispatcher.
    dispatched: bool,
    classifier: Option<Xoshiro256PlusPlus>,
    recorder: Recorder,
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
    let mut engine = Engine {
        plan,
        types: &types,
        scheduler: policy.scheduler(&plan.setup(&types)),
        switch: plan.switch.as_ref(),
        requests: Slab::default(),
        workers: Workers::new(plan.workers),
        dispatchers: None,
        dispatched: true,
        classifier: (plan.classifier == ClassifierModel::Random)
            .then(|| Stream::Classifier.rng(plan.seed)),
        recorder: Recorder::new(plan),
        counts: Counts::default(),
        now_ns: 0,
    };
    engine.adopt(policy);
    engine.run(arrivals)?;
    engine.counts.interrupted = arrivals.interrupted();
    let last = engine.snapshot();
    let Engine {
        recorder, counts, ..
    } = engine;
    Ok(recorder.into_outcome(plan, counts, &last))
}

impl Engine<'_> {
    /// Charges costs as `policy` has them.
    fn adopt(&mut self, policy: &Policy) {
        let costs = &self.plan.costs;
        self.dispatched = has_dispatcher(policy);
        // What dispatchers have taken in stays with them.
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
            let next_ns = worker_ns.min(dispatcher_ns).min(arrival_ns);
            if next_ns == u64::MAX && self.recorder.in_system() == 0 {
                return Ok(());
            }
            if next_ns <= tick_ns {
                self.now_ns = next_ns;
                ticks_stranded = 0;
                if worker_ns == next_ns {
                    self.worker_free();
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
                        policy: self.plan.policy.clone(),
                        waiting: self.recorder.in_system(),
                    });
                }
                self.scheduler.on_event(self.now_ns, Event::Tick);
                self.poll();
            }
        }
    }

    /// The next request arrives.
    fn arrive(&mut self, arrivals: &mut Arrivals<'_>) {
        let Some(arrival) = arrivals.take() else {
            return;
        };
        let (scheduler, workers) = (&self.scheduler, &self.workers);
        let (now_ns, types) = (self.now_ns, self.types.len());
        let snapshot = || snapshot(now_ns, scheduler.as_ref(), workers, types);
        let measured = self.recorder.arrived(now_ns, snapshot);
        if arrivals.peek().is_none() {
            self.recorder.end(now_ns, snapshot());
        }
        let type_index = match &mut self.classifier {
            None => arrival.kind,
            Some(lots) => lots.random_range(0..self.types.len() as u32),
        };
        let request = self.requests.insert(Request {
            measured: Measured {
                arrived_ns: now_ns,
                service_ns: arrival.service_ns,
                kind: arrival.kind,
                measured,
            },
            remaining_ns: arrival.service_ns,
            request_type: RequestType::new(type_index),
            started: false,
        });
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

    /// A dispatcher has named a request's type.
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

    /// The scheduler hears of a request.
    fn enqueue(&mut self, request: u32) {
        let request_type = self.requests.get(request).request_type;
        let request = RequestId(request);
        let arrived = Event::Arrived {
            request,
            request_type,
        };
        self.scheduler.on_event(self.now_ns, arrived);
        self.poll();
    }

    /// A worker is done, or has stopped.
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
        if completed {
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
            };
            self.scheduler.on_event(self.now_ns, completed);
        } else {
            self.counts.preemptions += 1;
            self.requests.get_mut(request).remaining_ns -= served_ns;
            let yielded = Event::Yielded { worker, served_ns };
            self.scheduler.on_event(self.now_ns, yielded);
        }
        self.poll();
    }

    /// Does what the scheduler says, until it says nothing more.
    fn poll(&mut self) {
        while let Some(action) = self.scheduler.poll(self.now_ns) {
            match action {
                Action::Run {
                    worker,
                    request,
                    hand_off,
                    ..
                } => self.start(worker, request.0, hand_off),
                Action::Preempt { worker } => {
                    self.workers.preempt(self.now_ns, worker, &self.plan.costs);
                }
                Action::Reject { request, .. } => self.reject(request.0),
            }
        }
    }

    /// A request is on its way to a worker.
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
        if slot.started {
            starts_ns += costs.switch_ns;
        } else if !self.dispatched {
            starts_ns += costs.classify_ns;
        }
        if hand_off == HandOff::Stolen {
            self.counts.steals += 1;
            starts_ns += costs.steal_ns;
        }
        slot.started = true;
        let remaining_ns = slot.remaining_ns;
        self.workers
            .start(now_ns, worker, request, starts_ns, remaining_ns);
    }

    fn reject(&mut self, request: u32) {
        let Request { measured, .. } = self.requests.remove(request);
        self.recorder.rejected(self.now_ns, &measured);
    }

    /// Another policy takes over what waits and runs.
    fn switch_to(&mut self, policy: &Policy) {
        let backlog = self.scheduler.hand_over();
        self.scheduler = policy.scheduler(&self.plan.setup(self.types));
        self.scheduler.take_over(self.now_ns, backlog);
        self.adopt(policy);
        self.poll();
    }

    fn snapshot(&self) -> Snapshot {
        let types = self.types.len();
        snapshot(self.now_ns, self.scheduler.as_ref(), &self.workers, types)
    }
}

fn snapshot(now_ns: u64, scheduler: &dyn Scheduler, workers: &Workers, types: usize) -> Snapshot {
    let (served_ns, occupied_ns) = workers.spent_ns(now_ns);
    Snapshot {
        served_ns,
        occupied_ns,
        reservation_updates: scheduler.reservation_updates(),
        workers_reserved: (0..types)
            .map(|slot| scheduler.type_status(slot).workers_reserved)
            .collect(),
    }
}
