//! Live servers beside the simulator: the same requests at the same times, under the same policies.
//!
//! Service times are dilated, by the client, and by the server's `stretch` where the header is too narrow for what
//! the client would have to say, and workers sleep for them, so that 14 of them, and several servers, share
//! the cores there are. What is left of the machine is its noise. The long comparison, which looks at p99.9,
//! dilates so much that a pause of a millisecond is nothing, and leaves requests out, on both sides, in whose
//! time the machine stood still for longer.
//!
//! ```text
//!   SimPlan ──► requests ──► client ──► psp-synthetic ──► latency of each ──┐
//!      │                                 witnesses ──► stalls ─────────────► slowdowns
//!      └──────► simulate ───────────────────────────────► latency of each ──┘
//! ```

mod client;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::net::{SocketAddr, UdpSocket};
use std::ops::ControlFlow;
use std::thread;
use std::time::{Duration, Instant};

use psp_loadgen::sim::{self, SimPlan};
use psp_loadgen::stalls::{Stalls, Witnesses};
use psp_loadgen::workload::Workload;
use psp_server::policy::{Mq, Policy};
use psp_server::{ServerHandle, Shutdown, Topology};
use psp_synthetic::config::Config;
use psp_synthetic::handler::Mode;
use psp_synthetic::startup;

use client::{Exchange, exchange};

const WORKERS: usize = 14;
const QUEUE_CAPACITY: usize = 8192;
/// By how much live and simulated figures may differ, as a part of the simulated one.
const DIFFERENCE_MAX: f64 = 0.25;
/// For how much of what it takes in the simulation the machine may stand still while a request is in the server.
const STALLED_MAX: f64 = 0.1;
/// Share of each type's requests that must be left.
const LEFT_MIN: f64 = 0.2;
/// A point that differs is measured again, alone: a pause of the machine passes.
const ATTEMPTS: usize = 2;
/// Long enough for any machine; reached only when a test fails.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time from the decision to preempt to the freed worker: it sleeps, and is woken.
const PROPAGATION_NS: u64 = 100_000;

#[derive(Debug, Clone)]
struct Point {
    workload: &'static str,
    /// Factor of all service times, quanta included, which the client knows of.
    dilation: u32,
    /// The same, which only the server knows of.
    stretch: u32,
    load: f64,
    measured_s: f64,
    policy: Policy,
}

/// A percentile of each type's slowdowns.
type Slowdowns = Vec<f64>;

/// The four policies; quanta are 5 us times `factor`.
fn policies(factor: u32) -> [Policy; 4] {
    let quantum_us = 5.0 * f64::from(factor);
    [
        Policy::c_fcfs(),
        Policy::darc(),
        Mq::default().quantum_us(quantum_us).into(),
        Policy::darc_lending(),
    ]
}

fn points(workload: &'static str, dilation: u32, stretch: u32, measured_s: f64) -> Vec<Point> {
    let loads = [0.5, 0.8].into_iter();
    loads
        .flat_map(|load| policies(dilation * stretch).map(|policy| (load, policy)))
        .map(|(load, policy)| Point {
            workload,
            dilation,
            stretch,
            load,
            measured_s,
            policy,
        })
        .collect()
}

impl Point {
    fn plan(&self) -> SimPlan {
        let workload = Workload::named(self.workload).unwrap();
        let mut workload = workload.dilated(self.dilation).unwrap();
        for ty in &mut workload.types {
            ty.service_ns *= u64::from(self.stretch);
        }
        let plan = SimPlan::new(workload, self.policy.clone(), WORKERS, self.load);
        let requests = plan.offered_rps() * self.measured_s;
        let mut plan = plan.requests(requests as u64);
        plan.seed = 11;
        plan.preemption = true;
        plan.migrates = false;
        plan.contexts = Some(psp_server::Config::default().contexts_per_worker - 1);
        plan.costs.propagation_ns = PROPAGATION_NS;
        plan.queue_capacity = QUEUE_CAPACITY;
        plan.hints = true;
        plan.each = true;
        plan
    }

