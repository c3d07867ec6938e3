//! The event loop that drives servers in virtual time: one, or several behind a load balancer.
//!
//! ```text
//!   arrivals ─► balancer ─► servers ─► recorder
//!               (if there       │
//!                are several)   └─► agenda: when each has its next event or tick
//! ```
//!
//! At the same nanosecond the servers' own events come first, then arrivals, then ticks.

use psp_policy::{Policy, RequestType, Scheduler, TypeTable};
use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;

use super::agenda::Agenda;
use super::arrivals::{Arrival, Arrivals, Stream};
use super::balancer::Balancer;
use super::outcome::Outcome;
use super::plan::{ClassifierModel, PolicySwitch, SimError, SimPlan};
use super::recorder::{Counts, Measured, Recorder};
use super::retries::{Attempt, Retries};
use super::server::Server;
use super::snapshot::Snapshot;
use super::tape::Tape;
use crate::workload::Workload;

/// Ticks of a server in a row, with nothing running and nothing to arrive, after which the waiting requests are
/// stranded: windows of a minute have closed by then.
const TICKS_STRANDED: u64 = 60_000;

struct Engine<'a> {
    plan: &'a SimPlan,
    types: &'a TypeTable,
    servers: Vec<Server<'a>>,
    agenda: Agenda,
    /// `None` in front of a single server.
    balancer: Option<Balancer>,
    switch: Option<&'a PolicySwitch>,
    classifier: Option<Xoshiro256PlusPlus>,
    /// `None` if clients never ask again.
    retries: Option<Retries>,
    recorder: Recorder,
    now_ns: u64,
}

/// Simulates a policy of live servers.
pub(super) fn simulate(plan: &SimPlan, policy: &Policy, arrivals: &mut Arrivals<'_>) -> Result<Outcome, SimError> {
    let types = plan.type_table();
    let scheduler = |server| policy.scheduler(&plan.setup(&types).seed(plan.seed_of(server)));
    let mut engine = Engine::new(plan, &types, scheduler, policy.has_dispatcher());
    engine.run(arrivals)?;
    Ok(engine.into_outcome(arrivals.interrupted()))
}

impl<'a> Engine<'a> {
    fn new(
        plan: &'a SimPlan,
        types: &'a TypeTable,
        scheduler: impl Fn(usize) -> Box<dyn Scheduler>,
        dispatched: bool,
    ) -> Self {
        let cluster = plan.cluster;
        let random = plan.classifier == ClassifierModel::Random;
        let server = |index| {
            let tape = plan.trace.filter(|_| index == 0).map(Tape::new);
            let seed = plan.seed_of(index);
            Server::new(plan, types, scheduler(index), dispatched, seed).on_tape(tape)
        };
        let servers: Vec<Server<'a>> = (0..cluster.servers).map(server).collect();
        let mut agenda = Agenda::new(servers.len());
        for (index, server) in servers.iter().enumerate() {
            agenda.set(index, server.event_ns(), server.tick_ns());
        }
        Self {
            plan,
            types,
            servers,
            agenda,
            balancer: (cluster.servers > 1).then(|| Balancer::new(cluster, plan.seed)),
            switch: plan.switch.as_ref(),
            classifier: random.then(|| Stream::Classifier.rng(plan.seed)),
            retries: Retries::new(plan),
            recorder: Recorder::new(plan),
            now_ns: 0,
        }
    }

    fn run(&mut self, arrivals: &mut Arrivals<'_>) -> Result<(), SimError> {
        let ticks_max = TICKS_STRANDED * self.servers.len() as u64;
        let mut ticks_stranded = 0;
        loop {
            let (event_ns, server) = self.agenda.next_event();
            let again_ns = self.retries.as_ref().map_or(u64::MAX, Retries::next_ns);
            let next_ns = event_ns.min(arrivals.next_ns()).min(again_ns);
            if next_ns == u64::MAX && self.recorder.in_system() == 0 {
                return Ok(());
            }
            let (tick_ns, ticking) = self.agenda.next_tick();
            if next_ns <= tick_ns {
                self.now_ns = next_ns;
                ticks_stranded = 0;
                if event_ns == next_ns {
                    self.servers[server].proceed(next_ns, &mut self.recorder);
                    self.note(server);
                } else if again_ns == next_ns {
                    self.ask_again();
                } else {
                    self.arrive(arrivals);
                }
            } else {
                self.now_ns = tick_ns.max(self.now_ns);
                ticks_stranded += 1;
                if ticks_stranded > ticks_max && next_ns == u64::MAX {
                    return Err(SimError::Stranded {
                        policy: Box::new(self.plan.policy.clone()),
                        waiting: self.recorder.in_system(),
                    });
                }
                self.servers[ticking].tick(tick_ns, &mut self.recorder);
                self.note(ticking);
            }
            self.hear_of_ends();
        }
    }

    /// Something happened at a server.
    #[inline]
    fn note(&mut self, index: usize) {
        let server = &self.servers[index];
        self.agenda.set(index, server.event_ns(), server.tick_ns());
        if let Some(balancer) = &mut self.balancer {
            balancer.report(self.now_ns, index, server.in_system());
        }
    }

