//! DARC with lending: idle reserved workers run longer requests, and are taken back by preemption
//! when a request of their own group waits and finds no worker.
//!
//! ```text
//!   a request waits ──► DARC finds it a worker: its group's own, then longer groups' (stealing)
//!        │ none idle
//!        ├──► after a twentieth of its allowance: an idle one of shorter groups (borrowing)
//!        └──► after a tenth to six tenths of it: the longest running request is preempted
//! ```
//!
//! A request's *allowance* is the time that its SLO leaves for waiting. Groups, windows and
//! reservations are [DARC's](crate::policies::darc); without preemption it decides exactly as DARC
//! does. `docs/lending.md` has the rules.
//!
//! In a group with widely spread service times ([`service_times`]) nothing tells short requests from
//! long ones before they run. A request of such a group that has run for long is *aged*: it may be
//! preempted for any other request of its group that is not, or that ran for much less, and resumes when none of these
//! needs the worker.

mod allowances;
mod service_times;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;

use crate::backlog::Handover;
use crate::event::{Action, Event, WorkerId};
use crate::parts::dispersion::Dispersion;
use crate::parts::finishing::Finishing;
use crate::parts::grouped::Grouped;
use crate::parts::plan::Aging;
use crate::parts::running::Turn;
use crate::parts::waiting::Waiting;
use crate::policies::darc::Darc;
use crate::request_type::RequestType;
use crate::scheduler::{Relief, Scheduler, TypeStatus};
use crate::settings;
use crate::setup::SchedulerSetup;
use allowances::{Allowances, GroupAllowance, Recall};

/// See the [module](self).
pub(crate) struct Lending {
    darc: Darc,
    /// `None` if requests cannot be preempted.
    recaller: Option<Recaller>,
}

/// Costs of a preemption for which a late request runs at least: it is late again soon after.
const LATE_TURN_COSTS: u64 = 5;

/// Decides which worker to take back, and when.
#[derive(Debug)]
struct Recaller {
    settings: settings::DarcLending,
    allowances: Allowances,
    dispersion: Dispersion,
    finishing: Finishing,
    /// Per group: workers that run its requests and were not asked to stop.
    serving: Vec<usize>,
    /// Worker 0 cannot be preempted; it is the driver's own thread.
    inline: bool,
    /// For how long a late request runs at least.
    late_turn_ns: u64,
    deadline_ns: Option<u64>,
}

impl Lending {
    pub(crate) fn new(setup: &SchedulerSetup<'_>, settings: &settings::DarcLending) -> Self {
        let Some(preemption) = setup.useful_preemption() else {
            return Self { darc: Darc::new(setup, &settings.darc), recaller: None };
        };
        let grouped = Grouped::with_aging(setup, &settings.darc);
        let mut darc = Darc::over(setup, &settings.darc, grouped);
        let mut allowances = Allowances::new(setup, settings, preemption);
        allowances.follow(&mut darc);
        let recaller = Recaller {
            settings: settings.clone(),
            allowances,
            dispersion: Dispersion::new(setup),
            finishing: Finishing::new(setup, settings.spare_finishing),
            serving: vec![0; setup.types.len() + 1],
            inline: setup.inline,
            late_turn_ns: preemption.cost_ns.saturating_mul(LATE_TURN_COSTS),
            deadline_ns: None,
        };
        Self { darc, recaller: Some(recaller) }
    }
}

impl Recaller {
    fn record(&mut self, now_ns: u64, event: &Event<'_>, grouped: &Grouped) {
        match event {
            Event::Arrived { request_type, .. } => {
                let slot = grouped.queues.slot(*request_type);
                self.allowances.arrived(now_ns, slot);
            }
            Event::Completed { samples, .. } => {
                for sample in *samples {
                    let slot = grouped.queues.slot(sample.request_type);
                    self.allowances.measured(slot, sample.count, sample.service_ns);
                    self.dispersion.record(slot, sample);
                }
            }
            Event::Blocked { .. } | Event::Unblocked { .. } => {}
            Event::Workers { present } => self.allowances.set_workers(*present),
            Event::Yielded { .. } | Event::Tick => {}
        }
    }

