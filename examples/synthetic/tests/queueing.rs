//! A live server with one worker against queueing theory.
//!
//! Theory is exact for a queue without costs. Costs of scheduling and of timers are a tenth of a
//! millisecond for each request, and two milliseconds on a machine that is busy with other things.
//! At half load they are in waiting times about three times as a share of the service time, so
//! that requests of 200 ms (200 us, dilated by 1000) leave them at 3 % then, and far below
//! otherwise. Such requests are few in a run of seconds; eight servers that sleep take no longer
//! than one, and have eight times as many.
//!
//! Even so chance is greater than any error worth finding: the mean waiting time of a few hundred
//! requests is anywhere within half and twice that of the formula. The runs are therefore held
//! against the theory of *their own* arrivals and service times, Lindley's recursion, which says how
//! long each single request waits; and the recursion, on a run as long as one likes, against the
//! formulas.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use psp_classifiers::PspHeaderClassifier;
use psp_loadgen::arrivals::{ArrivalProcess, Schedule};
use psp_loadgen::engine::{self, RunResult};
use psp_loadgen::plan::{RequestPlan, RunPlan, ServicePlan, TypePlan, Waiting};
use psp_loadgen::report::Report;
use psp_loadgen::target::Target;
use psp_loadgen::workload::Distribution;
use psp_protocols::psp_header::{Header, PspFraming};
use psp_server::{
    Handler, Policy, PreemptPolicy, Reply, Request, Server, Shutdown, Topology, TypeSpec, WorkerId,
};
use psp_synthetic::handler::{Mode, Synthetic};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Mean service time, dilated.
const SERVICE_NS: u32 = 200_000_000;
const DILATION: u32 = 1_000;
/// Servers side by side, each with one worker, a client and a seed of its own.
const SERVERS: u64 = 8;
const LOAD: f64 = 0.5;
/// Some 35 requests for each server.
const DURATION: Duration = Duration::from_secs(14);
const TOLERANCE: f64 = 0.05;

const QUANTILES: [f64; 3] = [0.5, 0.9, 0.99];

/// The synthetic server's handler, and what it was asked for: ids and service times.
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

    fn connect(&self, _peer: SocketAddr) {}

    fn handle(&self, worker: &mut (), request: Request<'_, ()>, reply: &mut Reply<'_>) {
        let header = Header::decode(request.payload).unwrap();
        let mut asked = self.asked.lock().unwrap();
        asked.push((header.id, header.run_time_ns));
        drop(asked);
        self.synthetic.handle(worker, request, reply);
    }
}

/// One of the servers, measured.
struct Measured {
    plan: RunPlan,
    result: RunResult,
    /// What each request asked for in nanoseconds, in the order of their arrival.
    services_ns: Vec<u64>,
}

/// Runs M/M/1 against a live server.
fn measure(seed: u64) -> Measured {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let server = Server::builder()
        .udp("127.0.0.1:0")
        .framing(PspFraming::default())
        .classifier(PspHeaderClassifier::new(
            [TypeSpec::new("exponential")].into_iter().collect(),
        ))
        .policy(Policy::c_fcfs())
        .config(psp_server::Config {
            workers: Some(1),
            topology: Topology::Dedicated,
            // Workers that only sleep need not stand back for what else the machine does.
            background_nice: 0,
            ..psp_server::Config::default()
        })
        .handler(Recorded {
            synthetic: Synthetic {
                mode: Mode::Sleep,
                stretch: 1,
                preempt: PreemptPolicy::None,
            },
            asked: Arc::clone(&asked),
        })
        .build()
        .unwrap();
    let address = server.local_addrs()[0];
    let target: Target = format!("psp://{address}").parse().unwrap();
    let shutdown = Shutdown::new();
    let stopper = shutdown.clone();
    let serving = thread::spawn(move || server.run_until(&shutdown).unwrap());

    let request = RequestPlan::Synthetic {
        request_type: 0,
        service: ServicePlan {
            mean_ns: SERVICE_NS,
            distribution: Distribution::Exponential,
        },
    };
    let plan = RunPlan {
        seed,
        warmup: Duration::ZERO,
        duration: DURATION,
        timeout: Duration::from_secs(60),
        dilation: DILATION,
        waiting: Waiting::SleepThenSpin(Duration::ZERO),
        ..RunPlan::new(
            target,
            vec![TypePlan::new("exponential", rate_rps(), request)],
        )
    };
    let result = engine::run(&plan, &Arc::default(), &mut ()).unwrap();
    stopper.trigger();
    serving.join().unwrap();
    let mut asked = asked.lock().unwrap().clone();
    asked.sort_unstable();
    let services = asked.iter().map(|(_, service_ns)| u64::from(*service_ns));
    Measured {
        services_ns: services.collect(),
        plan,
        result,
    }
}

