//! Live servers beside the simulator: the same requests at the same times, under the same policies.
//!
//! Service times are dilated, by the client, and by the server's `stretch` where the header is too narrow for what
//! the client would have to say, and workers sleep for them, so that 14 of them, and several servers, share
//! the cores there are. What is left of the machine is its noise: the long comparison, which looks at
//! p99.9, dilates so much that pauses of some milliseconds are a small part of the shortest request.
//!
//! ```text
//!   SimPlan ──► requests ──► trace ──► load generator ──► psp-synthetic ──► slowdowns
//!      └──────► simulate ────────────────────────────────────────────────► slowdowns
//! ```

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::{SocketAddr, UdpSocket};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use psp_loadgen::engine;
use psp_loadgen::plan::{Pacing, RunPlan, Waiting};
use psp_loadgen::report::{Percentiles, Report};
use psp_loadgen::sim::{self, SimPlan};
use psp_loadgen::target::Target;
use psp_loadgen::trace::{Trace, TraceTypes};
use psp_loadgen::workload::{LiveWorkload, OfferedLoad, Workload};
use psp_server::policy::{Mq, Policy};
use psp_server::{ServerHandle, Shutdown, Topology};
use psp_synthetic::config::Config;
use psp_synthetic::handler::Mode;
use psp_synthetic::startup;

const WORKERS: usize = 14;
const QUEUE_CAPACITY: usize = 8192;
/// By how much live and simulated figures may differ, as a part of the simulated one.
const DIFFERENCE_MAX: f64 = 0.25;
/// A point that differs is measured again, alone: a pause of the machine passes.
const ATTEMPTS: usize = 3;
/// Long enough for any machine; reached only when a test fails.
const PATIENCE: Duration = Duration::from_secs(30);
/// Of a request: longer than any waits, and the longest takes 40 s.
const TIMEOUT: Duration = Duration::from_secs(600);
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

/// Which percentile is compared.
#[derive(Debug, Clone, Copy)]
enum Tail {
    P99,
    P999,
}

impl Tail {
    fn quantile(self) -> f64 {
        match self {
            Self::P99 => 0.99,
            Self::P999 => 0.999,
        }
    }

    fn of(self, percentiles: &Percentiles<f64>) -> f64 {
        match self {
            Self::P99 => percentiles.p99,
            Self::P999 => percentiles.p999,
        }
    }
}

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
        plan
    }

    fn simulated(&self, tail: Tail) -> Slowdowns {
        let outcome = sim::simulate(&self.plan(), &mut |_| ControlFlow::Continue(())).unwrap();
        assert_eq!(outcome.rejected, 0, "{self:?}");
        let types = outcome.types.iter();
        types.map(|ty| ty.slowdown.at(tail.quantile())).collect()
    }

    fn live(&self, tail: Tail) -> Slowdowns {
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
        let target: Target = format!("psp://{address}").parse().unwrap();
        let shutdown = Shutdown::new();
        let stopper = shutdown.clone();
        let serving = thread::spawn(move || server.run_until(&shutdown).unwrap());
        until_served(&handle, address);
        let report = self.send(target);
        stopper.trigger();
        serving.join().unwrap();
        let overall = &report.overall;
        assert_eq!(overall.completed, overall.scheduled, "{self:?}\n{report}");
        let types = report.types.iter();
        types
            .map(|ty| tail.of(&ty.summary.slowdown.unwrap()) / f64::from(self.stretch))
            .collect()
    }

    /// Sends the requests of the simulation when they arrive there.
    fn send(&self, target: Target) -> Report {
        let plan = self.plan();
        let requests = sim::requests(&plan).unwrap();
        let first_ns = requests[0].at_ns;
        let since_first = |at_ns: u64| Duration::from_nanos(at_ns - first_ns);
        let mut lines = String::new();
        for request in &requests {
            let at_s = since_first(request.at_ns).as_secs_f64();
            let name = &plan.workload.types[request.kind as usize].name;
            writeln!(lines, "{at_s:.9} {name}").unwrap();
        }
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(lines.as_bytes()).unwrap();
        let types = plan.workload.types.iter();
        let named = TraceTypes::Named(types.map(|ty| (ty.name.clone(), ty.share)).collect());
        let trace = Trace::open(file.path(), 1.0, named).unwrap();

        let offered = OfferedLoad::Workers {
            load: self.load,
            workers: WORKERS,
        };
        let workload = LiveWorkload::named_or_file(self.workload).unwrap();
        let types = workload
            .type_plans(target.protocol, offered, self.dilation)
            .unwrap();
        let warmup = since_first(requests[plan.warmup as usize].at_ns);
        let end = since_first(requests[requests.len() - 1].at_ns);
        let run = RunPlan {
            pacing: Pacing::Trace(trace),
            warmup,
            duration: end - warmup + Duration::from_millis(1),
            timeout: TIMEOUT,
            outstanding_max: 1 << 20,
            dilation: self.dilation,
            waiting: Waiting::SleepThenSpin(Duration::ZERO),
            ..RunPlan::new(target, types)
        };
        let result = engine::run(&run, &Arc::default(), &mut ()).unwrap();
        Report::new(&run, &result)
    }
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
    live: Slowdowns,
    simulated: Slowdowns,
}