    /// The next worker to take back, after DARC has found all the workers that it can. Sets the
    /// deadline if there is none.
    fn recall(&mut self, now_ns: u64, grouped: &mut Grouped) -> Option<Action> {
        self.deadline_ns = None;
        if grouped.queues.is_empty() && !self.allowances.any_ahead() {
            return None;
        }
        self.await_borrowing(now_ns, grouped);
        self.count_serving(grouped);
        let patience = self.patience(now_ns, grouped);
        let stopping = grouped.running.stopping();
        let coming = grouped.coming();
        let (mut serving, mut waiting, mut work_ns) = (stopping, 0, 0.0);
        let mut victim = None;
        for (number, (_, members)) in grouped.plan.groups().enumerate() {
            let allowance = *self.allowances.of(number);
            let lanes = members.iter().map(|&slot| grouped.queues.lane_len(slot));
            let waiting_here: usize = lanes.sum();
            serving += self.serving[number];
            waiting += waiting_here;
            work_ns += waiting_here as f64 * allowance.mean_ns;
            let due = match allowance.recall {
                Recall::Never => false,
                Recall::Ahead { keep, .. } => coming < waiting + keep,
                Recall::Patiently if waiting_here == 0 || waiting <= stopping => false,
                Recall::Patiently => {
                    let patience_ns = patience * allowance.patient_ns;
                    if serving > 0 {
                        let behind = (waiting - stopping) as f64 / waiting as f64;
                        work_ns * behind / serving as f64 >= patience_ns
                    } else {
                        let since_ns = waiting_since_ns(grouped, members)?;
                        self.due(now_ns, since_ns.saturating_add(patience_ns as u64))
                    }
                }
            };
            // The worker goes to the group whose turn is next; to take it for another is in vain.
            if due && urgent(now_ns, grouped).is_none_or(|urgent| number >= urgent) {
                let anyone_waits = coming < waiting || allowance.recall == Recall::Patiently;
                let wanted = match allowance.recall {
                    Recall::Ahead { keep, .. } => waiting + keep - coming,
                    Recall::Never | Recall::Patiently => waiting - stopping,
                };
                victim = self.victim(now_ns, number, anyone_waits, wanted, grouped);
            }
            if victim.is_some() {
                break;
            }
        }
        let victim = victim
            .or_else(|| self.victim_at_home(now_ns, patience, grouped))
            .or_else(|| self.victim_for_aged(now_ns, patience, grouped));
        grouped.running.preempt(victim?, 0)
    }

    /// A worker where a request is suspended that has waited for its group's patience, behind a
    /// request of a longer group.
    fn victim_at_home(&mut self, now_ns: u64, patience: f64, grouped: &Grouped) -> Option<WorkerId> {
        if !grouped.queues.any_suspended() {
            return None;
        }
        let urgent = urgent(now_ns, grouped).unwrap_or(0);
        for (worker, turn) in grouped.running.turns() {
            if !self.can_stop(worker, turn) || grouped.queues.suspended(worker) == 0 {
                continue;
            }
            let group = group_of(grouped, turn.waiting.request_type);
            for (number, (lender, members)) in grouped.plan.groups().enumerate().take(group) {
                let slots = members.iter().copied();
                let Some((_, first)) = grouped.queues.first_at(slots, worker) else {
                    continue;
                };
                let GroupAllowance { recall, patient_ns, .. } = *self.allowances.of(number);
                let waits_ns = (patience * patient_ns) as u64;
                let left_ns = lender.left_ns(first.waited_ns(now_ns)).unwrap_or(0);
                if recall != Recall::Never
                    && number >= urgent
                    && !is_before(grouped, group, turn, left_ns)
                    && self.due(now_ns, first.since_ns().saturating_add(waits_ns))
                    && !self.is_finishing(now_ns, worker, grouped)
                {
                    return Some(worker);
                }
            }
        }
        None
    }

