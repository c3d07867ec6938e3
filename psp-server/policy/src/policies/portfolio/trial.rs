//! A trial: one scheduler over a tape of requests in virtual time, and the slowdowns that come of it.
//!
//! ```text
//!   tape ── arrivals ──► Scheduler ── Run, Preempt ──► workers: one time each, of the end or of the freed worker
//!                            ▲                             │
//!                            └──── Completed, Yielded ─────┘
//! ```
//!
//! A preemption takes what the server reckons with in the median, and its times are log-normal: with the mechanisms of
//! `docs/preemption.md` one preemption in a hundred takes three to seven times as long as most. Everything else takes
//! no time. No request waits for anything but a worker.

use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;
use rand_distr::{Distribution, LogNormal};

use super::figures::PERCENTILE;
use super::tape::Request;
use crate::event::{Action, Event, RequestId, Sample, WorkerId};
use crate::parts::worker_times::WorkerTimes;
use crate::request_type::RequestType;
use crate::scheduler::Scheduler;
use crate::setup::SchedulerSetup;

/// Ticks in a row without anything else, after which what waits is taken to wait for ever.
const TICKS_MAX: u32 = 1_000;

/// A request is far too late beyond so many times the slowdown that it may have.
const FAR: f64 = 4.0;
/// A trial ends once this part of its requests is far too late, waits or is refused: what comes after is in vain.
const HOPELESS: f64 = 0.05;

/// A trial ends after so many turns for each of its requests, too: with service times of seconds and turns of
/// microseconds it would take minutes.
const TURNS_MAX: u64 = 1_000;

/// Standard deviation of the logarithm of the time that a preemption takes: that of signals.
const PREEMPT_SIGMA: f64 = 0.5;

/// What a worker runs.
#[derive(Debug, Clone, Copy)]
struct Turn {
    request: u32,
    started_ns: u64,
    /// For how long it ran, once it was asked to stop.
    stopped_after_ns: Option<u64>,
}

/// See the [module](self).
pub(super) struct Trial<'a> {
    tape: &'a [Request],
    /// Per type slot.
    limits: &'a [f64],
    scheduler: Box<dyn Scheduler>,
    types: usize,
    /// What a preemption takes, in nanoseconds.
    preemption: LogNormal<f64>,
    rng: Xoshiro256PlusPlus,
    turns: Vec<Option<Turn>>,
    /// When each worker is free.
    free_at: WorkerTimes,
    /// Per request.
    remaining_ns: Vec<u64>,
    /// Per request; infinite for those that did not end.
    slowdowns: Vec<f32>,
    arrived: usize,
    /// How often a request went to a worker.
    turns_begun: u64,
    /// Requests that are far too late or were refused.
    lost: usize,
    /// Those of them that count.
    lost_that_count: usize,
    /// The trial ends once it has more of these.
    lost_that_count_max: usize,
    /// The first request that counts.
    counts_from: usize,
    ended: usize,
    now_ns: u64,
    ticked_ns: u64,
}

/// What came of a trial.
#[derive(Debug)]
pub(super) struct Outcome {
    /// Of each request, in order of arrival; infinite for those that did not end.
    pub(super) slowdowns: Vec<f32>,
    /// How often a request went to a worker.
    pub(super) turns: u64,
}

impl<'a> Trial<'a> {
    pub(super) fn new(
        setup: &SchedulerSetup<'_>,
        scheduler: Box<dyn Scheduler>,
        tape: &'a [Request],
        limits: &'a [f64],
    ) -> Self {
        Self {
            tape,
            limits,
            scheduler,
            types: setup.types.len(),
            preemption: costs(setup),
            rng: Xoshiro256PlusPlus::seed_from_u64(setup.seed),
            turns: vec![None; setup.workers],
            free_at: WorkerTimes::new(setup.workers),
            remaining_ns: tape.iter().map(|request| request.service_ns).collect(),
            slowdowns: vec![f32::INFINITY; tape.len()],
            arrived: 0,
            turns_begun: 0,
            lost: 0,
            lost_that_count: 0,
            lost_that_count_max: usize::MAX,
            counts_from: 0,
            ended: 0,
            now_ns: 0,
            ticked_ns: 0,
        }
    }

    /// Ends the trial as soon as the percentile that counts is far beyond the limit of some type, of the requests from
    /// this one on.
    pub(super) fn until_far(self, counts_from: usize) -> Self {
        // Of one type there are more than that part, then.
        let max = (self.tape.len() - counts_from) as f64 * (1.0 - PERCENTILE);
        Self { lost_that_count_max: max as usize, counts_from, ..self }
    }

