//! Live servers beside the simulator: the same requests at the same times, under the same policies.
//!
//! Workers sleep for the service time of a request, so that 14 workers and several servers share any number of
//! cores. Service times are dilated, to make the machine's noise small: by the client, and by the server's
//! `stretch` where the header is too narrow. Both comparisons leave out requests, live and simulated, during which
//! the machine stalled. The short one looks at percentiles with enough requests beyond them, and allows for the lag
//! of the machine. The long one looks at p99.9, and dilates so much that a stall of a millisecond does not matter.
//!
//! ```text
//!   SimPlan ──► requests ──► client ──► psp-synthetic ──► latency of each ──┐
//!      │                                 witnesses ──► stalls ─────────────► slowdowns
//!      └──────► simulate ───────────────────────────────► latency of each ──┘
//! ```

pub(crate) mod client;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::net::{SocketAddr, UdpSocket};
use std::ops::ControlFlow;
use std::thread;
use std::time::{Duration, Instant};

use psp_loadgen::record::{Stalls, Witnesses};
use psp_server::Policy;
use psp_server::{ServerHandle, Shutdown, Topology};
use psp_sim::simulator;
use psp_sim::simulator::SimPlan;
use psp_sim::workload::Workload;
use psp_synthetic::config::Config;
use psp_synthetic::handler::Mode;
use psp_synthetic::startup;

use crate::lag::{LAGS, with_lag_ns};
use client::{Exchange, exchange};

const WORKERS: usize = 14;
const QUEUE_CAPACITY: usize = 8192;
/// Largest difference between live and simulated figures, as a fraction of the simulated figure.
const DIFFERENCE_MAX: f64 = 0.25;
/// Longest stall of the machine during a request, as a fraction of its simulated latency.
const STALLED_MAX: f64 = 0.1;
/// Smallest share of each type's requests that must remain without a stall.
const LEFT_MIN: f64 = 0.2;
/// Most measurements of a point. A point that differs is measured again, because stalls of the machine pass.
const ATTEMPTS: usize = 2;
/// The same for the short comparison.
const SHORT_ATTEMPTS: usize = 4;
/// Percentiles of the short comparison.
const QUANTILES: [f64; 3] = [0.5, 0.9, 0.99];
/// Requests beyond a percentile, from which the short comparison looks at it.
const BEYOND_MIN: f64 = 8.0;
/// Longest wait. It is long enough for any machine, so that only failing tests reach it.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time from the decision to preempt until the worker is free: the worker sleeps, and must be woken.
const PROPAGATION_NS: u64 = 100_000;

#[derive(Debug, Clone)]
struct Point {
    workload: &'static str,
    /// Factor by which the client multiplies service times. Quanta are multiplied as well.
    dilation: u32,
    /// Further factor, by which the server multiplies run times.
    stretch: u32,
    load: f64,
    measured_s: f64,
    policy: Policy,
}

/// The four policies; quanta are 5 us times `factor`.
fn policies(factor: u32) -> [Policy; 4] {
    let quantum_us = 5.0 * f64::from(factor);
    [
        Policy::c_fcfs(),
        Policy::darc(),
        Policy::mq().quantum_us(quantum_us),
        Policy::darc_lending(),
    ]
}

fn points(
    loads: &[f64],
    workload: &'static str,
    dilation: u32,
    stretch: u32,
    measured_s: f64,
) -> Vec<Point> {
    let loads = loads.iter();
    loads
        .flat_map(|&load| policies(dilation * stretch).map(|policy| (load, policy)))
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
        plan.contexts = Some(psp_server::Config::default().contexts() - 1);
        plan.costs.propagation_ns = PROPAGATION_NS;
        plan.queue_capacity = QUEUE_CAPACITY;
        plan.hints = true;
        plan.each = true;
        plan
    }

    /// Sends the requests to a live server.
    fn live(&self) -> Exchange {
        let server = startup::build(Config {
            port: 0,
            mode: Mode::Sleep,
            workload: self.workload.to_owned(),
            hints: true,
            dilate: self.dilation,
            stretch: self.stretch,
            policy: self.policy.clone(),
            server: psp_server::Config::default()
                .workers(WORKERS)
                .topology(Topology::Dedicated)
                .queue_capacity(QUEUE_CAPACITY)
                .background_nice(0),
            ..Config::default()
        })
        .unwrap();
        let handle = server.handle();
        let address = server.local_addrs()[0];
        let shutdown = Shutdown::new();
        let stopper = shutdown.clone();
        let serving = thread::spawn(move || server.run_until(&shutdown).unwrap());
        until_served(&handle, address);
        let requests = simulator::requests(&self.plan()).unwrap();
        let exchange = exchange(address, &requests, self.stretch, usize::MAX);
        stopper.trigger();
        serving.join().unwrap();
        let answered = exchange.latency.iter().flatten().count();
        assert_eq!(answered, requests.len(), "{self:?}");
        exchange
    }

    /// Slowdowns of the requests without a long stall, on the live server and in the simulation.
    fn compare(&self, live: &Exchange, stalls: &Stalls) -> Slowdowns<'_> {
        let plan = self.plan();
        let outcome = simulator::simulate(&plan, &mut |_| ControlFlow::Continue(())).unwrap();
        assert_eq!(outcome.rejected, 0, "{self:?}");
        let each = outcome.each.iter();
        let simulated_ns: HashMap<_, _> = each.map(|it| (it.arrived_ns, it.latency_ns)).collect();
        assert_eq!(
            simulated_ns.len(),
            outcome.each.len(),
            "two requests arrive at the same time"
        );

        let kinds = plan.workload.types.len();
        let (mut of_live, mut of_simulated) = (vec![Vec::new(); kinds], vec![Vec::new(); kinds]);
        let mut of_all = vec![Vec::new(); kinds];
        let requests = simulator::requests(&plan).unwrap();
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
        for of_types in [&mut of_live, &mut of_simulated, &mut of_all] {
            of_types
                .iter_mut()
                .for_each(|it| it.sort_unstable_by(f64::total_cmp));
        }
        Slowdowns {
            point: self,
            all: of_all,
            live: of_live,
            simulated: of_simulated,
        }
    }
}