    /// What a live server does with the requests.
    fn live(&self) -> Exchange {
        let server = startup::build(Config {
            port: 0,
            mode: Mode::Sleep,
            workload: self.workload.to_owned(),
            hints: true,
            dilate: self.dilation,
            stretch: self.stretch,
            policy: self.policy.clone(),
            server: psp_server::Config {
                workers: Some(WORKERS),
                topology: Topology::Dedicated,
                queue_capacity: QUEUE_CAPACITY,
                background_nice: 0,
                ..psp_server::Config::default()
            },
            ..Config::default()
        })
        .unwrap();
        let handle = server.handle();
        let address = server.local_addrs()[0];
        let shutdown = Shutdown::new();
        let stopper = shutdown.clone();
        let serving = thread::spawn(move || server.run_until(&shutdown).unwrap());
        until_served(&handle, address);
        let requests = sim::requests(&self.plan()).unwrap();
        let exchange = exchange(address, &requests, self.stretch);
        stopper.trigger();
        serving.join().unwrap();
        let answered = exchange.latency.iter().flatten().count();
        assert_eq!(answered, requests.len(), "{self:?}");
        exchange
    }

    /// Slowdowns of the live server's measured requests, and of the same ones in the simulation, which
    /// are those that no stall touched.
    fn compare(&self, live: &Exchange, stalls: &Stalls, quantile: f64) -> Found<'_> {
        let plan = self.plan();
        let outcome = sim::simulate(&plan, &mut |_| ControlFlow::Continue(())).unwrap();
        assert_eq!(outcome.rejected, 0, "{self:?}");
        let each = outcome.each.iter();
        let simulated_ns: HashMap<_, _> = each.map(|it| (it.arrived_ns, it.latency_ns)).collect();
        assert_eq!(simulated_ns.len(), outcome.each.len(), "arrivals at once");

        let kinds = plan.workload.types.len();
        let (mut of_live, mut of_simulated) = (vec![Vec::new(); kinds], vec![Vec::new(); kinds]);
        let mut of_all = vec![Vec::new(); kinds];
        let requests = sim::requests(&plan).unwrap();
        for (index, request) in requests.iter().enumerate().skip(plan.warmup as usize) {
            let kind = request.kind as usize;
            let service_s = request.service_ns as f64 / 1e9;
            let (due, latency) = (live.due[index], live.latency[index].unwrap());
            let stalled_s = stalls.within(due, due + latency).as_secs_f64();
            let simulated_s = simulated_ns[&request.at_ns] as f64 / 1e9;
            let slowdown = latency.as_secs_f64() / service_s;
            of_all[kind].push(slowdown);
            if stalled_s <= simulated_s * STALLED_MAX {
                of_live[kind].push(slowdown);
                of_simulated[kind].push(simulated_s / service_s);
            }
        }
        let left = of_live.iter().zip(&of_all);
        Found {
            point: self,
            left: left
                .map(|(left, all)| left.len() as f64 / all.len() as f64)
                .collect(),
            all: of_all.into_iter().map(|it| at(quantile, it)).collect(),
            live: of_live.into_iter().map(|it| at(quantile, it)).collect(),
            simulated: of_simulated
                .into_iter()
                .map(|it| at(quantile, it))
                .collect(),
        }
    }
}

/// A quantile of what there is; infinite where there is nothing.
fn at(quantile: f64, mut of: Vec<f64>) -> f64 {
    of.sort_unstable_by(f64::total_cmp);
    let rank = (of.len() as f64 * quantile).ceil() as usize;
    rank.checked_sub(1).map_or(f64::INFINITY, |index| of[index])
}

/// Waits until the net thread reads: what a socket cannot hold until then would be lost.
fn until_served(server: &ServerHandle, address: SocketAddr) {
    let probe = UdpSocket::bind("127.0.0.1:0").unwrap();
    probe.send_to(b"?", address).unwrap();
    let deadline = Instant::now() + PATIENCE;
    while server.snapshot().net.malformed == 0 {
        assert!(Instant::now() < deadline, "the server does not start");
        thread::sleep(Duration::from_millis(1));
    }
}

/// The largest difference, as a part of what was simulated.
fn difference(live: &Slowdowns, simulated: &Slowdowns) -> f64 {
    let parts = live.iter().zip(simulated);
    parts
        .map(|(live, simulated)| (live / simulated - 1.0).abs())
        .fold(0.0, f64::max)
}

