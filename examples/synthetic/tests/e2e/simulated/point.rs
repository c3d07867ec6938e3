//! One comparison: a workload at a load under a policy, live and simulated.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use psp_loadgen::record::Stalls;
use psp_server::telemetry::Snapshot;
use psp_server::{Policy, PreemptPolicy, Topology};
use psp_sim::simulator;
use psp_sim::simulator::{Outcome, SimPlan, SimRequest};
use psp_sim::workload::Workload;
use psp_synthetic::config::Config;
use psp_synthetic::handler::Mode;
use psp_synthetic::startup;

use super::client::{Exchange, SOCKET_HOLDS, connected, exchange};
use super::compared::Compared;
use super::sockets;

/// Workers of every server.
pub(super) const WORKERS: usize = 14;
/// Longest stall of the machine during a request, as a fraction of its simulated latency.
const STALLED_MAX: f64 = 0.1;
/// Time from the decision to preempt until the worker is free: the worker sleeps, and must be woken.
const PROPAGATION_NS: u64 = 100_000;

/// What is compared.
#[derive(Debug, Clone)]
pub(super) struct Point {
    pub(super) workload: &'static str,
    /// Factor by which the client multiplies service times. Quanta are multiplied as well.
    pub(super) dilation: u32,
    /// Further factor, by which the server multiplies run times.
    pub(super) stretch: u32,
    pub(super) load: f64,
    pub(super) measured_s: f64,
    pub(super) policy: Policy,
    pub(super) topology: Topology,
    /// Requests of one type that may wait.
    pub(super) queue_capacity: usize,
    /// Flows of the requests, if workers receive for themselves.
    pub(super) flows: Option<usize>,
    /// Whether others drive the socket of a worker that runs a request, in that case.
    pub(super) sockets_move: bool,
    pub(super) preempt: PreemptPolicy,
    /// Of requests and receivers.
    pub(super) seed: u64,
}

/// The time of one request, before dilation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Latency {
    pub(super) service_us: f64,
    pub(super) latency_us: f64,
}

/// Of the requests of each type.
pub(super) type Latencies = Vec<Vec<Latency>>;

impl Latency {
    pub(super) fn slowdown(self) -> f64 {
        self.latency_us / self.service_us
    }
}

/// What a live server did.
pub(super) struct Live {
    pub(super) exchange: Exchange,
    /// Its counters when the last request had been sent.
    pub(super) counters: Snapshot,
    /// Time from the first request until then.
    pub(super) lasted: Duration,
}

impl Point {
    /// Factor by which all times are multiplied.
    pub(super) const fn factor(&self) -> u32 {
        self.dilation * self.stretch
    }

    pub(super) fn plan(&self) -> SimPlan {
        let workload = Workload::named(self.workload).unwrap();
        let mut workload = workload.dilated(self.dilation).unwrap();
        for ty in &mut workload.types {
            ty.service_ns *= u64::from(self.stretch);
        }
        let plan = SimPlan::new(workload, self.policy.clone(), WORKERS, self.load);
        let requests = plan.offered_rps() * self.measured_s;
        let mut plan = plan.requests(requests as u64);
        plan.seed = self.seed;
        plan.preemption = true;
        plan.migrates = false;
        plan.contexts = Some(psp_server::Config::default().contexts() - 1);
        plan.costs.propagation_ns = PROPAGATION_NS;
        plan.queue_capacity = self.queue_capacity;
        plan.hints = true;
        plan.flows = self.flows;
        plan.each = true;
        plan
    }

    fn config(&self) -> Config {
        let server = psp_server::Config::default();
        let long_us = if self.sockets_move { server.long_us } else { 0 };
        // As long for dilated requests: workers that receive for themselves would share their time among these.
        let net_budget_us = server.net_budget_us * u64::from(self.factor());
        Config {
            port: 0,
            mode: Mode::Sleep,
            workload: self.workload.to_owned(),
            hints: true,
            dilate: self.dilation,
            stretch: self.stretch,
            policy: self.policy.clone(),
            server: server
                .workers(WORKERS)
                .topology(self.topology)
                .queue_capacity(self.queue_capacity)
                // Each worker has a buffer for each place in its queues.
                .datagram_bytes_max(64)
                .long_us(long_us)
                .net_budget_us(net_budget_us)
                .preempt(self.preempt)
                .background_nice(0),
            ..Config::default()
        }
    }

    /// The requests, warm-up included.
    pub(super) fn requests(&self) -> Vec<SimRequest> {
        simulator::requests(&self.plan()).unwrap()
    }

