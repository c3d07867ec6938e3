//! A portfolio of policies: the one in force is the one that does best on what arrived lately, by trials in virtual
//! time.
//!
//! ```text
//!   driver ── events ──► the policy in force ── actions ──► driver
//!               │               ▲
//!               ▼               │ switch, as when a server changes its policy
//!            record ── study ── trials of all candidates ── findings
//!                     (aside, on another thread)
//! ```
//!
//! Portfolio scheduling is known from clusters and clouds (Deng et al., *Exploring portfolio scheduling for long-term
//! execution of scientific workloads in IaaS clouds*, SC 2013). Here the candidates are schedulers, and the trial of a
//! candidate is the scheduler itself over the recorded arrivals, with service times drawn from those measured.
//!
//! A study is due after 1024 arrivals, after twice as many each time, and when the rate of arrivals or the types'
//! shares of the demand have moved. A driver that runs no studies has the first candidate, DARC with lending.

mod assignment;
pub(crate) mod candidates;
mod contest;
mod drift;
mod figures;
mod memory;
mod owned;
mod ranking;
mod record;
mod tape;
#[cfg(test)]
mod tests;
mod trial;

use std::mem;

use crate::backlog::Handover;
use crate::event::{Action, Event};
use crate::request_type::RequestType;
use crate::scheduler::{Relief, Scheduler, TypeStatus, switch};
use crate::settings;
use crate::setup::SchedulerSetup;
use crate::study::{Findings, Study};
use assignment::{Assigned, Assignment, Next};
use candidates::{Candidate, candidates};
use contest::{Limits, any_ample};
use drift::{Drift, Moved, shares_differ};
use memory::Memory;
use owned::Owned;
use record::Record;

/// See the [module](self).
pub(crate) struct Portfolio {
    settings: settings::Portfolio,
    setup: Owned,
    in_force: Candidate,
    /// Per type slot: its part of the demand when that one was made. `None` before the first study.
    made_for: Option<Vec<f64>>,
    scheduler: Box<dyn Scheduler>,
    record: Record,
    drift: Drift,
    /// Slot of what each worker runs.
    running: Vec<Option<usize>>,
    arrivals: u64,
    next_study: u64,
    /// The study that runs.
    studied: Option<Assigned>,
    /// The scheduler that was in force before. The next study drops it: to free its memory can take a millisecond.
    replaced: Option<Box<dyn Scheduler>>,
    /// Counts of the schedulers that were in force before.
    before: Vec<TypeStatus>,
    updates_before: u64,
    /// What the studies before said of this workload.
    memory: Memory,
}

impl Portfolio {
    pub(crate) fn new(setup: &SchedulerSetup<'_>, settings: &settings::Portfolio) -> Self {
        let in_force = Candidate::first(settings.slo_slowdown);
        // The caller tells it how many workers are present.
        let all = setup.clone().present(setup.workers);
        Self {
            settings: settings.clone(),
            scheduler: in_force.scheduler(&all),
            setup: Owned::new(all),
            in_force,
            made_for: None,
            record: Record::new(setup.types),
            drift: Drift::new(setup.types),
            running: vec![None; setup.workers],
            arrivals: 0,
            next_study: settings.first_study,
            studied: None,
            replaced: None,
            before: vec![TypeStatus::default(); setup.types.len() + 1],
            updates_before: 0,
            memory: Memory::default(),
        }
    }

    fn record(&mut self, now_ns: u64, event: &Event<'_>) {
        match event {
            Event::Arrived { request_type, .. } => {
                let slot = self.setup.types.slot(*request_type);
                self.record.arrived(now_ns, slot);
                self.arrivals += 1;
                let moved = self.drift.arrived(now_ns, slot, &self.record);
                if moved == Some(Moved::Shares) {
                    self.forget();
                }
                if moved.is_some() {
                    self.next_study = self.next_study.min(self.arrivals);
                }
            }
            Event::Completed { worker, samples, .. } if !samples.is_empty() => {
                let service_ns = samples.iter().map(|sample| sample.service_ns).sum();
                let first = || self.setup.types.slot(samples[0].request_type);
                let slot = self.running[worker.index()].take().unwrap_or_else(first);
                self.record.took(slot, service_ns);
            }
            Event::Workers { present } if self.setup.rest.present != *present => {
                self.setup.rest.present = *present;
                self.forget();
                let soon = self.arrivals.max(self.settings.first_study);
                self.next_study = self.next_study.min(soon);
            }
            _ => {}
        }
    }

    /// What studies said is of another workload, that of the study that runs, too.
    fn forget(&mut self) {
        self.memory.forget();
        if let Some(assigned) = &mut self.studied {
            assigned.forget();
        }
    }

