//! What one study does: it finds the best candidate, and makes the scheduler to go on under.
//!
//! ```text
//!   Portfolio ── Assignment ──► study's thread ── findings ──► Portfolio
//!       └── Assigned ◄───────────── the scheduler ───────────────┘
//! ```
//!
//! The scheduler is made on the study's thread, which has the time to tell it all that is known of the workload.

use std::sync::mpsc::{Receiver, Sender, channel};

use super::candidates::Candidate;
use super::contest::{Contest, Limits};
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
    scheduler: Receiver<Box<dyn Scheduler>>,
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
    pub(super) fn begin(
        self,
        demand_shares: Vec<f64>,
    ) -> (Assigned, impl FnOnce() -> Findings + Send) {
        let (sender, scheduler) = channel();
        let assigned = Assigned {
            candidates: self.candidates.clone(),
            present: self.setup.rest.present,
            demand_shares,
            scheduler,
        };
        (assigned, move || self.run(&sender))
    }

    fn run(mut self, next: &Sender<Box<dyn Scheduler>>) -> Findings {
        self.replaced = None;
        let Self {
            setup, candidates, ..
        } = &self;
        let tape = tape(&self.record, self.requests, setup.rest.seed);
        let known = &tape[..tape.len().min(HISTORY_MAX)];
        let samples = samples(known, setup.types.len());
        let span_ns = known.last().map_or(0, |last| last.arrived_ns);
        let setup = setup.setup().history(History::new(&samples, span_ns));
        let contest = Contest {
            setup: &setup,
            ranking: Ranking {
                candidates,
                in_force: &self.in_force,
            },
            tape: &tape,
            recorded: self.record.arrivals().count(),
            limits: &self.limits,
        };
        let findings = contest.run();
        let best = &candidates[findings.choice()];
        // What is in force has learned more than the one that was tried.
        if self.begins_anew || best.name != self.in_force {
            // A portfolio that is gone wants none.
            let _ = next.send(best.scheduler(&setup));
        }
        findings
    }
}

impl Assigned {
    /// What to go on under, where so many workers are present; `None` if all stays as it is.
    pub(super) fn next(self, now_ns: u64, present: usize, findings: &Findings) -> Option<Next> {
        let mut scheduler = self.scheduler.try_recv().ok()?;
        let candidate = self.candidates.into_iter().nth(findings.choice())?;
        if present != self.present {
            scheduler.on_event(now_ns, Event::Workers { present });
        }
        Some(Next {
            candidate,
            scheduler,
            demand_shares: self.demand_shares,
        })
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