    /// A worker that an aged request waits for, and that runs a request of its group which ran for much longer, or one
    /// of a longer group.
    fn victim_for_aged(&mut self, now_ns: u64, patience: f64, grouped: &Grouped) -> Option<WorkerId> {
        if !grouped.any_aged() {
            return None;
        }
        self.await_resuming(now_ns, grouped);
        let mut longest: Option<(usize, u64, WorkerId)> = None;
        for (number, (plan, members)) in grouped.plan.groups().enumerate() {
            let aged = plan.aging.and_then(|aging| grouped.aged_of(aging, members));
            let Some(aged) = aged else {
                continue;
            };
            for (worker, turn) in grouped.running.turns() {
                let group = group_of(grouped, turn.waiting.request_type);
                let may_come = match group.cmp(&number) {
                    Ordering::Less => false,
                    Ordering::Equal => true,
                    Ordering::Greater => plan.may_use(worker, u64::MAX),
                };
                if !may_come || !self.can_stop(worker, turn) {
                    continue;
                }
                let Some((level, first, from_ns)) = grouped.first_aged(&aged, worker) else {
                    continue;
                };
                let attained_ns = turn.attained_ns(now_ns);
                let at_ns = if number == group {
                    // It may run until it is of a higher level.
                    let Some(ends_ns) = aged.aging.ends_ns(level) else {
                        continue;
                    };
                    now_ns.saturating_add(ends_ns.saturating_sub(attained_ns))
                } else {
                    let of_own = self.allowances.of(number);
                    let waits_ns = first.served_ns as f64 * of_own.allowance_ns / of_own.mean_ns;
                    first.since_ns().saturating_add((patience * waits_ns) as u64)
                };
                if self.due(now_ns, at_ns.max(from_ns)) && !self.is_finishing(now_ns, worker, grouped) {
                    longest = longest.max(Some((group, attained_ns, worker)));
                }
            }
        }
        longest.map(|(_, _, worker)| worker)
    }

    /// Whether a turn can be asked to stop.
    const fn can_stop(&self, worker: WorkerId, turn: &Turn) -> bool {
        turn.yields && !turn.preempted && !(self.inline && worker.0 == 0)
    }

    /// For how long a request runs that was late when its turn began; 0 if it was not.
    fn late_until_ns(&self, aging: Aging, turn: &Turn) -> u64 {
        let before_ns = turn.waiting.served_ns;
        if before_ns == 0 || turn.started_ns < aging.late_at_ns(&turn.waiting) {
            return 0;
        }
        let waited_ns = turn.waiting.waited_ns(turn.started_ns);
        aging.in_time_ns(waited_ns).max(before_ns.saturating_add(self.late_turn_ns))
    }

    /// Whether the request on `worker` is about to finish. Sets the deadline for when it should have.
    fn is_finishing(&mut self, now_ns: u64, worker: WorkerId, grouped: &Grouped) -> bool {
        let Grouped { queues, running, .. } = grouped;
        let dispersion = &self.dispersion;
        let until_ns = self.finishing.until_ns(now_ns, worker, running, queues, dispersion);
        until_ns.is_some_and(|until_ns| !self.due(now_ns, until_ns))
    }

    /// Whether it is time; sets the deadline if not.
    fn due(&mut self, now_ns: u64, at_ns: u64) -> bool {
        if at_ns > now_ns {
            self.deadline_ns = Some(self.deadline_ns.map_or(at_ns, |before| before.min(at_ns)));
        }
        at_ns <= now_ns
    }

    /// Sets the deadline for requests that have not waited long enough to borrow an idle worker.
    fn await_borrowing(&mut self, now_ns: u64, grouped: &Grouped) {
        if grouped.workers.all_busy() {
            return;
        }
        for (group, members) in grouped.plan.groups() {
            if let Some(since_ns) = waiting_since_ns(grouped, members)
                && grouped.workers.any_idle(group.borrowed)
            {
                self.due(now_ns, since_ns.saturating_add(group.borrow_after_ns));
            }
        }
    }

    /// Sets the deadline for aged requests that resume on workers which stay idle until they are late.
    fn await_resuming(&mut self, now_ns: u64, grouped: &Grouped) {
        for (plan, members) in grouped.plan.groups() {
            let aged = plan.aging.and_then(|aging| grouped.aged_of(aging, members));
            let Some(aged) = aged else {
                continue;
            };
            for worker in grouped.workers.workers() {
                if let Some((_, _, from_ns)) = grouped.first_aged(&aged, worker) {
                    self.due(now_ns, from_ns);
                }
            }
        }
    }

