//! Speed of the simulator: c-FCFS with 16 workers on Extreme Bimodal at 80 % load, latencies and
//! slowdowns recorded, beside a loop that does the same and nothing else.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::hint::black_box;
use std::ops::ControlFlow;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use hdrhistogram::Histogram;
use psp_policy::Policy;
use psp_sim::simulator::{Outcome, SimPlan, simulate};
use psp_sim::workload::Workload;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp1};

const WORKERS: usize = 16;
const LOAD: f64 = 0.8;
const REQUESTS: u64 = 1_000_000;

fn plan(policy: Policy) -> SimPlan {
    let workload = Workload::named("extreme-bimodal").expect("it has that name");
    let mut plan = SimPlan::new(workload, policy, WORKERS, LOAD);
    plan.requests = REQUESTS;
    plan.warmup = 0;
    plan
}

fn run(plan: &SimPlan) -> Outcome {
    simulate(plan, &mut |_| ControlFlow::Continue(())).expect("the plan is valid")
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 3_600_000_000_000, 3).expect("the bounds are constants")
}

/// One queue and a heap of completions; the mean latency in nanoseconds.
fn yardstick(plan: &SimPlan) -> f64 {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(plan.seed);
    let gap_ns = 1e9 / plan.offered_rps();
    let types = &plan.workload.types;
    let mut records: Vec<_> = types.iter().map(|_| (histogram(), histogram())).collect();
    let mut waiting: VecDeque<(u64, usize)> = VecDeque::new();
    let mut completions: BinaryHeap<Reverse<(u64, u64, usize)>> = BinaryHeap::new();
    let mut clock_ns = 0.0;
    let mut arrived = 0;
    let mut arrival = None;
    loop {
        if arrival.is_none() && arrived < plan.requests {
            let unit: f64 = Exp1.sample(&mut rng);
            clock_ns += unit * gap_ns;
            let kind = usize::from(rng.random::<f64>() >= types[0].share);
            arrival = Some((clock_ns as u64, kind));
            arrived += 1;
        }
        let ends_ns = completions.peek().map(|Reverse((ends_ns, ..))| *ends_ns);
        let now_ns = match (ends_ns, arrival) {
            (Some(ends_ns), Some((at_ns, _))) if ends_ns > at_ns => at_ns,
            (Some(ends_ns), _) => {
                if let Some(Reverse((_, arrived_ns, kind))) = completions.pop() {
                    let latency_ns = ends_ns - arrived_ns;
                    let slowdown = latency_ns as f64 / types[kind].service_ns as f64 * 1e3;
                    records[kind].0.saturating_record(latency_ns);
                    records[kind].1.saturating_record(slowdown as u64);
                }
                ends_ns
            }
            (None, Some((at_ns, _))) => at_ns,
            (None, None) => break,
        };
        if let Some(arrived) = arrival.filter(|(at_ns, _)| *at_ns == now_ns) {
            waiting.push_back(arrived);
            arrival = None;
        }
        while completions.len() < WORKERS
            && let Some((arrived_ns, kind)) = waiting.pop_front()
        {
            let ends_ns = now_ns + types[kind].service_ns;
            completions.push(Reverse((ends_ns, arrived_ns, kind)));
        }
    }
    records[0].0.mean()
}

fn bench(criterion: &mut Criterion) {
    let c_fcfs = plan(Policy::c_fcfs());
    // They simulate the same system: short requests wait equally long.
    let (engine_ns, loop_ns) = (run(&c_fcfs).types[0].latency_ns.mean(), yardstick(&c_fcfs));
    assert!(
        (engine_ns / loop_ns - 1.0).abs() < 0.3,
        "{engine_ns} ns, but {loop_ns} ns in the plain loop"
    );
    let mut group = criterion.benchmark_group("simulated requests");
    group.throughput(Throughput::Elements(REQUESTS)).sample_size(10);
    group.bench_function("plain heap loop", |bencher| {
        bencher.iter(|| yardstick(black_box(&c_fcfs)));
    });
    for policy in [Policy::c_fcfs(), Policy::d_fcfs(), Policy::darc()] {
        let name = policy.name();
        let plan = plan(policy.clone());
        group.bench_function(name, |bencher| bencher.iter(|| run(black_box(&plan))));
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