    /// The next request arrives.
    fn arrive(&mut self, arrivals: &mut Arrivals<'_>) {
        let Some(arrival) = arrivals.take() else {
            return;
        };
        let (now_ns, servers) = (self.now_ns, &self.servers);
        let measured = self.recorder.arrived(now_ns, || snapshot(now_ns, servers));
        if arrivals.peek().is_none() {
            self.recorder.end(now_ns, snapshot(now_ns, servers));
            if let Some(retries) = &mut self.retries {
                retries.end();
            }
        }
        self.send(&Attempt { arrival, tries: 0, measured });
    }

    /// What clients do that gave up or were refused.
    fn ask_again(&mut self) {
        let now_ns = self.now_ns;
        if let Some(attempt) = self.retries.as_mut().and_then(|retries| retries.take(now_ns)) {
            let servers = &self.servers;
            self.recorder.arrived_again(now_ns, attempt.measured, || snapshot(now_ns, servers));
            self.send(&attempt);
        }
    }

    /// Clients hear of the requests that have left.
    fn hear_of_ends(&mut self) {
        let Some(retries) = &mut self.retries else {
            return;
        };
        while let Some(ended) = self.recorder.take_ended() {
            retries.ended(self.now_ns, ended.serial, ended.is_done);
        }
    }

    /// A client sends a request.
    fn send(&mut self, attempt: &Attempt) {
        let Attempt { arrival, measured, .. } = *attempt;
        let now_ns = self.now_ns;
        let type_index = match &mut self.classifier {
            None => arrival.kind,
            Some(rng) => rng.random_range(0..self.types.len() as u32),
        };
        if let Some(switch) = self.switch
            && self.recorder.measured() > switch.at_request
        {
            self.switch_to(&switch.policy);
            self.switch = None;
        }
        let server = match &mut self.balancer {
            None => 0,
            Some(balancer) => balancer.choose(now_ns),
        };
        let request = Measured {
            arrived_ns: now_ns,
            service_ns: arrival.service_ns,
            wait_ns: arrival.wait_ns,
            kind: arrival.kind,
            measured,
            priority: arrival.priority,
            tenant: arrival.tenant,
            ..self.promised(attempt)
        };
        let request_type = RequestType::new(type_index);
        self.servers[server].arrive(request, request_type, &mut self.recorder);
        self.note(server);
    }

    /// What the client of a request waits for: the request's deadline and its number.
    fn promised(&mut self, attempt: &Attempt) -> Measured {
        let Workload { types, clients, .. } = &self.plan.workload;
        let Arrival { kind, .. } = attempt.arrival;
        let timeout_ns = clients.timeout_ns(types[kind as usize].service_ns);
        let deadline_ns = timeout_ns.filter(|_| clients.deadline).map(|ns| self.now_ns.saturating_add(ns));
        let retries = self.retries.as_mut();
        let serial = retries.map_or(0, |retries| retries.sent(self.now_ns, *attempt, timeout_ns));
        Measured { deadline_ns, serial, ..Measured::default() }
    }

    /// Another policy takes over all waiting and running requests.
    fn switch_to(&mut self, policy: &Policy) {
        for index in 0..self.servers.len() {
            self.servers[index].switch_to(self.now_ns, policy, &mut self.recorder);
            self.note(index);
        }
    }

    fn into_outcome(self, interrupted: bool) -> Outcome {
        let last = snapshot(self.now_ns, &self.servers);
        let counts = Counts {
            preemptions: self.servers.iter().map(Server::preemptions).sum(),
            steals: self.servers.iter().map(Server::steals).sum(),
            interrupted,
        };
        let mut outcome = self.recorder.into_outcome(self.plan, counts, &last);
        // That of the first server.
        let traces = self.servers.into_iter();
        outcome.trace = { traces }.find_map(|server| server.into_trace(self.now_ns));
        outcome
    }
}

/// The time of all workers of all servers.
fn snapshot(now_ns: u64, servers: &[Server<'_>]) -> Snapshot {
    let mut snapshot = Snapshot::default();
    for server in servers {
        server.add_to(now_ns, &mut snapshot);
    }
    snapshot
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::ops::ControlFlow;

    use psp_policy::{Action, Event, HandOff, RequestId, WorkerId};

    use super::*;
    use crate::workload::ArrivalProcess;

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
                Event::Arrived { request, request_type, .. } => self.waiting.push_back((request, request_type)),
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
                return Some(Action::Preempt { worker, quantum_ns: QUANTUM_NS });
            }
            self.running = self.waiting.pop_front();
            let (request, request_type) = self.running?;
            self.ends_ns = Some(now_ns + QUANTUM_NS);
            Some(Action::Run { worker, request, request_type, hand_off: HandOff::Own })
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
        let mut engine = Engine::new(&plan, &types, |_| Box::new(Turns::default()), false);
        engine.run(&mut arrivals).unwrap();
        engine.into_outcome(false)
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