impl Found<'_> {
    fn difference(&self) -> f64 {
        difference(&self.live, &self.simulated)
    }
}

/// The live figures of all points, measured at the same time.
fn live<'p>(points: impl Iterator<Item = &'p Point>, tail: Tail) -> Vec<Slowdowns> {
    thread::scope(|scope| {
        let runs: Vec<_> = points
            .map(|point| scope.spawn(move || point.live(tail)))
            .collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    })
}

fn measure(points: &[Point], tail: Tail) -> Vec<Found<'_>> {
    let measured = points.iter().zip(live(points.iter(), tail));
    measured
        .map(|(point, live)| Found {
            point,
            live,
            simulated: point.simulated(tail),
        })
        .collect()
}

fn table(found: &[Found<'_>], tail: Tail) -> String {
    let mut table = format!("{tail:?} slowdown of each type, live / simulated\n");
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
        for (live, simulated) in it.live.iter().zip(&it.simulated) {
            write!(table, " {live:8.2} /{simulated:8.2}").unwrap();
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
        found.iter().find(wanted).unwrap().live[0]
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
fn assert_agreement(found: &mut [Found<'_>], tail: Tail) {
    for _ in 1..ATTEMPTS {
        let differ = found
            .iter_mut()
            .filter(|it| it.difference() > DIFFERENCE_MAX);
        let mut differ: Vec<_> = differ.collect();
        let again = live(differ.iter().map(|it| it.point), tail);
        differ
            .iter_mut()
            .zip(again)
            .for_each(|(it, live)| it.live = live);
    }
    let table = table(found, tail);
    let worst = found.iter().map(Found::difference).fold(0.0, f64::max);
    assert!(worst <= DIFFERENCE_MAX, "{worst}\n{table}");
}

#[test]
fn live_preemption_keeps_short_requests_fast_where_c_fcfs_does_not() {
    let points = points("high-bimodal", 4000, 1, 20.0);
    // The p99.9 of so few requests would be the slowest of them.
    let found = measure(&points, Tail::P99);
    assert_protection(&found, &table(&found, Tail::P99));
}

#[test]
#[ignore = "takes a quarter of an hour, and needs the machine for itself or real-time priority"]
fn live_servers_do_what_the_simulator_says() {
    let points = [
        points("high-bimodal", 20_000, 1, 600.0),
        points("extreme-bimodal", 8_000, 10, 600.0),
    ]
    .concat();
    let mut found = measure(&points, Tail::P999);
    let first = table(&found, Tail::P999);
    assert_protection(&found, &first);
    assert_agreement(&mut found, Tail::P999);
}
