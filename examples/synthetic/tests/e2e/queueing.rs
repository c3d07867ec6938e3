//! A live server with one worker against queueing theory.
//!
//! Theory is exact for a queue without costs. Scheduling and timers cost a tenth of a millisecond per
//! request, and two milliseconds on a machine that is busy with other programs. At half load, the waiting
//! time grows by about three times this cost. With a service time of 200 ms (200 us, dilated by 1000), that
//! is 3 % on a busy machine, and far less on an idle one. A run of seconds has few such requests. Sixteen
//! servers that sleep take no longer than one, and have sixteen times as many requests.
//!
//! Even so, chance is larger than any error worth finding: the mean waiting time of a few hundred requests
//! lies anywhere between half and twice that of the formula. Therefore the test compares each run with
//! Lindley's recursion, which computes the waiting time of each request from the run's *own* arrivals and
//! service times. A second test compares the recursion with the formulas on a long run.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use psp_classifiers::PspHeaderClassifier;
use psp_loadgen::clients;
use psp_loadgen::clients::RunResult;
use psp_loadgen::report::Report;
use psp_loadgen::schedule::{RequestPlan, RunPlan, ServicePlan, TypePlan, Waiting};
use psp_loadgen::wire::Target;
use psp_protocols::psp_header::{Header, PspFraming};
use psp_server::{Handler, Peer, Policy, PreemptPolicy, Reply, Request, Server, Topology, TypeSpec, WorkerId};
use psp_sim::workload::{ArrivalProcess, Distribution, Schedule};
use psp_synthetic::handler::{Mode, Synthetic};

use crate::lag::{LAGS, with_lag_ns};

/// Mean service time, dilated.
const SERVICE_NS: u32 = 200_000_000;
const DILATION: u32 = 1_000;
/// Number of servers at the same time, each with one worker, a client and a seed of its own.
const SERVERS: u64 = 16;
const LOAD: f64 = 0.5;
/// Length of a run: some 18 requests for each server.
const DURATION: Duration = Duration::from_secs(7);
const TOLERANCE: f64 = 0.05;

const QUANTILES: [f64; 3] = [0.5, 0.9, 0.99];

/// The synthetic server's handler, which records the ids and service times of its requests.
struct Recorded {
    synthetic: Synthetic,
    asked: Arc<Mutex<Vec<(u32, u32)>>>,
}

impl Handler for Recorded {
    type Worker = ();
    type Connection = ();

    fn init_worker(&self, worker: WorkerId) {
        self.synthetic.init_worker(worker);
    }

    fn connect(&self, _peer: Peer) {}

    fn handle(&self, worker: &mut (), request: Request<'_, ()>, reply: &mut Reply<'_>) {
        let header = Header::decode(request.payload).unwrap();
        let mut asked = self.asked.lock().unwrap();
        asked.push((header.id, header.run_time_ns));
        drop(asked);
        self.synthetic.handle(worker, request, reply);
    }
}

/// The measurement of one server.
struct Measured {
    plan: RunPlan,
    result: RunResult,
    /// Service time of each request in nanoseconds, in the order of arrival.
    services_ns: Vec<u64>,
}

/// Runs M/M/1 against a live server.
fn measure(seed: u64) -> Measured {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let server = Server::builder()
        .udp("127.0.0.1:0")
        .framing(PspFraming::default())
        .classifier(PspHeaderClassifier::new([TypeSpec::new("exponential")].into_iter().collect()))
        .policy(Policy::c_fcfs())
        .config(
            psp_server::Config::default()
                .workers(1)
                .topology(Topology::Dedicated)
                // Workers that only sleep need no lower priority.
                .background_nice(0),
        )
        .handler(Recorded {
            synthetic: Synthetic { mode: Mode::Sleep, stretch: 1, preempt: PreemptPolicy::None },
            asked: Arc::clone(&asked),
        })
        .build()
        .unwrap()
        .spawn()
        .unwrap();
    let address = server.local_addrs()[0];
    let target: Target = format!("psp://{address}").parse().unwrap();

    let request = RequestPlan::Synthetic {
        request_type: 0,
        service: ServicePlan {
            mean_ns: SERVICE_NS,
            distribution: Distribution::Exponential,
            wait_ns: 0,
        },
    };
    let plan = RunPlan {
        seed,
        warmup: Duration::ZERO,
        duration: DURATION,
        timeout: Duration::from_secs(60),
        dilation: DILATION,
        waiting: Waiting::SleepThenSpin(Duration::ZERO),
        ..RunPlan::new(target, vec![TypePlan::new("exponential", rate_rps(), request)])
    };
    let result = clients::run(&plan, &Arc::default(), &mut ()).unwrap();
    server.shut_down();
    server.join().unwrap();
    let mut asked = asked.lock().unwrap().clone();
    asked.sort_unstable();
    let services = asked.iter().map(|(_, service_ns)| u64::from(*service_ns));
    Measured { services_ns: services.collect(), plan, result }
}

/// Waiting times and latencies (from arrival to completion) of requests, in nanoseconds.
#[derive(Debug, Default)]
struct Queue {
    waits_ns: Vec<f64>,
    latencies_ns: Vec<f64>,
}

impl Queue {
    /// Adds the requests of one worker that serves first come first served. A request waits for the rest of the
    /// waiting time and the service time of the request before it (Lindley, 1952).
    fn add_lindley(&mut self, arrivals_ns: impl Iterator<Item = u64>, services_ns: &[u64]) {
        let mut free_ns = 0;
        for (arrived_ns, service_ns) in arrivals_ns.zip(services_ns) {
            let begun_ns = free_ns.max(arrived_ns);
            free_ns = begun_ns + service_ns;
            self.waits_ns.push((begun_ns - arrived_ns) as f64);
            self.latencies_ns.push((free_ns - arrived_ns) as f64);
        }
        self.latencies_ns.sort_by(f64::total_cmp);
    }