/// A quantile of ascending values; infinite if there are none.
fn at(quantile: f64, of: &[f64]) -> f64 {
    let rank = (of.len() as f64 * quantile).ceil() as usize;
    rank.checked_sub(1).map_or(f64::INFINITY, |index| of[index])
}

/// Waits until the net thread reads. Before that, requests that the socket cannot hold would be lost.
fn until_served(server: &ServerHandle, address: SocketAddr) {
    let probe = UdpSocket::bind("127.0.0.1:0").unwrap();
    probe.send_to(b"?", address).unwrap();
    let deadline = Instant::now() + PATIENCE;
    while server.snapshot().net.malformed == 0 {
        assert!(Instant::now() < deadline, "the server does not start");
        thread::sleep(Duration::from_millis(1));
    }
}

/// The slowdowns of each type's requests at one point, in ascending order.
struct Slowdowns<'p> {
    point: &'p Point,
    /// All requests on the live server, including those with a stall.
    all: Vec<Vec<f64>>,
    /// Requests without a long stall.
    live: Vec<Vec<f64>>,
    simulated: Vec<Vec<f64>>,
}

impl Slowdowns<'_> {
    /// Share of each type's requests without a long stall.
    fn left(&self) -> impl Iterator<Item = f64> {
        let types = self.live.iter().zip(&self.all);
        types.map(|(left, all)| left.len() as f64 / all.len() as f64)
    }

    fn are_enough(&self) -> bool {
        self.left().all(|left| left >= LEFT_MIN)
    }

    /// A percentile of each type, live and simulated.
    fn percentiles(&self, quantile: f64) -> impl Iterator<Item = (f64, f64)> {
        let types = self.live.iter().zip(&self.simulated);
        types.map(move |(live, simulated)| (at(quantile, live), at(quantile, simulated)))
    }

    /// The largest difference of a type's percentile, as a fraction of the simulated value.
    fn difference(&self, quantile: f64) -> f64 {
        let types = self.percentiles(quantile);
        types
            .map(|(live, simulated)| (live / simulated - 1.0).abs())
            .fold(0.0, f64::max)
    }

    /// The types whose percentiles differ, beside a machine whose threads wake up `lag_ns` late. Percentiles with
    /// few requests beyond them count for nothing.
    fn differing(&self, lag_ns: f64) -> Vec<String> {
        let types = self.point.plan().workload.types;
        let mut differing = Vec::new();
        for quantile in QUANTILES {
            for (index, (live, simulated)) in self.percentiles(quantile).enumerate() {
                let beyond = self.live[index].len() as f64 * (1.0 - quantile);
                let lags = LAGS * lag_ns / types[index].service_ns as f64;
                let error = live - simulated;
                let tolerance = DIFFERENCE_MAX * simulated;
                if beyond >= BEYOND_MIN && !(-tolerance..=tolerance + lags).contains(&error) {
                    let name = &types[index].name;
                    differing.push(format!(
                        "{} p{}: {live:.2}, simulated {simulated:.2}, lag {lag_ns:.0} ns",
                        name,
                        quantile * 100.0
                    ));
                }
            }
        }
        differing
    }
}

