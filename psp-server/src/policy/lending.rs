//! DARC with lending.

use super::darc::Darc;
use super::{Action, Backlog, Event, RequestType, Scheduler, SchedulerSetup, TypeStatus, settings};

/// What a group of types may expect.
#[derive(Debug, Clone, Copy)]
struct Terms {
    mean_ns: f64,
    budget_ns: f64,
    recalls: bool,
}

/// See the [module](self).
pub(super) struct Lending {
    settings: settings::DarcLending,
    cost_ns: Option<u64>,
    inline: bool,
    darc: Darc,
    slo_ns: Vec<Option<f64>>,
    terms: Vec<Terms>,
    updates: Option<u64>,
    /// Per type slot.
    running: Vec<u32>,
    stopping: u32,
    deadline_ns: Option<u64>,
}

impl Lending {
    pub(super) fn new(setup: &SchedulerSetup<'_>, settings: &settings::DarcLending) -> Self {
        let slots = setup.types.len() + 1;
        Self {
            settings: settings.clone(),
            cost_ns: setup.preemption.map(|p| p.cost_ns),
            inline: setup.inline,
            darc: Darc::new(setup, &settings.darc),
            slo_ns: setup
                .types
                .specs()
                .iter()
                .map(|s| s.slo.map(|d| d.as_nanos() as f64))
                .chain([None])
                .collect(),
            terms: Vec::with_capacity(slots + 1),
            updates: None,
            running: vec![0; slots],
            stopping: 0,
            deadline_ns: None,
        }
    }

    fn make_terms(&mut self) {
        let Self {
            settings,
            darc,
            terms,
            slo_ns,
            cost_ns,
            ..
        } = self;
        let cost = cost_ns.unwrap_or(0) as f64;
        terms.clear();
        for (_, members) in darc.grouped.plan.groups() {
            let (mut work, mut share, mut budget) = (0.0, 0.0, f64::INFINITY);
            for &slot in members {
                let mean = darc.profile.mean_ns(slot).unwrap_or(1e9);
                work += mean * darc.profile.share(slot).max(1e-9);
                share += darc.profile.share(slot).max(1e-9);
                let s = slo_ns[slot].unwrap_or(settings.slo_slowdown * mean);
                budget = budget.min(s - mean);
            }
            let mean_ns = work / share;
            let recalls = cost <= budget * settings.keep;
            terms.push(Terms {
                mean_ns,
                recalls,
                budget_ns: (budget - cost).max(1.0),
            });
        }
        darc.grouped
            .plan
            .lend(u32::from(self.inline), |group| terms[group].recalls);
    }

    fn recall(&mut self, now_ns: u64) -> Option<Action> {
        self.deadline_ns = None;
        let Self {
            darc,
            terms,
            running,
            settings,
            ..
        } = self;
        let grouped = &mut darc.grouped;
        if grouped.queues.is_empty() {
            return None;
        }
        let groups = grouped.plan.groups().count();
        let (mut work, mut serving) = (0.0, self.stopping);
        let mut last = 0.0f64;
        for (index, (_, members)) in grouped.plan.groups().enumerate().skip(1) {
            let Some(slot) = grouped.queues.oldest(members) else {
                continue;
            };
            last = last.max(
                now_ns.saturating_sub(grouped.queues.front(slot)?.arrived_ns) as f64
                    / terms[index].budget_ns,
            );
        }
        let patience =
            (last * settings.gain).clamp(settings.floor.min(settings.patience), settings.patience);
        for (index, (_, members)) in grouped.plan.groups().enumerate() {
            if index + 1 >= groups {
                break;
            }
            serving += members.iter().map(|&slot| running[slot]).sum::<u32>();
            let terms = terms[index];
            work += terms.mean_ns
                * members
                    .iter()
                    .map(|&slot| grouped.queues.type_status(slot).queued)
                    .sum::<usize>() as f64;
            if !terms.recalls {
                continue;
            }
            let Some(slot) = grouped.queues.oldest(members) else {
                continue;
            };
            let patience_ns = patience * terms.budget_ns;
            let due = if serving == 0 {
                let at = grouped.queues.front(slot)?.arrived_ns + patience_ns as u64 + 1;
                if now_ns < at {
                    self.deadline_ns = Some(self.deadline_ns.map_or(at, |d| d.min(at)));
                }
                now_ns >= at
            } else {
                work / f64::from(serving) >= patience_ns
            };
            if !due {
                continue;
            }
            let plan = &grouped.plan;
            let queues = &grouped.queues;
            let victim = grouped
                .running
                .turns()
                .filter(|(_, turn)| !turn.preempted)
                .filter_map(|(worker, turn)| {
                    let slot = queues.slot(turn.waiting.request_type);
                    let group = plan.group_of(slot).unwrap_or(groups - 1);
                    if group <= index {
                        return None;
                    }
                    let attained = turn.attained_ns(now_ns) as i64;
                    let age = now_ns.saturating_sub(turn.waiting.arrived_ns) as i64;
                    let (group, key) = match settings.victim {
                        0 => (group, -attained),
                        1 => (group, attained),
                        2 => (group, -age),
                        3 => (group, age),
                        4 => (0, -attained),
                        5 => (groups - group, -attained),
                        _ => (0, -(age as f64 / terms.mean_ns * 100.0) as i64),
                    };
                    Some((group, key, worker))
                })
                .max();
            if let Some((_, _, worker)) = victim {
                self.stopping += 1;
                return grouped.running.preempt(worker);
            }
        }
        None
    }
}

