//! DARC with lending.

use super::darc::Darc;
use super::grouped::Dispatch;
use super::workers::WorkerRange;
use super::{
    Action, Backlog, Event, HandOff, RequestType, Scheduler, SchedulerSetup, TypeStatus, WorkerId, settings,
};

/// What a group of types may expect.
#[derive(Debug, Clone, Copy)]
struct Terms {
    mean_ns: f64,
    slo_ns: f64,
    patience_ns: u64,
}

/// See the [module](self).
pub(super) struct Lending {
    settings: settings::DarcLending,
    cost_ns: Option<u64>,
    darc: Darc,
    slo_ns: Vec<Option<f64>>,
    terms: Vec<Terms>,
    updates: u64,
    /// Per type slot.
    running: Vec<u32>,
    /// Per worker, for which group it was preempted
    pending: Vec<Option<usize>>,
    deadline_ns: Option<u64>,
    all: WorkerRange,
}

impl Lending {
    pub(super) fn new(setup: &SchedulerSetup<'_>, settings: &settings::DarcLending) -> Self {
        let slots = setup.types.len() + 1;
        Self {
            settings: settings.clone(),
            cost_ns: setup.preemption.map(|p| p.cost_ns),
            darc: Darc::new(setup, &settings.darc),
            slo_ns: setup.types.specs().iter().map(|s| s.slo.map(|d| d.as_nanos() as f64)).chain([None]).collect(),
            terms: Vec::with_capacity(slots + 1),
            updates: u64::MAX,
            running: vec![0; slots],
            pending: vec![None; setup.workers],
            deadline_ns: None,
            all: WorkerRange::new(0, setup.workers as u32),
        }
    }

    fn make_terms(&mut self) {
        let Self { settings, darc, terms, slo_ns, cost_ns, .. } = self;
        let cost = cost_ns.unwrap_or(0) as f64;
        terms.clear();
        for (_, members) in darc.grouped.plan.groups() {
            let (mut work, mut share, mut slo, mut shortest) = (0.0, 0.0, f64::INFINITY, f64::INFINITY);
            for &slot in members {
                let mean = darc.profile.mean_ns(slot).unwrap_or(1e9);
                work += mean * darc.profile.share(slot).max(1e-9);
                share += darc.profile.share(slot).max(1e-9);
                let s = slo_ns[slot].unwrap_or(settings.slo_slowdown * mean);
                if s < slo { slo = s; shortest = mean; }
            }
            let mean_ns = work / share;
            let budget = (slo - shortest - cost).max(0.0);
            terms.push(Terms { mean_ns, slo_ns: slo, patience_ns: (budget * settings.patience) as u64 });
        }
    }

    fn dispatch(&mut self, now_ns: u64) -> Option<Dispatch> {
        let Self { darc, terms, settings, all, .. } = self;
        let grouped = &mut darc.grouped;
        if grouped.queues.is_empty() || grouped.workers.all_busy() {
            return None;
        }
        let mut choice = None;
        let mut urgent = settings.urgency;
        for (index, (group, members)) in grouped.plan.groups().enumerate() {
            let Some(slot) = grouped.queues.oldest(members) else { continue };
            if choice.is_none() { choice = Some((group.clone(), slot)); }
            let ratio = now_ns.saturating_sub(grouped.queues.front(slot)?.arrived_ns) as f64 / terms[index].slo_ns;
            if ratio > urgent { urgent = ratio; choice = Some((group.clone(), slot)); }
        }
        let (group, slot) = choice?;
        let worker = grouped.workers.take(group.own).or_else(|| grouped.workers.take(group.further)).or_else(|| grouped.workers.take(*all))?;
        let waiting = grouped.queues.pop(slot)?;
        self.running[slot] += 1;
        self.pending[worker.index()] = None;
        Some(Dispatch {
            action: grouped.running.start(now_ns, worker, waiting, HandOff::Dispatched),
            slot,
            delay_ns: if waiting.served_ns > 0 { 0 } else { now_ns.saturating_sub(waiting.arrived_ns) },
        })
    }

    fn reclaim(&mut self, now_ns: u64) -> Option<Action> {
        self.deadline_ns = None;
        let Self { darc, terms, running, pending, settings, .. } = self;
        let grouped = &mut darc.grouped;
        if grouped.queues.is_empty() { return None; }
        let groups = grouped.plan.groups().count();
        let (mut work, mut serving) = (0.0, 0u32);
        for (index, (_, members)) in grouped.plan.groups().enumerate() {
            if index + 1 >= groups { break; }
            serving += members.iter().map(|&slot| running[slot]).sum::<u32>();
            serving += pending.iter().filter(|p| **p == Some(index)).count() as u32;
            let terms = terms[index];
            work += terms.mean_ns * members.iter().map(|&slot| grouped.queues.type_status(slot).queued).sum::<usize>() as f64;
            let Some(slot) = grouped.queues.oldest(members) else { continue };
            let due = if serving == 0 {
                let at = grouped.queues.front(slot)?.arrived_ns + terms.patience_ns;
                if now_ns < at { self.deadline_ns = Some(self.deadline_ns.map_or(at, |d| d.min(at))); }
                now_ns >= at
            } else {
                work / f64::from(serving) >= terms.patience_ns as f64
            };
            if !due { continue; }
            let plan = &grouped.plan;
            let queues = &grouped.queues;
            let victim = grouped.running.turns()
                .filter(|(_, turn)| !turn.preempted)
                .filter_map(|(worker, turn)| {
                    let slot = queues.slot(turn.waiting.request_type);
                    let group = plan.group_of(slot).unwrap_or(groups - 1);
                    if group <= index { return None; }
                    let attained = turn.attained_ns(now_ns) as i64;
                    let age = now_ns.saturating_sub(turn.waiting.arrived_ns) as i64;
                    let key = match settings.victim { 0 => -attained, 1 => attained, 2 => -age, _ => age };
                    Some((group, key, worker))
                })
                .max();
            if let Some((_, _, worker)) = victim {
                pending[worker.index()] = Some(index);
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
                self.running[slot] = self.running[slot].saturating_sub(1);
            }
            self.pending[worker.index()] = None;
        }
        self.darc.on_event(now_ns, event);
    }

    fn poll(&mut self, now_ns: u64) -> Option<Action> {
        if self.cost_ns.is_none() {
            return self.darc.poll(now_ns);
        }
        if self.updates != self.darc.reservation_updates() {
            self.updates = self.darc.reservation_updates();
            self.make_terms();
        }
        if let Some(refused) = self.darc.grouped.queues.pop_refused() {
            return Some(refused);
        }
        if let Some(dispatch) = self.dispatch(now_ns) {
            return Some(self.darc.note_delay(&dispatch));
        }
        self.reclaim(now_ns)
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
        self.pending.fill(None);
        let grouped = &self.darc.grouped;
        for (_, turn) in grouped.running.turns() {
            self.running[grouped.queues.slot(turn.waiting.request_type)] += 1;
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