/// Measures all points at the same time. Also returns the lag of the machine meanwhile.
fn measure<'p>(points: impl Iterator<Item = &'p Point>) -> (Vec<Slowdowns<'p>>, f64) {
    let witnesses = Witnesses::start()
        .inspect_err(|error| eprintln!("stalls are not measured: {error}"))
        .ok();
    let (lives, lag_ns): (Vec<_>, _) = with_lag_ns(|| {
        thread::scope(|scope| {
            let runs = points.map(|point| (point, scope.spawn(move || point.live())));
            let runs: Vec<_> = runs.collect();
            let joined = runs.into_iter();
            joined
                .map(|(point, run)| (point, run.join().unwrap()))
                .collect()
        })
    });
    let stalls = witnesses.map(Witnesses::stop).unwrap_or_default();
    let compared = lives
        .iter()
        .map(|(point, live)| point.compare(live, &stalls));
    (compared.collect(), lag_ns)
}

fn table(found: &[Slowdowns<'_>], quantile: f64) -> String {
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
        for ((live, simulated), left) in it.percentiles(quantile).zip(it.left()) {
            let left = left * 100.0;
            write!(table, " {live:8.2} /{simulated:8.2} ({left:3.0} %)").unwrap();
        }
        let difference = it.difference(quantile) * 100.0;
        writeln!(table, "  differ by {difference:4.1} %").unwrap();
    }
    println!("{table}");
    table
}

/// MQ and lending keep short requests fast where c-FCFS does not.
fn assert_protection(found: &[Slowdowns<'_>], quantile: f64) {
    let short_at_80 = |workload: &str, name: &str| {
        let wanted = |it: &&Slowdowns<'_>| {
            let point = it.point;
            (point.workload, point.load, point.policy.name()) == (workload, 0.8, name)
        };
        at(quantile, &found.iter().find(wanted).unwrap().all[0])
    };
    let mut workloads: Vec<_> = found.iter().map(|it| it.point.workload).collect();
    workloads.dedup();
    for workload in workloads {
        for policy in ["mq", "darc-lending"] {
            let ratio = short_at_80(workload, "c-fcfs") / short_at_80(workload, policy);
            let table = || table(found, quantile);
            assert!(ratio > 2.0, "{workload} {policy} {ratio}\n{}", table());
        }
    }
}

#[test]
fn live_preemption_keeps_short_requests_fast_where_c_fcfs_does_not() {
    let points = points(&[0.8], "high-bimodal", 4000, 1, 12.0);
    // The p99.9 of so few requests would be the slowest request.
    let (found, _) = measure(points.iter());
    assert_protection(&found, 0.99);
}

/// The short comparison. Points that differ are measured again.
#[test]
fn percentiles_of_live_servers_are_those_of_the_simulator() {
    let all = points(&[0.8], "tpcc", 3000, 1, 12.0);
    let mut points: Vec<_> = all.iter().collect();
    let mut found = String::new();
    let mut are_enough = true;
    for _ in 0..SHORT_ATTEMPTS {
        let (slowdowns, lag_ns) = measure(points.iter().copied());
        for quantile in QUANTILES {
            found += &table(&slowdowns, quantile);
        }
        are_enough = slowdowns.iter().all(Slowdowns::are_enough);
        points.clear();
        for it in slowdowns {
            let differing = it.differing(lag_ns);
            if !differing.is_empty() || !it.are_enough() {
                points.push(it.point);
            }
            for text in differing {
                writeln!(found, "{}: {text}", it.point.policy).unwrap();
            }
        }
        if points.is_empty() {
            return;
        }
    }
    if !are_enough {
        return psp_harness::skip("the machine stalls during most requests");
    }
    panic!("in {SHORT_ATTEMPTS} runs:\n{found}");
}

/// Points that differ are measured again.
#[test]
#[ignore = "takes ten to twenty minutes on a machine without other load"]
fn live_servers_do_what_the_simulator_says() {
    const QUANTILE: f64 = 0.999;
    let loads = [0.5, 0.8];
    let points = [
        points(&loads, "high-bimodal", 20_000, 1, 600.0),
        points(&loads, "extreme-bimodal", 8_000, 10, 600.0),
    ]
    .concat();
    let (mut found, _) = measure(points.iter());
    table(&found, QUANTILE);
    assert_protection(&found, QUANTILE);
    let differs = |it: &Slowdowns<'_>| it.difference(QUANTILE) > DIFFERENCE_MAX || !it.are_enough();
    for _ in 1..ATTEMPTS {
        let differ: Vec<_> = (0..found.len()).filter(|&at| differs(&found[at])).collect();
        let (again, _) = measure(differ.iter().map(|&at| found[at].point));
        for (at, again) in differ.into_iter().zip(again) {
            found[at] = again;
        }
    }
    let table = table(&found, QUANTILE);
    assert!(!found.iter().any(differs), "{table}");
}
