//! A load that rises and falls: a server whose workers come and go, beside one that always has the most of them, and
//! beside the simulator. Requests sleep, so that many workers fit on few cores.
//!
//! ```text
//!   SimPlan ──► requests ──┬─► psp-synthetic, 1 to 6 workers ─┬─► latencies, workers present
//!      │                   └─► psp-synthetic, 6 workers ──────┘
//!      └──────► simulate ────────────────────────────────────────► the same
//! ```

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use psp_harness::wait_until;
use psp_server::policy::elastic::ElasticSettings;
use psp_server::{Policy, ServerHandle, Topology, Workers};
use psp_sim::experiment::{TailGoal, workers_needed};
use psp_sim::simulator::{self, ElasticPlan, Outcome, SimPlan};
use psp_sim::workload::{Distribution, Phase, PhaseLength, Workload, WorkloadType};

use crate::elastic::{INTERVAL_MS, WORKERS_MAX, present, with_config};
use crate::simulated::client::{Exchange, SOCKET_HOLDS, connected, exchange};

/// Load in each step of the ramp, as a share of the time of the most workers.
const LOADS: [f64; 7] = [0.05, 0.1, 0.4, 0.9, 0.4, 0.1, 0.05];
/// The step of the highest load.
const PEAK: usize = LOADS.len() / 2;
const STEP: Duration = Duration::from_secs(3);
/// Mean service time of both types, and the share of the second.
const SERVICE: [Duration; 2] = [Duration::from_millis(8), Duration::from_millis(80)];
const LONG_SHARE: f64 = 0.1;
/// The tails that a number of workers must keep to be enough.
const GOAL: TailGoal = TailGoal { quantile: 0.99, factor: 1.5 };
/// Simulated requests from which one reads how many workers a rate needs.
const NEEDED_REQUESTS: u64 = 50_000;
/// The most core seconds that workers may take, in multiples of what the ramp needs.
const COST_MAX: f64 = 1.3;
/// Other programs make requests late, which brings workers: so often the live ramp may run until it follows the load.
const ROUNDS_MAX: usize = 3;
/// How often the workers that are present are counted.
const LOOK: Duration = Duration::from_millis(5);

fn plan(workers_min: usize) -> SimPlan {
    let ty = |name: &str, share, service: Duration| WorkloadType {
        name: name.to_owned(),
        share,
        service_ns: service.as_nanos() as u64,
        distribution: Distribution::Exponential,
        wait_ns: 0,
        slo_ns: None,
        weight: None,
    };
    let types = vec![ty("SHORT", 1.0 - LONG_SHARE, SERVICE[0]), ty("LONG", LONG_SHARE, SERVICE[1])];
    let phase = |load| Phase {
        length: PhaseLength::Time { duration_ns: STEP.as_nanos() as u64 },
        load,
        types: types.clone(),
    };
    let workload = Workload {
        phases: LOADS.map(phase).to_vec(),
        ..Workload::of_types("ramp", types.clone())
    };
    let plan = SimPlan::new(workload, Policy::c_fcfs(), WORKERS_MAX, 1.0);
    let mean_load = LOADS.iter().sum::<f64>() / LOADS.len() as f64;
    let requests = plan.offered_rps() * mean_load * (STEP * LOADS.len() as u32).as_secs_f64();
    SimPlan {
        // More than arrive in the ramp by chance. The last step is as much longer.
        requests: (requests * 1.05) as u64,
        warmup: 0,
        timeline_ns: Some(STEP.as_nanos() as u64),
        elastic: (workers_min < WORKERS_MAX).then(|| ElasticPlan {
            workers_min,
            settings: ElasticSettings::default().interval_ms(INTERVAL_MS),
        }),
        ..plan
    }
}

fn simulate(workers_min: usize) -> Outcome {
    simulator::simulate(&plan(workers_min), &mut |_| ControlFlow::Continue(())).unwrap()
}

/// What a server did with the ramp.
struct Ramp {
    /// p99 of each type's latencies, in seconds.
    tails_s: Vec<f64>,
    /// Workers that were present in each step, on average.
    workers: Vec<f64>,
}

impl Ramp {
    fn simulated(workers_min: usize) -> Self {
        let outcome = simulate(workers_min);
        let tail_s = |latency_ns: u64| latency_ns as f64 / 1e9;
        let tails = outcome.types.iter();
        Self {
            tails_s: tails.map(|ty| tail_s(ty.latency_ns.value_at_quantile(0.99))).collect(),
            workers: { outcome.timeline.iter() }.map(|bucket| bucket.workers_mean).take(LOADS.len()).collect(),
        }
    }

