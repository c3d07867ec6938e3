//! A policy that is good but for one thing.

use super::view::View;
use crate::backlog::{Backlog, Handover};
use crate::custom::Custom;
use crate::event::{Action, Event};
use crate::policy::Policy;
use crate::request_type::RequestType;
use crate::scheduler::{Relief, Scheduler, TypeStatus};
use crate::setup::SchedulerSetup;
use crate::study::{Findings, Study};
use crate::traits::PreemptionUse;

/// The one thing.
#[derive(Clone, Copy)]
pub(super) enum Change {
    /// What it is built for.
    Setup(fn(SchedulerSetup<'_>) -> SchedulerSetup<'_>),
    /// Which events it hears of.
    Hears(fn(&View, &Event<'_>) -> bool),
    /// What becomes of an action; `None` if it is left out.
    Acts(fn(&View, Action) -> Option<Action>),
    /// An action after all others.
    Adds(fn(&View) -> Option<Action>),
    /// Its deadline.
    Waits(fn(&View) -> Option<u64>),
    /// Which types share a run.
    Shares(fn(&View, RequestType, RequestType) -> bool),
    /// What it says of a type.
    Says(fn(&View, TypeStatus) -> TypeStatus),
    /// What it takes over from another policy.
    TakesOver(fn(&mut Backlog)),
    /// It has no handover.
    KeepsAll,
}

/// `good` with a change.
pub(super) fn faulty(good: impl Into<Policy>, change: Change) -> Policy {
    let good = good.into();
    let scheduler = move |setup: &SchedulerSetup<'_>| -> Box<dyn Scheduler> {
        let built_for = match change {
            Change::Setup(setup_of) => setup_of(setup.clone()),
            _ => setup.clone(),
        };
        Box::new(Faulty {
            good: good.scheduler(&built_for),
            change,
            view: View::new(setup),
        })
    };
    Custom::new("faulty", scheduler).preemption(PreemptionUse::WherePossible).into()
}

struct Faulty {
    good: Box<dyn Scheduler>,
    change: Change,
    view: View,
}

impl Scheduler for Faulty {
    fn on_event(&mut self, now_ns: u64, event: Event<'_>) {
        self.view.now_ns = now_ns;
        if let Change::Hears(hears) = self.change
            && !hears(&self.view, &event)
        {
            return;
        }
        self.view.hears(&event);
        self.good.on_event(now_ns, event);
    }

    fn poll(&mut self, now_ns: u64) -> Option<Action> {
        self.view.now_ns = now_ns;
        let action = loop {
            match (self.good.poll(now_ns), self.change) {
                (Some(action), Change::Acts(acts)) => {
                    if let Some(action) = acts(&self.view, action) {
                        break Some(action);
                    }
                }
                (None, Change::Adds(adds)) => break adds(&self.view),
                (action, _) => break action,
            }
        };
        action.inspect(|action| self.view.does(action))
    }

    fn deadline_ns(&self) -> Option<u64> {
        match self.change {
            Change::Waits(waits) => waits(&self.view),
            _ => self.good.deadline_ns(),
        }
    }

    fn handover(&mut self) -> Option<&mut dyn Handover> {
        let keeps_all = matches!(self.change, Change::KeepsAll);
        if keeps_all || self.good.handover().is_none() {
            return None;
        }
        Some(self)
    }

    fn same_run(&self, first: RequestType, next: RequestType) -> bool {
        match self.change {
            Change::Shares(shares) => shares(&self.view, first, next),
            _ => self.good.same_run(first, next),
        }
    }

    fn type_status(&self, slot: usize) -> TypeStatus {
        let status = self.good.type_status(slot);
        match self.change {
            Change::Says(says) => says(&self.view, status),
            _ => status,
        }
    }

    fn relief(&self, now_ns: u64, slot: usize) -> Relief {
        self.good.relief(now_ns, slot)
    }

    fn reservation_updates(&self) -> u64 {
        self.good.reservation_updates()
    }

    fn study(&mut self) -> Option<Study> {
        self.good.study()
    }

    fn conclude(&mut self, now_ns: u64, findings: Option<&Findings>) {
        self.good.conclude(now_ns, findings);
    }
}

impl Handover for Faulty {
    fn hand_over(&mut self) -> Backlog {
        let good = self.good.handover().expect("it has one");
        good.hand_over()
    }

    fn take_over(&mut self, now_ns: u64, mut backlog: Backlog) {
        if let Change::TakesOver(changes) = self.change {
            changes(&mut backlog);
        }
        self.view.takes_over(&backlog);
        let good = self.good.handover().expect("it has one");
        good.take_over(now_ns, backlog);
    }
}