    /// Sends the requests to a live server.
    pub(super) fn live(&self) -> Live {
        let server = startup::build(self.config()).unwrap().spawn().unwrap();
        let (handle, address) = (server.handle(), server.local_addrs()[0]);
        // Before the server reads, requests that a socket cannot hold would be lost.
        let sockets = if self.flows.is_some() {
            sockets::of_workers(handle, address)
        } else {
            let socket = connected(address);
            sockets::probe(handle, &socket);
            vec![socket]
        };
        let requests = self.requests();
        let started = Instant::now();
        let mut at_end = None;
        let sent = || at_end = Some((handle.snapshot(), started.elapsed()));
        let window = self.present_max().max(SOCKET_HOLDS);
        let exchange = exchange(&sockets, &requests, self.stretch, window, sent);
        let (counters, lasted) = at_end.unwrap();
        server.shut_down();
        server.join().unwrap();
        let answered = exchange.latency.iter().flatten().count();
        assert_eq!(answered, requests.len(), "{self:?}");
        Live { exchange, counters, lasted }
    }

    fn simulate(&self) -> Outcome {
        let plan = self.plan();
        let outcome = simulator::simulate(&plan, &mut |_| ControlFlow::Continue(())).unwrap();
        assert_eq!(outcome.rejected, 0, "{self:?}");
        outcome
    }

    /// The simulation, and the latencies of all requests after the warm-up.
    pub(super) fn simulated(&self) -> (Outcome, Latencies) {
        let plan = self.plan();
        let outcome = self.simulate();
        let simulated_ns = by_arrival(&outcome);
        let mut latencies = vec![Vec::new(); plan.workload.types.len()];
        for request in self.requests().iter().skip(plan.warmup as usize) {
            let latency_ns = simulated_ns[&request.at_ns];
            latencies[request.kind as usize].push(self.undilated(request, latency_ns as f64));
        }
        (outcome, latencies)
    }

    /// Time from the first arrival to the last completion in the simulation.
    pub(super) fn simulated_end(&self) -> Duration {
        let each = self.simulate().each;
        let ends = each.iter().map(|it| it.arrived_ns + it.latency_ns);
        Duration::from_nanos(ends.max().unwrap_or(0))
    }

    /// Most requests that are present at a time in the simulation.
    fn present_max(&self) -> usize {
        let each = self.simulate().each;
        let mut changes: Vec<_> = each
            .iter()
            .flat_map(|it| [(it.arrived_ns, 1), (it.arrived_ns + it.latency_ns, -1)])
            .collect();
        changes.sort_unstable();
        let present = changes.into_iter().scan(0_usize, |present, (_, change)| {
            *present = present.checked_add_signed(change)?;
            Some(*present)
        });
        present.max().unwrap_or(0)
    }

    fn undilated(&self, request: &SimRequest, latency_ns: f64) -> Latency {
        let ns_of_us = f64::from(self.factor()) * 1e3;
        Latency {
            service_us: request.service_ns as f64 / ns_of_us,
            latency_us: latency_ns / ns_of_us,
        }
    }

    /// Compared of the requests without a long stall, on the live server and in the simulation.
    pub(super) fn compare(&self, live: Live, stalls: &Stalls) -> Compared<'_> {
        let Live { exchange, counters, lasted } = live;
        let plan = self.plan();
        let outcome = self.simulate();
        let simulated_ns = by_arrival(&outcome);

        let kinds = plan.workload.types.len();
        let (mut of_live, mut of_simulated) = (vec![Vec::new(); kinds], vec![Vec::new(); kinds]);
        let mut of_all = vec![Vec::new(); kinds];
        let mut latencies = [vec![Vec::new(); kinds], vec![Vec::new(); kinds]];
        let requests = self.requests();
        for (index, request) in requests.iter().enumerate().skip(plan.warmup as usize) {
            let kind = request.kind as usize;
            let service_s = request.service_ns as f64 / 1e9;
            let (due, latency) = (exchange.due[index], exchange.latency[index].unwrap());
            let stalled_s = stalls.within(due, due + latency).as_secs_f64();
            let simulated_s = simulated_ns[&request.at_ns] as f64 / 1e9;
            let slowdown = latency.as_secs_f64() / service_s;
            of_all[kind].push(slowdown);
            if stalled_s <= simulated_s * STALLED_MAX {
                of_live[kind].push(slowdown);
                of_simulated[kind].push(simulated_s / service_s);
                for (of_side, latency_s) in latencies.iter_mut().zip([latency.as_secs_f64(), simulated_s]) {
                    of_side[kind].push(self.undilated(request, latency_s * 1e9));
                }
            }
        }
        for of_types in [&mut of_live, &mut of_simulated, &mut of_all] {
            of_types.iter_mut().for_each(|it| it.sort_unstable_by(f64::total_cmp));
        }
        Compared {
            point: self,
            all: of_all,
            live: of_live,
            simulated: of_simulated,
            latencies,
            counters,
            lasted,
            outcome,
        }
    }
}

/// The latencies of a simulation, by the times of arrival.
fn by_arrival(outcome: &Outcome) -> HashMap<u64, u64> {
    let each = outcome.each.iter();
    let latency_ns: HashMap<_, _> = each.map(|it| (it.arrived_ns, it.latency_ns)).collect();
    assert_eq!(latency_ns.len(), outcome.each.len(), "two requests arrive at the same time");
    latency_ns
}