    /// On a live server with that range of workers. All requests are answered, and its workers go in the end.
    fn live(workers: Workers) -> Self {
        let config = psp_server::Config::default()
            .workers(workers)
            .topology(Topology::Dedicated)
            .queue_capacity(8192)
            .elastic_interval_ms(INTERVAL_MS);
        let mut ramp = None;
        with_config(config, Policy::c_fcfs(), |address, handle| {
            let requests = simulator::requests(&plan(workers.min)).unwrap();
            let (exchange, seen) =
                with_presence(handle, || exchange(&[connected(address)], &requests, 1, SOCKET_HOLDS, || {}));
            let latency_s = |index: usize| {
                let latency = exchange.latency[index].expect("every request has a reply");
                latency.as_secs_f64()
            };
            let tail_s = |kind: u32| {
                let of_type = requests.iter().enumerate();
                let of_type = of_type.filter(|(_, request)| request.kind == kind);
                let mut latencies: Vec<f64> = of_type.map(|(index, _)| latency_s(index)).collect();
                latencies.sort_unstable_by(f64::total_cmp);
                latencies[latencies.len() * 99 / 100]
            };
            ramp = Some(Self {
                tails_s: (0..SERVICE.len() as u32).map(tail_s).collect(),
                workers: means(&exchange, &seen),
            });
            wait_until("an idle server has the fewest workers", || present(handle) == workers.min);
        });
        ramp.expect("the server ran")
    }

    fn core_seconds(&self) -> f64 {
        self.workers.iter().sum::<f64>() * STEP.as_secs_f64()
    }

    /// Whether there are more workers at the peak than at both ends, and they cost little more than `needed` core
    /// seconds.
    fn follows_the_load(&self, needed: f64) -> bool {
        let at_peak = self.workers[PEAK];
        let ends = [self.workers[0], self.workers[LOADS.len() - 1]];
        ends.iter().all(|&at_end| at_end < at_peak) && self.core_seconds() <= COST_MAX * needed
    }

    /// p99 of each type, in multiples of that of the most workers.
    fn tails(&self, most: &Self) -> Vec<f64> {
        let tails = self.tails_s.iter().zip(&most.tails_s);
        tails.map(|(ours, most)| ours / most).collect()
    }
}

/// Runs `work`, and meanwhile counts the workers that are present.
fn with_presence<T>(handle: &ServerHandle, work: impl FnOnce() -> T) -> (T, Vec<(Instant, usize)>) {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let looker = scope.spawn(|| {
            let mut seen = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                seen.push((Instant::now(), present(handle)));
                thread::sleep(LOOK);
            }
            seen
        });
        let done = work();
        stop.store(true, Ordering::Relaxed);
        (done, looker.join().unwrap())
    })
}

/// Workers that were present in each step, on average.
fn means(exchange: &Exchange, seen: &[(Instant, usize)]) -> Vec<f64> {
    let first = exchange.due[0];
    let step = |index: u32| {
        let (from, until) = (first + STEP * index, first + STEP * (index + 1));
        let of_step = seen.iter().filter(|(at, _)| (from..until).contains(at));
        let counts: Vec<f64> = of_step.map(|&(_, count)| count as f64).collect();
        counts.iter().sum::<f64>() / counts.len().max(1) as f64
    };
    (0..LOADS.len() as u32).map(step).collect()
}

/// Core seconds that the ramp needs: in each step, the fewest workers that keep the tails near those of the most, if
/// the step's rate lasted.
fn needed_core_seconds() -> f64 {
    let ramp = plan(WORKERS_MAX);
    let flat = Workload { phases: Vec::new(), ..ramp.workload };
    let needed = |load| {
        let plan = SimPlan::new(flat.clone(), ramp.policy.clone(), WORKERS_MAX, load);
        workers_needed(&plan.requests(NEEDED_REQUESTS), &GOAL).unwrap() as f64
    };
    LOADS.map(needed).iter().sum::<f64>() * STEP.as_secs_f64()
}

#[test]
fn workers_follow_a_ramp_up_and_down_as_in_the_simulator() {
    let [mut elastic, most] = thread::scope(|scope| {
        [1, WORKERS_MAX]
            .map(|min| scope.spawn(move || Ramp::live(Workers::from(min..=WORKERS_MAX))))
            .map(|live| live.join().unwrap())
    });
    let [simulated, simulated_most] = [1, WORKERS_MAX].map(Ramp::simulated);
    let needed = needed_core_seconds();
    for _ in 1..ROUNDS_MAX {
        if !elastic.follows_the_load(needed) {
            elastic = Ramp::live(Workers::from(1..=WORKERS_MAX));
        }
    }
    let found = format!(
        "workers {:.1?}, simulated {:.1?}; core seconds {:.0} of {:.0}, simulated {:.0}, needed {needed:.0}; \
         p99 / p99 of the most {:.2?}, simulated {:.2?}",
        elastic.workers,
        simulated.workers,
        elastic.core_seconds(),
        most.core_seconds(),
        simulated.core_seconds(),
        elastic.tails(&most),
        simulated.tails(&simulated_most),
    );
    println!("{found}");
    for ramp in [&elastic, &simulated] {
        assert!(ramp.follows_the_load(needed), "{found}");
    }
    // The most workers, all the time, would cost too much.
    assert!(most.core_seconds() > COST_MAX * needed, "{found}");
    // The machine's other work makes requests late, and brings workers, on live servers only.
    let (up, down) = simulated.workers.split_at(PEAK);
    assert!(up.is_sorted(), "{found}");
    assert!(down.is_sorted_by(|one, next| one >= next), "{found}");
    assert!(simulated.core_seconds() < 0.75 * simulated_most.core_seconds(), "{found}");
    let tails = simulated.tails(&simulated_most);
    assert!(tails.iter().all(|&tail| tail < 1.5), "{found}");
}