    fn waited_ns_mean(&self) -> f64 {
        self.waits_ns.iter().sum::<f64>() / self.waits_ns.len() as f64
    }

    fn latency_ns(&self, quantile: f64) -> f64 {
        let rank = (quantile * self.latencies_ns.len() as f64).ceil() as usize;
        self.latencies_ns[rank - 1]
    }
}

fn rate_rps() -> f64 {
    LOAD * 1e9 / f64::from(SERVICE_NS)
}

/// Most runs. The first run that is near theory ends the test.
const ATTEMPTS: u32 = 4;

/// A measured figure, its exact value in theory, and its name.
struct Figure {
    name: String,
    found: f64,
    exact: f64,
}

impl Figure {
    /// Whether the figure is near theory for a machine whose threads wake up `lag_ns` late.
    fn is_near(&self, lag_ns: f64) -> bool {
        let error = self.found - self.exact;
        error > -TOLERANCE * self.exact && error < TOLERANCE * self.exact + LAGS * lag_ns
    }
}

/// Measures all servers at the same time. Figures are in nanoseconds.
fn figures() -> Vec<Figure> {
    let servers: Vec<_> = (1..=SERVERS).map(|seed| thread::spawn(move || measure(seed))).collect();
    let mut exact = Queue::default();
    let mut services_ns = 0;
    let mut all: Option<Measured> = None;
    for server in servers {
        let server = server.join().unwrap();
        let arrivals = Schedule::new(ArrivalProcess::Poisson, rate_rps(), server.plan.seed, 0);
        exact.add_lindley(arrivals, &server.services_ns);
        services_ns += server.services_ns.iter().sum::<u64>();
        match &mut all {
            None => all = Some(server),
            Some(all) => all.result.records[0].add(&server.result.records[0]),
        }
    }
    let all = all.unwrap();
    let report = Report::new(&all.plan, &all.result);
    let requests = exact.waits_ns.len();
    assert_eq!(report.overall.completed, requests as u64, "{report}");
    let latency_us = report.overall.latency_us.unwrap();
    // The report also has undilated latencies.
    let stretched_us = report.overall.latency_undilated_us.unwrap().p90 * f64::from(DILATION);
    assert!((stretched_us / latency_us.p90 - 1.0).abs() < 1e-3);

    let mut figures = vec![Figure {
        name: "mean waiting time".to_owned(),
        found: latency_us.mean * 1e3 - services_ns as f64 / requests as f64,
        exact: exact.waited_ns_mean(),
    }];
    let found_us = [latency_us.p50, latency_us.p90, latency_us.p99];
    for (quantile, found_us) in QUANTILES.into_iter().zip(found_us) {
        figures.push(Figure {
            name: format!("latency at {quantile}"),
            found: found_us * 1e3,
            exact: exact.latency_ns(quantile),
        });
    }
    figures
}

/// On a machine with several programs per core, a thread occasionally waits for a quarter of a second. Such
/// a run tells nothing about the queue, and is repeated. An error of the server or of the report shows in
/// every run.
#[test]
fn requests_of_live_servers_wait_as_long_as_lindley_says() {
    let mut errors = Vec::new();
    for _ in 0..ATTEMPTS {
        let (figures, lag_ns) = with_lag_ns(figures);
        let (near, far): (Vec<_>, Vec<_>) = figures.iter().partition(|it| it.is_near(lag_ns));
        if near.len() == figures.len() {
            return;
        }
        let text = |it: &Figure| format!("{}: {}, exactly {}", it.name, it.found, it.exact);
        errors.extend(far.into_iter().map(text));
        errors.push(format!("lag of the machine: {lag_ns}"));
    }
    panic!("nanoseconds, in {ATTEMPTS} runs: {errors:#?}");
}

#[test]
fn lindley_on_a_long_run_agrees_with_the_formulas_of_m_m_1() {
    const REQUESTS: usize = 1_000_000;
    let service_ns = f64::from(SERVICE_NS);
    // Gaps between Poisson arrivals are exponential, like the service times.
    let mut ends = Schedule::new(ArrivalProcess::Poisson, 1e9 / service_ns, 5, 1);
    let mut end_ns = 0;
    let services: Vec<u64> = std::iter::repeat_with(|| {
        let next_ns = ends.next().unwrap();
        next_ns - std::mem::replace(&mut end_ns, next_ns)
    })
    .take(REQUESTS)
    .collect();
    let arrivals = Schedule::new(ArrivalProcess::Poisson, rate_rps(), 5, 0);
    let mut queue = Queue::default();
    queue.add_lindley(arrivals, &services);
    let mut figures = vec![Figure {
        name: "mean waiting time".to_owned(),
        found: queue.waited_ns_mean(),
        exact: LOAD / (1.0 - LOAD) * service_ns,
    }];
    // Time in the system is exponential.
    let latency_ns_mean = service_ns / (1.0 - LOAD);
    for quantile in QUANTILES {
        figures.push(Figure {
            name: format!("latency at {quantile}"),
            found: queue.latency_ns(quantile),
            exact: -(1.0 - quantile).ln() * latency_ns_mean,
        });
    }
    if let Some(far) = figures.iter().find(|it| !it.is_near(0.0)) {
        let Figure { name, found, exact } = far;
        panic!("{name}: {found} ns, exactly {exact} ns");
    }
}
