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

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use crate::event::HandOff;
    use crate::request_type::{TypeSpec, TypeTable};
    use crate::setup::Preemption;

    /// One worker, in order of arrival.
    #[derive(Default)]
    struct InOrder {
        /// Requests that are refused: those before this one.
        refused: u32,
        /// Ticks before anything runs.
        held: u32,
        /// Preempts each turn after so long, so many times in all.
        quantum_ns: u64,
        preemptions: u32,
        waits: VecDeque<(RequestId, RequestType)>,
        runs: Option<(RequestId, RequestType)>,
        /// When the turn ends, unless it is asked to end.
        until_ns: Option<u64>,
    }

    impl Scheduler for InOrder {
        fn on_event(&mut self, _: u64, event: Event<'_>) {
            match event {
                Event::Arrived { request, request_type, .. } => self.waits.push_back((request, request_type)),
                Event::Completed { samples: [sample], .. } => {
                    let (_, request_type) = self.runs.take().unwrap();
                    assert_eq!((sample.request_type, sample.count), (request_type, 1));
                    assert!(sample.service_ns < 1_000_000_000, "{}", sample.service_ns);
                }
                Event::Yielded { served_ns, .. } => {
                    assert_eq!(served_ns, self.quantum_ns);
                    self.waits.push_front(self.runs.take().unwrap());
                }
                _ => self.held = self.held.saturating_sub(1),
            }
        }

        fn poll(&mut self, now_ns: u64) -> Option<Action> {
            let worker = WorkerId(0);
            if let Some(&(request, request_type)) = self.waits.front().filter(|(request, _)| request.0 < self.refused) {
                self.waits.pop_front();
                return Some(Action::Reject { request, request_type });
            }
            if self.runs.is_none() && self.held == 0 {
                let (request, request_type) = self.waits.pop_front()?;
                self.runs = Some((request, request_type));
                self.until_ns = (self.preemptions > 0).then_some(now_ns + self.quantum_ns);
                let hand_off = HandOff::Dispatched;
                return Some(Action::Run { worker, request, request_type, hand_off });
            }
            self.until_ns.take_if(|until_ns| *until_ns <= now_ns)?;
            self.preemptions -= 1;
            Some(Action::Preempt { worker, quantum_ns: self.quantum_ns })
        }

        fn deadline_ns(&self) -> Option<u64> {
            // That of requests that are held does not move.
            self.until_ns.or((self.held > 0 && !self.waits.is_empty()).then_some(1))
        }
    }

    fn request(arrived_ns: u64, service_ns: u64) -> Request {
        Request { arrived_ns, service_ns, slot: 0 }
    }

    /// Runs a trial of one type and of requests without a type.
    fn run(scheduler: InOrder, tape: &[Request]) -> Outcome {
        run_from(scheduler, tape, None)
    }

    fn run_from(scheduler: InOrder, tape: &[Request], counts_from: Option<usize>) -> Outcome {
        let types: TypeTable = [TypeSpec::new("ONE")].into_iter().collect();
        let setup = SchedulerSetup::new(1, &types).preemption(Some(Preemption::new(1_000)));
        let trial = Trial::new(&setup, Box::new(scheduler), tape, &[1.0, f64::INFINITY]);
        let trial = counts_from.into_iter().fold(trial, Trial::until_far);
        trial.run()
    }

    /// After `first`, requests of 1 ns that find nobody there.
    fn then_alone(first: Vec<Request>, count: usize) -> Vec<Request> {
        let alone = (first.len()..count).map(|number| request(1_000_000 * number as u64, 1));
        first.iter().copied().chain(alone).collect()
    }

    fn is_whole(outcome: &Outcome) -> bool {
        outcome.slowdowns.iter().any(|slowdown| slowdown.is_finite())
    }

    #[test]
    fn slowdowns_are_times_until_the_end_by_service_times() {
        let untyped = Request { slot: 1, ..request(500, 10) };
        let tape = then_alone(vec![request(10, 100), request(20, 50), untyped], 100);
        let outcome = run(InOrder::default(), &tape);
        assert_eq!(outcome.slowdowns[..4], [1.0, 2.8, 1.0, 1.0]);
        assert_eq!(outcome.turns, 100);
        let outcome = run(InOrder { refused: 1, ..InOrder::default() }, &tape);
        assert_eq!(outcome.slowdowns[..3], [f32::INFINITY, 1.0, 1.0]);
    }

    #[test]
    fn a_preemption_takes_its_time_and_what_was_served_is_served() {
        let restless = InOrder { quantum_ns: 300_000, preemptions: 3, ..InOrder::default() };
        let outcome = run(restless, &[request(5_000, 1_000_000)]);
        let cost_ns = (f64::from(outcome.slowdowns[0]) - 1.0) * 1e6 / 3.0;
        assert!((300.0..5_000.0).contains(&cost_ns), "{cost_ns}");
        assert_eq!(outcome.turns, 4);
    }

    #[test]
    fn a_trial_ends_after_a_thousand_turns_for_each_request() {
        for (preemptions, ends) in [(999, true), (1_000, false)] {
            let restless = InOrder { preemptions, ..InOrder::default() };
            assert_eq!(is_whole(&run(restless, &[request(0, 10)])), ends, "{preemptions}");
        }
    }

    #[test]
    fn a_trial_ends_after_a_thousand_ticks_in_which_nothing_happens() {
        for (held, expected) in [(1, 1.1), (999, 100.9), (1_000, f32::INFINITY)] {
            // Each tick is a nanosecond after the one before, the first at the deadline.
            let outcome = run(InOrder { held, ..InOrder::default() }, &[request(0, 10)]);
            assert_eq!(outcome.slowdowns, [expected]);
        }
        // An arrival is something.
        let tape = then_alone([0, 700, 1_400].map(|at_ns| request(at_ns, 10)).to_vec(), 100);
        let outcome = run(InOrder { held: 1_800, ..InOrder::default() }, &tape);
        assert!(outcome.slowdowns[0].is_finite());
    }

    #[test]
    fn a_trial_is_hopeless_once_a_twentieth_and_one_for_each_worker_is_late() {
        for (refused, waiting, is_hopeless) in [(0, 6, false), (0, 7, true), (3, 3, false), (3, 4, true)] {
            let first = vec![request(0, 1_000); waiting + refused as usize];
            let outcome = run(InOrder { refused, ..InOrder::default() }, &then_alone(first, 100));
            assert_eq!(is_whole(&outcome), !is_hopeless, "{refused} {waiting}");
        }
    }

    #[test]
    fn a_trial_that_need_not_end_ends_once_more_than_a_thousandth_is_far_too_late() {
        // Of two that arrive together the second has a slowdown of 4 or of 5, where 1 is allowed.
        let far = |at_ns, count| [request(at_ns, 3 + count), request(at_ns, 1)];
        let tape = |pairs: [u64; 4]| {
            let early = (0..20).flat_map(|number| far(1_000 * number, 1));
            let mut tape = then_alone(early.collect(), 2_000);
            for (pair, count) in pairs.into_iter().enumerate() {
                let at = 1_000 + 2 * pair;
                let pair = far(tape[at].arrived_ns, count);
                tape[at..at + 2].copy_from_slice(&pair);
            }
            tape
        };
        for (pairs, ends) in [([0; 4], true), ([0, 1, 0, 0], true), ([0, 1, 1, 0], false)] {
            let from = |at| run_from(InOrder::default(), &tape(pairs), at);
            assert!(is_whole(&from(None)) && !is_whole(&from(Some(0))));
            assert_eq!(is_whole(&from(Some(1_000))), ends, "{pairs:?}");
        }
    }
}