impl Scheduler for Lending {
    fn on_event(&mut self, now_ns: u64, event: Event<'_>) {
        if let Event::Completed { worker, .. } | Event::Yielded { worker, .. } = event {
            if let Some(turn) = self.darc.grouped.running.on(worker) {
                let slot = self.darc.grouped.queues.slot(turn.waiting.request_type);
                if turn.preempted {
                    self.stopping -= 1;
                } else {
                    self.running[slot] -= 1;
                }
            }
        }
        self.darc.on_event(now_ns, event);
    }

    fn poll(&mut self, now_ns: u64) -> Option<Action> {
        if self.cost_ns.is_none() {
            return self.darc.poll(now_ns);
        }
        if self.updates != Some(self.darc.reservation_updates()) {
            self.updates = Some(self.darc.reservation_updates());
            self.make_terms();
        }
        let mut again = u64::MAX;
        if self.settings.borrow > 0.0 {
            let Self {
                darc,
                terms,
                settings,
                ..
            } = self;
            let grouped = &mut darc.grouped;
            if !grouped.queues.is_empty() && !grouped.workers.all_busy() {
                grouped
                    .plan
                    .lend(u32::from(self.inline), |group| terms[group].recalls);
                for index in 0..terms.len() {
                    let Some((_, members)) = grouped.plan.groups().nth(index) else {
                        continue;
                    };
                    let Some(slot) = grouped.queues.oldest(members) else {
                        continue;
                    };
                    let at = grouped.queues.front(slot).unwrap().arrived_ns
                        + (settings.borrow * terms[index].budget_ns) as u64;
                    if at > now_ns {
                        grouped.plan.forbid(index);
                        again = again.min(at);
                    }
                }
            }
        }
        let action = self.darc.poll(now_ns);
        if let Some(Action::Run { request_type, .. }) = action {
            self.running[self.darc.grouped.queues.slot(request_type)] += 1;
        }
        action.or_else(|| {
            let action = self.recall(now_ns);
            if again != u64::MAX {
                self.deadline_ns = Some(self.deadline_ns.map_or(again, |d| d.min(again)));
            }
            if let Some(Action::Preempt { worker }) = action {
                let turn = self.darc.grouped.running.on(worker).unwrap();
                self.running[self.darc.grouped.queues.slot(turn.waiting.request_type)] -= 1;
            }
            action
        })
    }

    fn deadline_ns(&self) -> Option<u64> {
        self.deadline_ns
    }

    fn hand_over(&mut self) -> Backlog {
        self.darc.hand_over()
    }

    fn take_over(&mut self, now_ns: u64, backlog: Backlog) {
        self.darc.take_over(now_ns, backlog);
        self.running.fill(0);
        self.stopping = 0;
        let grouped = &self.darc.grouped;
        for (_, turn) in grouped.running.turns() {
            if turn.preempted {
                self.stopping += 1
            } else {
                self.running[grouped.queues.slot(turn.waiting.request_type)] += 1;
            }
        }
    }

    fn same_run(&self, first: RequestType, next: RequestType) -> bool {
        self.darc.same_run(first, next)
    }

    fn type_status(&self, slot: usize) -> TypeStatus {
        self.darc.type_status(slot)
    }

    fn reservation_updates(&self) -> u64 {
        self.darc.reservation_updates()
    }
}
