//! What one study does: it finds the best candidate, and makes the scheduler to go on under.
//!
//! ```text
//!   Portfolio ── Assignment ──► study's thread ── findings ──► Portfolio
//!       └── Assigned ◄──────────── scheduler, memory ────────────┘
//! ```
//!
//! The scheduler is made on the study's thread, which has the time to tell it all that is known of the workload.

use std::sync::mpsc::{Receiver, Sender, channel};

use super::candidates::Candidate;
use super::contest::{Contest, Limits};
use super::memory::{Memory, Said};
use super::owned::Owned;
use super::ranking::Ranking;
use super::record::Record;
use super::tape::{Request, tape};
use crate::event::{Event, Sample};
use crate::scheduler::Scheduler;
use crate::setup::History;
use crate::study::Findings;

/// Requests of the tape that a scheduler has for its history.
const HISTORY_MAX: usize = 16_384;

/// See the [module](self).
pub(super) struct Assignment {
    /// With hints as measured.
    pub(super) setup: Owned,
    pub(super) candidates: Vec<Candidate>,
    /// Name of the candidate in force.
    pub(super) in_force: String,
    /// What it is told of earlier studies.
    pub(super) told: Said,
    /// Arrivals before it.
    pub(super) arrivals: u64,
    /// Whether what is in force was made for other requests: it begins anew, then, if it is the best.
    pub(super) begins_anew: bool,
    pub(super) record: Record,
    /// Requests of the longest trial.
    pub(super) requests: usize,
    pub(super) limits: Limits,
    /// A scheduler that is in force no longer, to be dropped.
    pub(super) replaced: Option<Box<dyn Scheduler>>,
}

/// What the portfolio keeps of an assignment.
pub(super) struct Assigned {
    candidates: Vec<Candidate>,
    /// Workers that were present.
    present: usize,
    demand_shares: Vec<f64>,
    /// Arrivals before the study.
    arrivals: u64,
    /// The workload has moved since.
    is_outdated: bool,
    made: Receiver<Made>,
}

/// What the study's thread made.
struct Made {
    /// To go on under; `None` if what is in force stays.
    scheduler: Option<Box<dyn Scheduler>>,
    said: Said,
}

/// What to go on under.
pub(super) struct Next {
    pub(super) candidate: Candidate,
    pub(super) scheduler: Box<dyn Scheduler>,
    /// Per type slot: its part of the demand that the scheduler was made for.
    pub(super) demand_shares: Vec<f64>,
}

impl Assignment {
    /// Returns what the portfolio keeps, and the work for the study's thread.
    pub(super) fn begin(self, demand_shares: Vec<f64>) -> (Assigned, impl FnOnce() -> Findings + Send) {
        let (sender, made) = channel();
        let assigned = Assigned {
            candidates: self.candidates.clone(),
            present: self.setup.rest.present,
            demand_shares,
            arrivals: self.arrivals,
            is_outdated: false,
            made,
        };
        (assigned, move || self.run(&sender))
    }

    fn run(mut self, made: &Sender<Made>) -> Findings {
        self.replaced = None;
        let Self { setup, candidates, .. } = &self;
        let tape = tape(&self.record, self.requests, setup.rest.seed);
        let known = &tape[..tape.len().min(HISTORY_MAX)];
        let samples = samples(known, setup.types.len());
        let span_ns = known.last().map_or(0, |last| last.arrived_ns);
        let setup = setup.setup().history(History::new(&samples, span_ns));
        let contest = Contest {
            setup: &setup,
            ranking: Ranking { candidates, in_force: &self.in_force, told: &self.told },
            tape: &tape,
            recorded: self.record.arrivals().count(),
            limits: &self.limits,
        };
        let (findings, said) = contest.run();
        let best = &candidates[findings.choice()];
        // What is in force has learned more than the one that was tried.
        let is_next = self.begins_anew || best.name != self.in_force;
        let scheduler = is_next.then(|| best.scheduler(&setup));
        // A portfolio that is gone wants none.
        let _ = made.send(Made { scheduler, said });
        findings
    }
}

impl Assigned {
    /// The workload is another one: later studies are told nothing of this one.
    pub(super) fn forget(&mut self) {
        self.is_outdated = true;
    }

    /// What to go on under, where so many workers are present; `None` if all stays as it is. Puts what the study said
    /// into `memory`.
    pub(super) fn next(self, now_ns: u64, present: usize, findings: &Findings, memory: &mut Memory) -> Option<Next> {
        let made = self.made.try_recv().ok()?;
        if !self.is_outdated {
            memory.take(self.arrivals, made.said);
        }
        let mut scheduler = made.scheduler?;
        let candidate = self.candidates.into_iter().nth(findings.choice())?;
        if present != self.present {
            scheduler.on_event(now_ns, Event::Workers { present });
        }
        Some(Next { candidate, scheduler, demand_shares: self.demand_shares })
    }
}

/// What workers would have measured.
fn samples(tape: &[Request], types: usize) -> Vec<Sample> {
    let sample = |request: &Request| Sample {
        request_type: request.request_type(types),
        count: 1,
        service_ns: request.service_ns,
    };
    tape.iter().map(sample).collect()
}