/// What was found at one point.
struct Found<'p> {
    point: &'p Point,
    /// Share of each type's requests that no stall touched.
    left: Vec<f64>,
    /// Of all requests.
    all: Slowdowns,
    live: Slowdowns,
    simulated: Slowdowns,
}

impl Found<'_> {
    fn difference(&self) -> f64 {
        difference(&self.live, &self.simulated)
    }

    fn differs(&self) -> bool {
        self.difference() > DIFFERENCE_MAX || self.left.iter().any(|left| *left < LEFT_MIN)
    }
}

/// Measures all points at the same time.
fn measure<'p>(points: impl Iterator<Item = &'p Point>, quantile: f64) -> Vec<Found<'p>> {
    let witnesses = Witnesses::start()
        .inspect_err(|error| eprintln!("stalls go unnoticed: {error}"))
        .ok();
    let lives: Vec<_> = thread::scope(|scope| {
        let runs = points.map(|point| (point, scope.spawn(move || point.live())));
        let runs: Vec<_> = runs.collect();
        let joined = runs.into_iter();
        joined
            .map(|(point, run)| (point, run.join().unwrap()))
            .collect()
    });
    let stalls = witnesses.map(Witnesses::stop).unwrap_or_default();
    lives
        .iter()
        .map(|(point, live)| point.compare(live, &stalls, quantile))
        .collect()
}

fn table(found: &[Found<'_>], quantile: f64) -> String {
    let percent = quantile * 100.0;
    let mut table = format!("p{percent} slowdown of each type, live / simulated (requests left)\n");
    for it in found {
        let Point {
            workload,
            dilation,
            stretch,
            load,
            policy,
            ..
        } = it.point;
        let factor = dilation * stretch;
        write!(table, "{workload} x{factor} {load:.1} {policy:14}").unwrap();
        for ((live, simulated), left) in it.live.iter().zip(&it.simulated).zip(&it.left) {
            let left = left * 100.0;
            write!(table, " {live:8.2} /{simulated:8.2} ({left:3.0} %)").unwrap();
        }
        writeln!(table, "  differ by {:4.1} %", it.difference() * 100.0).unwrap();
    }
    println!("{table}");
    table
}

/// MQ and lending keep short requests fast where c-FCFS does not.
fn assert_protection(found: &[Found<'_>], table: &str) {
    let short_at_80 = |workload: &str, name: &str| {
        let wanted = |it: &&Found<'_>| {
            let point = it.point;
            (point.workload, point.load, point.policy.name()) == (workload, 0.8, name)
        };
        found.iter().find(wanted).unwrap().all[0]
    };
    let mut workloads: Vec<_> = found.iter().map(|it| it.point.workload).collect();
    workloads.dedup();
    for workload in workloads {
        for policy in ["mq", "darc-lending"] {
            let ratio = short_at_80(workload, "c-fcfs") / short_at_80(workload, policy);
            assert!(ratio > 2.0, "{workload} {policy} {ratio}\n{table}");
        }
    }
}

/// Live and simulated figures agree. Points that differ are measured again.
fn assert_agreement(mut found: Vec<Found<'_>>, quantile: f64) {
    for _ in 1..ATTEMPTS {
        let differ: Vec<_> = (0..found.len()).filter(|&at| found[at].differs()).collect();
        let again = measure(differ.iter().map(|&at| found[at].point), quantile);
        for (at, again) in differ.into_iter().zip(again) {
            found[at] = again;
        }
    }
    let table = table(&found, quantile);
    assert!(!found.iter().any(Found::differs), "{table}");
}

#[test]
fn live_preemption_keeps_short_requests_fast_where_c_fcfs_does_not() {
    let points = points("high-bimodal", 4000, 1, 20.0);
    // The p99.9 of so few requests would be the slowest of them.
    let found = measure(points.iter(), 0.99);
    assert_protection(&found, &table(&found, 0.99));
}

#[test]
#[ignore = "takes ten to twenty minutes, and needs the machine for itself"]
fn live_servers_do_what_the_simulator_says() {
    let points = [
        points("high-bimodal", 20_000, 1, 600.0),
        points("extreme-bimodal", 8_000, 10, 600.0),
    ]
    .concat();
    let found = measure(points.iter(), 0.999);
    assert_protection(&found, &table(&found, 0.999));
    assert_agreement(found, 0.999);
}
