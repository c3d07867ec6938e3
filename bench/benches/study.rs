//! What studies of the portfolio cost: the thread that drives it, to ask for one and to conclude it, and the thread of
//! the study. Prints the shortest and the longest time of each over the studies of 70 000 requests.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use psp_policy::{Action, Event, Preemption, RequestId, Sample, Scheduler, SchedulerSetup};
use psp_policy::{Policy, RequestType, TypeSpec, TypeTable, WorkerId};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp1};

/// Service time in nanoseconds and share of each type.
const TYPES: [(u64, f64); 4] = [(1_000, 0.7), (5_000, 0.2), (50_000, 0.09), (500_000, 0.01)];
const REQUESTS: usize = 70_000;
const PREEMPTION_NS: u64 = 2_000;
/// Workers and their load.
const CASES: [(usize, f64); 3] = [(2, 0.6), (14, 0.8), (32, 0.8)];
const HEADER: &str = "workers  to ask, us  the study, s  to conclude, us  requests without studies, ns each";

/// Workers that serve requests under the portfolio, in virtual time.
struct Served {
    scheduler: Box<dyn Scheduler>,
    /// When each busy worker is done, and with which type.
    ends: BinaryHeap<Reverse<(u64, u32, usize)>>,
    types: Vec<usize>,
    asked: Vec<Duration>,
    studied: Vec<Duration>,
    concluded: Vec<Duration>,
}

impl Served {
    fn new(workers: usize) -> Self {
        let types: TypeTable = TYPES.iter().map(|_| TypeSpec::new("T")).collect();
        let setup = SchedulerSetup::new(workers, &types)
            .preemption(Some(Preemption::new(PREEMPTION_NS)))
            .queue_capacity(4096);
        Self {
            scheduler: Policy::portfolio().scheduler(&setup),
            ends: BinaryHeap::new(),
            types: Vec::with_capacity(REQUESTS),
            asked: Vec::new(),
            studied: Vec::new(),
            concluded: Vec::new(),
        }
    }

    fn arrives(&mut self, now_ns: u64, slot: usize) {
        let arrived = Event::Arrived {
            request: RequestId(self.types.len() as u32),
            request_type: RequestType::new(slot as u32),
            deadline_ns: None,
        };
        self.types.push(slot);
        self.scheduler.on_event(now_ns, arrived);
        self.study(now_ns);
        self.poll(now_ns);
    }

    fn complete_until(&mut self, until_ns: u64) {
        while let Some(&Reverse((end_ns, worker, slot))) = self.ends.peek()
            && end_ns <= until_ns
        {
            self.ends.pop();
            let samples = [Sample {
                request_type: RequestType::new(slot as u32),
                count: 1,
                service_ns: TYPES[slot].0,
            }];
            let completed = Event::Completed { worker: WorkerId(worker), samples: &samples, dropped: false };
            self.scheduler.on_event(end_ns, completed);
            self.poll(end_ns);
        }
    }

    /// No request is preempted: that would change neither what is recorded nor what a study does.
    fn poll(&mut self, now_ns: u64) {
        while let Some(action) = self.scheduler.poll(now_ns) {
            if let Action::Run { worker, request, .. } = action {
                let slot = self.types[request.0 as usize];
                let end_ns = now_ns + TYPES[slot].0;
                self.ends.push(Reverse((end_ns, worker.0, slot)));
            }
        }
    }

    fn study(&mut self, now_ns: u64) {
        let began = Instant::now();
        let Some(study) = self.scheduler.study() else {
            return;
        };
        self.asked.push(began.elapsed());
        let began = Instant::now();
        let findings = study.run();
        self.studied.push(began.elapsed());
        let began = Instant::now();
        self.scheduler.conclude(now_ns, Some(&findings));
        self.concluded.push(began.elapsed());
    }
}

/// The shortest and the longest, in this unit.
fn range(times: &[Duration], unit: Duration) -> String {
    let parts = times.iter().map(|time| time.div_duration_f64(unit));
    let (least, most) = parts.fold((f64::INFINITY, 0.0_f64), |(least, most), part| (least.min(part), most.max(part)));
    format!("{least:.2} to {most:.2}")
}

fn main() {
    println!("{HEADER}");
    for (workers, load) in CASES {
        let mut served = Served::new(workers);
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        let work_ns: f64 = TYPES.iter().map(|&(ns, share)| ns as f64 * share).sum();
        let gap_ns = work_ns / load / workers as f64;
        let mut at_ns = 0.0;
        let began = Instant::now();
        for _ in 0..REQUESTS {
            let gap: f64 = Exp1.sample(&mut rng);
            at_ns += gap_ns * gap;
            let mut left: f64 = rng.random();
            let slot = TYPES.iter().position(|(_, share)| {
                left -= share;
                left <= 0.0
            });
            served.complete_until(at_ns as u64);
            served.arrives(at_ns as u64, slot.unwrap_or(0));
        }
        let studies: Duration = served.studied.iter().sum();
        let others = (began.elapsed() - studies) / REQUESTS as u32;
        println!(
            "{workers:7}  {:>12}  {:>12}  {:>15}  {:>4}",
            range(&served.asked, Duration::from_micros(1)),
            range(&served.studied, Duration::from_secs(1)),
            range(&served.concluded, Duration::from_micros(1)),
            others.as_nanos()
        );
    }
}