    /// Slowdowns that types may have. The longest mean makes those of requests without a type.
    fn limits(&self, setup: &Owned) -> Limits {
        let factor = self.settings.slo_slowdown;
        let mean_ns = |slot| self.record.mean_ns(slot);
        let specs = setup.types.specs().iter().enumerate();
        let slowdowns = specs.map(|(slot, spec)| match (spec.slo, mean_ns(slot)) {
            (Some(slo), Some(mean_ns)) => (slo.as_nanos() as f64 / mean_ns).max(1.0),
            _ => factor,
        });
        let slowdowns = slowdowns.chain([f64::INFINITY]).collect();
        let known = (0..setup.types.len()).filter_map(|slot| Some((mean_ns(slot)?, slot)));
        let shortest = known.min_by(|(one, _), (other, _)| one.total_cmp(other));
        Limits {
            slowdowns,
            shortest: shortest.map_or(0, |(_, slot)| slot),
            any_ample: any_ample(self.arrivals),
        }
    }

    fn demand_shares(&self) -> Vec<f64> {
        self.record.demand_shares(self.record.counts())
    }

    /// Whether what is in force was made for other shares of the demand.
    fn has_old_hints(&self) -> bool {
        let made_for = self.made_for.as_ref();
        made_for.is_none_or(|shares| shares_differ(&self.demand_shares(), shares))
    }

    /// Goes on under a candidate.
    fn switch_to(&mut self, now_ns: u64, mut next: Next) {
        for (slot, before) in self.before.iter_mut().enumerate() {
            let status = self.scheduler.type_status(slot);
            before.steals += status.steals;
            before.relieved += status.relieved;
        }
        self.updates_before += self.scheduler.reservation_updates();
        if switch(&mut *self.scheduler, &mut *next.scheduler, now_ns) {
            self.replaced = Some(mem::replace(&mut self.scheduler, next.scheduler));
            self.in_force = next.candidate;
            self.made_for = Some(next.demand_shares);
        }
    }
}

impl Scheduler for Portfolio {
    fn on_event(&mut self, now_ns: u64, event: Event<'_>) {
        self.record(now_ns, &event);
        self.scheduler.on_event(now_ns, event);
    }

    fn poll(&mut self, now_ns: u64) -> Option<Action> {
        let action = self.scheduler.poll(now_ns)?;
        if let Action::Run { worker, request_type, .. } = action {
            self.running[worker.index()] = Some(self.setup.types.slot(request_type));
        }
        Some(action)
    }

    fn deadline_ns(&self) -> Option<u64> {
        self.scheduler.deadline_ns()
    }

    fn handover(&mut self) -> Option<&mut dyn Handover> {
        self.scheduler.handover()
    }

    fn same_run(&self, first: RequestType, next: RequestType) -> bool {
        self.scheduler.same_run(first, next)
    }

    fn type_status(&self, slot: usize) -> TypeStatus {
        let mut status = self.scheduler.type_status(slot);
        status.steals += self.before[slot].steals;
        status.relieved += self.before[slot].relieved;
        status
    }

    fn relief(&self, now_ns: u64, slot: usize) -> Relief {
        self.scheduler.relief(now_ns, slot)
    }

    fn reservation_updates(&self) -> u64 {
        self.updates_before + self.scheduler.reservation_updates()
    }

    fn study(&mut self) -> Option<Study> {
        if self.arrivals < self.next_study || self.studied.is_some() {
            return None;
        }
        self.next_study = 2 * self.arrivals;
        self.drift.studied();
        let setup = self.setup.clone().hinted(&self.record);
        let mean_ns = self.record.mean_of_all_ns();
        let assignment = Assignment {
            candidates: candidates(&setup.setup(), mean_ns, self.settings.slo_slowdown),
            in_force: self.in_force.name.clone(),
            told: self.memory.told(self.arrivals, self.record.arrivals().count()),
            arrivals: self.arrivals,
            begins_anew: self.has_old_hints(),
            record: self.record.clone(),
            requests: self.settings.trial_requests,
            limits: self.limits(&setup),
            setup,
            replaced: self.replaced.take(),
        };
        let (assigned, work) = assignment.begin(self.demand_shares());
        self.studied = Some(assigned);
        Some(Study::new(work))
    }

    fn conclude(&mut self, now_ns: u64, findings: Option<&Findings>) {
        let Some((assigned, findings)) = self.studied.take().zip(findings) else {
            return;
        };
        let present = self.setup.rest.present;
        if let Some(next) = assigned.next(now_ns, present, findings, &mut self.memory) {
            self.switch_to(now_ns, next);
        }
    }
}