/// How long requests wait, and from arrival to completion, in nanoseconds.
#[derive(Debug, Default)]
struct Queue {
    waits_ns: Vec<f64>,
    latencies_ns: Vec<f64>,
}

impl Queue {
    /// One worker, first come first served: a request waits for what the one before it had still
    /// to wait and to be served when it came (Lindley, 1952).
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

/// How often the servers are measured, until a run is near theory.
const ATTEMPTS: u32 = 4;

/// How many lags of the machine a request waits for at the most: seven wake-ups from the client by net worker, dispatcher
/// and worker back to it, of which those at the worker count threefold at half load, since they delay what is behind.
/// A machine with bursts of real-time work on both cores added seven.
const LAGS: f64 = 12.0;

/// What was found, what theory says, and of what.
struct Figure {
    name: String,
    found: f64,
    exact: f64,
}

impl Figure {
    /// Whether it is as exact as a machine lets it be whose threads wake up `lag_ns` late.
    fn is_near(&self, lag_ns: f64) -> bool {
        let error = self.found - self.exact;
        error > -TOLERANCE * self.exact && error < TOLERANCE * self.exact + LAGS * lag_ns
    }
}

/// Does `work`, and measures meanwhile by how much threads that stay on their core, as those of servers do, would wake
/// up late, were they to wake up at any time: in nanoseconds, the mean.
fn with_lag_ns<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let stop = AtomicBool::new(false);
    let may_use = sched_getaffinity(None).unwrap();
    let cores: Vec<_> = (0..CpuSet::MAX_CPU)
        .filter(|&core| may_use.is_set(core))
        .collect();
    thread::scope(|scope| {
        let watch = |&core| {
            scope.spawn({
                let stop = &stop;
                move || lag_ns(core, stop)
            })
        };
        let watches: Vec<_> = cores.iter().map(watch).collect();
        let done = work();
        stop.store(true, Ordering::Relaxed);
        let lags = watches.into_iter().map(|watch| watch.join().unwrap());
        (done, lags.sum::<f64>() / cores.len() as f64)
    })
}

fn lag_ns(core: usize, stop: &AtomicBool) -> f64 {
    const NAP: Duration = Duration::from_millis(5);
    let mut own = CpuSet::new();
    own.set(core);
    sched_setaffinity(None, &own).unwrap();
    let started = Instant::now();
    let (mut naps, mut late_ns, mut late_ns_squared) = (0.0, 0.0, 0.0);
    while naps == 0.0 || !stop.load(Ordering::Relaxed) {
        let asleep = Instant::now();
        thread::sleep(NAP);
        let nap_late_ns = (asleep.elapsed() - NAP).as_nanos() as f64;
        naps += 1.0;
        late_ns += nap_late_ns;
        late_ns_squared += nap_late_ns * nap_late_ns;
    }
    // Whoever comes while the machine stands still meets, in the mean, half of what that takes.
    late_ns / naps + late_ns_squared / 2.0 / started.elapsed().as_nanos() as f64
}

/// Measures all servers at the same time: waiting times in nanoseconds.
fn figures() -> Vec<Figure> {
    let servers: Vec<_> = (1..=SERVERS)
        .map(|seed| thread::spawn(move || measure(seed)))
        .collect();
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
    // What the report says of the time before it was stretched.
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

/// A machine with several programs for each core lets a thread wait for a quarter of a second now
/// and then. Such a run says nothing of the queue and is repeated; what is wrong with the server or
/// with the report is wrong in every run.
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
    // Gaps of Poisson arrivals are exponential, as service times are.
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