    fn count_serving(&mut self, grouped: &Grouped) {
        self.serving.fill(0);
        for (_, turn) in grouped.running.turns() {
            if !turn.preempted {
                self.serving[group_of(grouped, turn.waiting.request_type)] += 1;
            }
        }
    }

    /// The part of its allowance that a request waits before another is preempted for it. The part
    /// grows with the pressure on longer groups, which pay for preemptions.
    fn patience(&self, now_ns: u64, grouped: &Grouped) -> f64 {
        let mut pressure = 0.0_f64;
        for (number, (_, members)) in grouped.plan.groups().enumerate().skip(1) {
            if let Some(since_ns) = oldest_since_ns(grouped, members) {
                let waited_ns = now_ns.saturating_sub(since_ns) as f64;
                pressure = pressure.max(waited_ns / self.allowances.of(number).allowance_ns.max(1.0));
            }
        }
        let settings = &self.settings;
        (pressure * settings.patience_per_pressure)
            .max(settings.patience_min)
            .min(settings.patience)
    }

    /// The worker whose request is expected to run on for longest, of the longest group. If no longer
    /// group runs any, and requests of this group age, a worker with an aged request.
    ///
    /// Longer groups yield only to requests that wait, not to future ones: they would borrow the
    /// worker again at once. A request that is about to finish frees one of the workers `wanted` by
    /// itself; others are preempted for the rest. Sets the deadline for when a request ages, or
    /// should have finished.
    fn victim(
        &mut self,
        now_ns: u64,
        number: usize,
        anyone_waits: bool,
        wanted: usize,
        grouped: &Grouped,
    ) -> Option<WorkerId> {
        let (plan, members) = grouped.plan.groups().nth(number)?;
        let first = grouped.queues.first_of(members);
        let waited_ns = first.map_or(0, |first| first.waited_ns(now_ns));
        let left_ns = left_ns_of_first(now_ns, grouped);
        let mut longest: Option<(usize, i64, WorkerId)> = None;
        let mut finishing = 0;
        for (worker, turn) in grouped.running.turns() {
            let group = group_of(grouped, turn.waiting.request_type);
            let longer = group > number;
            if !self.can_stop(worker, turn) || group < number || !grouped.queues.has_another_context(worker) {
                continue;
            }
            if longer && (!anyone_waits || !plan.may_use(worker, waited_ns) || is_before(grouped, group, turn, left_ns))
            {
                continue;
            }
            let attained_ns = turn.attained_ns(now_ns);
            if !longer {
                let Recall::Ahead { after_ns, .. } = self.allowances.of(number).recall else {
                    continue;
                };
                let late_until_ns = plan.aging.map_or(0, |aging| self.late_until_ns(aging, turn));
                let left_ns = after_ns.max(late_until_ns).saturating_sub(attained_ns);
                let aged_ns = now_ns.saturating_add(left_ns);
                if !self.due(now_ns, aged_ns) || !anyone_waits && would_take(now_ns, number, worker, grouped) {
                    continue;
                }
            }
            if self.is_finishing(now_ns, worker, grouped) {
                finishing += 1;
                continue;
            }
            let attained_ns = i64::try_from(attained_ns).unwrap_or(i64::MAX);
            let spread = matches!(self.allowances.of(group).recall, Recall::Ahead { .. });
            let remaining = if spread { attained_ns } else { -attained_ns };
            longest = longest.max(Some((group, remaining, worker)));
        }
        let longest = longest.filter(|_| finishing < wanted);
        longest.map(|(_, _, worker)| worker)
    }
}

/// Number of the group of a type. Types without a group are in the last, the rest.
fn group_of(grouped: &Grouped, request_type: RequestType) -> usize {
    let slot = grouped.queues.slot(request_type);
    let rest = grouped.plan.len() - 1;
    grouped.plan.group_of(slot).unwrap_or(rest)
}

/// The rest of the allowance of the first request that waits, of the shortest group that has any.
fn left_ns_of_first(now_ns: u64, grouped: &Grouped) -> u64 {
    let mut groups = grouped.plan.groups();
    let left_ns = groups.find_map(|(group, members)| {
        let first = grouped.queues.first_of(members)?;
        Some(group.left_ns(first.waited_ns(now_ns)).unwrap_or(0))
    });
    left_ns.unwrap_or(0)
}