    /// What comes of it. All slowdowns are infinite after a hopeless or an endless trial, and after one that ended
    /// early.
    pub(super) fn run(mut self) -> Outcome {
        let mut ticks = 0;
        let lost_max = (self.tape.len() as f64 * HOPELESS) as usize;
        let turns_max = self.tape.len() as u64 * TURNS_MAX;
        loop {
            let arrival = self.tape.get(self.arrived);
            let arrival_ns = arrival.map_or(u64::MAX, |request| request.arrived_ns);
            let free_ns = self.free_at.earliest_ns().unwrap_or(u64::MAX);
            let deadline_ns = self.scheduler.deadline_ns();
            // A deadline that does not move must not stop the clock.
            let tick_ns = deadline_ns.map_or(u64::MAX, |ns| ns.max(self.ticked_ns + 1));
            let next_ns = arrival_ns.min(free_ns).min(tick_ns);
            if next_ns == u64::MAX || ticks == TICKS_MAX {
                return self.outcome();
            }
            let late = self.lost + (self.arrived - self.ended);
            let is_far = self.lost_that_count > self.lost_that_count_max;
            if late > lost_max + self.turns.len() || self.turns_begun > turns_max || is_far {
                self.slowdowns.fill(f32::INFINITY);
                return self.outcome();
            }
            self.now_ns = next_ns.max(self.now_ns);
            ticks = if free_ns.min(arrival_ns) <= next_ns {
                0
            } else {
                ticks + 1
            };
            if free_ns <= next_ns {
                self.worker_free();
            } else if arrival_ns <= next_ns {
                self.arrive();
            } else {
                self.ticked_ns = self.now_ns;
                self.scheduler.on_event(self.now_ns, Event::Tick);
            }
            self.poll();
        }
    }

    fn outcome(self) -> Outcome {
        Outcome { slowdowns: self.slowdowns, turns: self.turns_begun }
    }

    fn request_type(&self, request: usize) -> RequestType {
        self.tape[request].request_type(self.types)
    }

    fn arrive(&mut self) {
        let arrived = Event::Arrived {
            request: RequestId(self.arrived as u32),
            request_type: self.request_type(self.arrived),
            deadline_ns: None,
        };
        self.arrived += 1;
        self.scheduler.on_event(self.now_ns, arrived);
    }

    fn worker_free(&mut self) {
        let Some((_, worker)) = self.free_at.earliest() else {
            return;
        };
        self.free_at.clear(worker);
        let Some(turn) = self.turns[worker.index()].take() else {
            return;
        };
        let index = turn.request as usize;
        if let Some(served_ns) = turn.stopped_after_ns {
            self.remaining_ns[index] -= served_ns;
            let yielded = Event::Yielded { worker, served_ns };
            self.scheduler.on_event(self.now_ns, yielded);
            return;
        }
        let Request { arrived_ns, service_ns, slot } = self.tape[index];
        let slowdown = (self.now_ns - arrived_ns) as f64 / service_ns as f64;
        self.slowdowns[index] = slowdown as f32;
        self.ended += 1;
        if slowdown > self.limits[slot] * FAR {
            self.lose(index);
        }
        let samples = [Sample { request_type: self.request_type(index), count: 1, service_ns }];
        let completed = Event::Completed { worker, samples: &samples, dropped: false };
        self.scheduler.on_event(self.now_ns, completed);
    }

    fn poll(&mut self) {
        while let Some(action) = self.scheduler.poll(self.now_ns) {
            match action {
                Action::Run { worker, request, .. } => {
                    self.turns_begun += 1;
                    self.turns[worker.index()] = Some(Turn {
                        request: request.0,
                        started_ns: self.now_ns,
                        stopped_after_ns: None,
                    });
                    let remaining_ns = self.remaining_ns[request.0 as usize];
                    self.free_at.set(worker, self.now_ns + remaining_ns);
                }
                Action::Preempt { worker, .. } => self.preempt(worker),
                // Its slowdown stays infinite.
                Action::Reject { request, .. } => {
                    self.ended += 1;
                    self.lose(request.0 as usize);
                }
            }
        }
    }

    fn lose(&mut self, request: usize) {
        self.lost += 1;
        self.lost_that_count += usize::from(request >= self.counts_from);
    }

    fn preempt(&mut self, worker: WorkerId) {
        if let Some(turn) = &mut self.turns[worker.index()] {
            turn.stopped_after_ns = Some(self.now_ns - turn.started_ns);
            let takes_ns = self.preemption.sample(&mut self.rng) as u64;
            self.free_at.set(worker, self.now_ns + takes_ns);
        }
    }
}

/// What a preemption takes, in nanoseconds.
fn costs(setup: &SchedulerSetup<'_>) -> LogNormal<f64> {
    let median_ns = setup.preemption.map_or(0, |preemption| preemption.cost_ns);
    let mu = (median_ns.max(1) as f64).ln();
    LogNormal::new(mu, PREEMPT_SIGMA).expect("sigma is finite")
}
