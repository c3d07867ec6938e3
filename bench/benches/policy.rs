//! What a scheduling decision costs: one request's arrival, dispatch and completion; and, for
//! DARC, what a measurement, a window and a reservation add to that.

use std::collections::VecDeque;
use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use psp_policy::{Action, Darc, Event, RequestId, Sample, Scheduler, SchedulerSetup};
use psp_policy::{Policy, RequestType, TypeSpec, TypeTable, WorkerId};

/// TPC-C: mean service time in nanoseconds and share of each type (Perséphone, table 4).
const TYPES: [(u64, f64); 5] = [(5_700, 0.44), (6_000, 0.04), (20_000, 0.44), (88_000, 0.04), (100_000, 0.04)];

/// A scheduler with requests that go round: whenever a worker is done, another request arrives.
struct Cycle {
    scheduler: Box<dyn Scheduler>,
    now_ns: u64,
    arrivals: u32,
    running: VecDeque<(WorkerId, RequestType)>,
}

impl Cycle {
    /// `waiting` requests wait at all times, behind workers that are all busy; with 0, only one
    /// request is in the system.
    fn new(policy: &Policy, workers: usize, waiting: usize) -> Self {
        let types: TypeTable = TYPES
            .iter()
            .map(|&(service_ns, share)| TypeSpec::new("T").service_time(Duration::from_nanos(service_ns)).share(share))
            .collect();
        let setup = SchedulerSetup::new(workers, &types);
        let mut cycle = Self {
            scheduler: policy.scheduler(&setup),
            now_ns: 0,
            arrivals: 0,
            running: VecDeque::with_capacity(workers),
        };
        if waiting > 0 {
            for _ in 0..workers + waiting {
                cycle.arrive();
            }
        }
        cycle
    }

    fn arrive(&mut self) {
        let request_type = RequestType::new(self.arrivals % TYPES.len() as u32);
        let arrived = Event::Arrived {
            request: RequestId(self.arrivals),
            request_type,
            deadline_ns: None,
        };
        self.arrivals = self.arrivals.wrapping_add(1);
        self.now_ns += 1_000;
        self.scheduler.on_event(self.now_ns, arrived);
        self.poll();
    }

    fn poll(&mut self) {
        while let Some(action) = self.scheduler.poll(self.now_ns) {
            if let Action::Run { worker, request_type, .. } = black_box(action) {
                self.running.push_back((worker, request_type));
            }
        }
    }

    /// One arrival and one completion, with the sample that `measure` makes of it.
    fn step(&mut self, measure: impl Fn(RequestType) -> Option<Sample>) {
        self.arrive();
        let (worker, request_type) = self.running.pop_front().expect("a request runs");
        let sample = measure(request_type);
        let completed = Event::Completed { worker, samples: sample.as_slice(), dropped: false };
        self.scheduler.on_event(self.now_ns, completed);
        self.poll();
    }
}

fn measured(request_type: RequestType) -> Option<Sample> {
    let (service_ns, _) = TYPES[request_type.index()?];
    Some(Sample { request_type, count: 1, service_ns })
}

fn decisions(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decision");
    for name in Policy::NAMES {
        let policy: Policy = name.parse().expect("a policy's name");
        for workers in [2, 14] {
            for (state, waiting) in [("idle", 0), ("backlog", BACKLOG)] {
                let mut cycle = Cycle::new(&policy, workers, waiting);
                let name = format!("{policy}/{workers}-workers/{state}");
                group.bench_function(name, |bencher| {
                    bencher.iter(|| cycle.step(measured));
                });
            }
        }
    }
    group.finish();
}

/// Requests that wait while profiling is measured: a delay is one condition of a reservation.
const BACKLOG: usize = 64;

/// DARC on 14 workers, each line with one thing more than the line before.
fn profiling(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("profiling");
    let every_completion = Darc::default().samples_min(1).ewma_weight(1.0);
    let never_moves = every_completion.clone().demand_deviation(1.0);
    let always_moves = every_completion.demand_deviation(0.0).slowdown_trigger(1e-9);

    let mut cycle = Cycle::new(&Policy::darc(), 14, BACKLOG);
    group.bench_function("nothing-measured", |bencher| {
        bencher.iter(|| cycle.step(|_| None));
    });
    let mut cycle = Cycle::new(&Policy::darc(), 14, BACKLOG);
    group.bench_function("sample-recorded", |bencher| {
        bencher.iter(|| cycle.step(measured));
    });
    let mut cycle = Cycle::new(&never_moves.into(), 14, BACKLOG);
    group.bench_function("window-closed", |bencher| {
        bencher.iter(|| cycle.step(measured));
    });
    assert!(cycle.scheduler.reservation_updates() <= 2);
    let mut cycle = Cycle::new(&always_moves.into(), 14, BACKLOG);
    let filled = cycle.arrivals;
    group.bench_function("workers-reserved", |bencher| {
        bencher.iter(|| cycle.step(measured));
    });
    assert!(cycle.scheduler.reservation_updates() >= u64::from(cycle.arrivals - filled) / 2);
    group.finish();
}

criterion_group!(benches, decisions, profiling);
criterion_main!(benches);