/// Whether the running request would go before a request with `left_ns` of its allowance left, if
/// it waited again. To preempt it would be in vain.
fn is_before(grouped: &Grouped, number: usize, turn: &Turn, left_ns: u64) -> bool {
    let group = grouped.plan.groups().nth(number);
    let waited_ns = turn.waiting.waited_ns(turn.started_ns);
    group
        .and_then(|(group, _)| group.left_ns(waited_ns))
        .is_some_and(|own_ns| own_ns < left_ns)
}

/// Whether a request of a group longer than `number` takes `worker` at once if it is idle.
fn would_take(now_ns: u64, number: usize, worker: WorkerId, grouped: &Grouped) -> bool {
    let mut longer = grouped.plan.groups().skip(number + 1);
    longer.any(|(group, members)| {
        let anywhere = grouped.queues.first_of(members);
        let here = grouped.queues.first_at(members.iter().copied(), worker);
        let first = anywhere.into_iter().chain(here.map(|(_, waiting)| waiting));
        { first }.any(|waiting| group.may_use(worker, waiting.waited_ns(now_ns)))
    })
}

/// The group that gets the next worker that is taken back; see [`Grouped::urgent`].
fn urgent(now_ns: u64, grouped: &Grouped) -> Option<usize> {
    grouped.urgent(now_ns, |members| grouped.queues.first_of(members))
}

/// Since when the first request of some types waits that any worker may run. Times in which it
/// ran or was blocked are left out.
fn waiting_since_ns(grouped: &Grouped, members: &[usize]) -> Option<u64> {
    grouped.queues.first_of(members).map(Waiting::since_ns)
}

/// As [`waiting_since_ns`], for suspended requests, too.
fn oldest_since_ns(grouped: &Grouped, members: &[usize]) -> Option<u64> {
    let first = grouped.queues.first_of(members);
    if !grouped.queues.any_suspended() {
        return first.map(Waiting::since_ns);
    }
    let first_at = |worker| grouped.queues.first_at(members.iter().copied(), worker);
    let homes = (0..grouped.running.workers() as u32).map(WorkerId);
    let suspended = homes.filter_map(first_at).map(|(_, first)| first);
    let oldest = first.into_iter().chain(suspended);
    oldest.min_by_key(|waiting| waiting.sequence).map(Waiting::since_ns)
}

impl Scheduler for Lending {
    fn on_event(&mut self, now_ns: u64, event: Event<'_>) {
        if let Some(recaller) = &mut self.recaller {
            recaller.record(now_ns, &event, &self.darc.grouped);
        }
        let learned = self.darc.observe(now_ns, event);
        if let Some(recaller) = &mut self.recaller {
            if matches!(event, Event::Workers { .. }) {
                recaller.allowances.follow(&mut self.darc);
            }
            recaller.allowances.keep_up(now_ns, learned, &mut self.darc);
        }
    }

    fn poll(&mut self, now_ns: u64) -> Option<Action> {
        let action = self.darc.poll(now_ns);
        action.or_else(|| {
            let recaller = self.recaller.as_mut()?;
            recaller.recall(now_ns, &mut self.darc.grouped)
        })
    }

    fn deadline_ns(&self) -> Option<u64> {
        let recaller = self.recaller.as_ref();
        let recall_ns = recaller.and_then(|recaller| recaller.deadline_ns);
        let deadlines_ns = [recall_ns, self.darc.deadline_ns()];
        deadlines_ns.into_iter().flatten().min()
    }

    fn handover(&mut self) -> Option<&mut dyn Handover> {
        Some(&mut self.darc.grouped)
    }

    fn same_run(&self, first: RequestType, next: RequestType) -> bool {
        self.darc.same_run(first, next)
    }

    fn type_status(&self, slot: usize) -> TypeStatus {
        self.darc.type_status(slot)
    }

    fn relief(&self, now_ns: u64, slot: usize) -> Relief {
        self.darc.relief(now_ns, slot)
    }

    fn reservation_updates(&self) -> u64 {
        self.darc.reservation_updates()
    }
}
