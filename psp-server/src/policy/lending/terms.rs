//! What each group may expect, and on what terms it lends: worked out anew whenever a profiling
//! window closes.

use super::super::darc::Darc;
use super::super::plan::{Aging, Loan};
use super::super::{Preemption, SchedulerSetup, settings};
use super::service_times::{ServiceTimes, Spread};

/// From this squared coefficient of variation on, a request that ran for long is expected to run
/// on for about as long as a new one, or longer. An exponential distribution has 1.
const SCV_MIN: f64 = 0.7;
/// Fewer requests than this part reach the age at which they may be preempted: not worth it.
const AGED_SHARE_MIN: f64 = 0.0005;
/// Shortest age, for preemptions that cost next to nothing.
const AGED_NS_MIN: f64 = 1000.0;
/// At most this part of the workers is kept idle for a group.
const KEEP_SHARE_MAX: f64 = 0.45;
/// Weight of a new window in the rates of arrival.
const RATE_WEIGHT: f64 = 0.75;
/// Mean service time of a type of which nothing is known; it counts only beside others.
const MEAN_NS_UNKNOWN: f64 = 1e9;
/// Share of a type that was not seen, so that a group has a mean all the same.
const SHARE_MIN: f64 = 1e-9;

/// How a group gets workers back when its requests wait.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Recall {
    /// It does not: preemption costs too much, or nothing runs that is longer.
    Never,
    /// After it waited for a part of its allowance.
    Patiently,
    /// At once, from its own aged requests too, so that `keep` workers are idle.
    Ahead { keep: usize, after_ns: u64 },
}

/// What holds for one group.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct GroupTerms {
    /// Mean service time.
    pub(super) mean_ns: f64,
    /// For how long its requests may wait: their SLO without the mean service time and the cost
    /// of a preemption.
    pub(super) allowance_ns: f64,
    pub(super) recall: Recall,
    /// Whether all its types give way: it borrows no worker that it would not give back.
    pub(super) gives_way: bool,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Terms {
    settings: settings::DarcLending,
    cost_ns: f64,
    /// Where more workers would have to be idle, aging does not pay.
    keep_max: usize,
    /// Worker 0 is the driver's own thread: it cannot be preempted, so it is not lent.
    first_lent: u32,
    /// Per type slot, `UNKNOWN` last: what the type was registered with.
    slo_ns: Vec<Option<f64>>,
    /// Per type slot: whether the type gives way.
    gives_way: Vec<bool>,
    /// Per type slot.
    service_times: Vec<ServiceTimes>,
    /// Per type slot: arrivals since `counted_ns`.
    arrivals: Vec<u64>,
    counted_ns: u64,
    /// Per type slot, per nanosecond.
    rates: Vec<Option<f64>>,
    groups: Vec<GroupTerms>,
    any_ahead: bool,
}

impl Terms {
    /// Nothing is known yet; [`Terms::renew`] comes next.
    pub(super) fn new(
        setup: &SchedulerSetup<'_>,
        settings: &settings::DarcLending,
        preemption: Preemption,
    ) -> Self {
        let slots = setup.types.len() + 1;
        let slo_ns = |spec: &crate::request_type::TypeSpec| Some(spec.slo?.as_nanos() as f64);
        Self {
            settings: settings.clone(),
            cost_ns: preemption.cost_ns as f64,
            keep_max: (setup.workers as f64 * KEEP_SHARE_MAX) as usize,
            first_lent: u32::from(setup.inline),
            slo_ns: setup
                .types
                .specs()
                .iter()
                .map(slo_ns)
                .chain([None])
                .collect(),
            gives_way: (0..slots).map(|slot| setup.types.gives_way(slot)).collect(),
            service_times: vec![ServiceTimes::new(); slots],
            arrivals: vec![0; slots],
            counted_ns: 0,
            rates: vec![None; slots],
            groups: Vec::with_capacity(slots + 1),
            any_ahead: false,
        }
    }

    /// Counts an arrival of the type at `slot`.
    pub(super) fn arrived(&mut self, slot: usize) {
        self.arrivals[slot] += 1;
    }

    /// Counts what a worker measured.
    pub(super) fn measured(&mut self, slot: usize, count: u32, service_ns: u64) {
        self.service_times[slot].record(count, service_ns);
    }

    /// Terms of the group with that number.
    pub(super) fn of(&self, group: usize) -> &GroupTerms {
        &self.groups[group]
    }

    /// Whether any group [recalls ahead](Recall::Ahead).
    pub(super) const fn any_ahead(&self) -> bool {
        self.any_ahead
    }

    /// Closes the window: takes what `darc` has learnt and tells its plan who lends.
    pub(super) fn renew(&mut self, now_ns: u64, darc: &mut Darc) {
        self.update_rates(now_ns);
        self.groups.clear();
        let after_ns = (self.cost_ns * self.settings.aged_after_costs).max(AGED_NS_MIN) as u64;
        let rest = darc.grouped.plan.len() - 1;
        for (number, (_, members)) in darc.grouped.plan.groups().enumerate() {
            let terms = if number == rest {
                self.of_rest(members)
            } else {
                self.of_members(members, after_ns, darc)
            };
            self.groups.push(terms);
        }
        let is_ahead = |terms: &GroupTerms| matches!(terms.recall, Recall::Ahead { .. });
        self.any_ahead = self.groups.iter().any(is_ahead);
        self.service_times.iter_mut().for_each(ServiceTimes::fade);
        let loan = |number| self.loan(number);
        darc.grouped.plan.lend(self.first_lent, loan);
    }

    fn loan(&self, number: usize) -> Loan {
        let terms = &self.groups[number];
        Loan {
            lends: terms.recall != Recall::Never,
            borrows: terms.gives_way,
            borrow_after_ns: (terms.allowance_ns * self.settings.borrow_after) as u64,
            allowance_ns: terms.allowance_ns as u64,
            aging: match terms.recall {
                Recall::Ahead { keep, after_ns } => Some(Aging {
                    after_ns,
                    spare: keep + keep / 2,
                }),
                Recall::Never | Recall::Patiently => None,
            },
        }
    }

    fn update_rates(&mut self, now_ns: u64) {
        let passed_ns = now_ns.saturating_sub(self.counted_ns);
        if passed_ns == 0 {
            return;
        }
        self.counted_ns = now_ns;
        for (rate, arrivals) in self.rates.iter_mut().zip(&mut self.arrivals) {
            let latest = std::mem::take(arrivals) as f64 / passed_ns as f64;
            let before = rate.unwrap_or(latest);
            *rate = Some(before + (latest - before) * RATE_WEIGHT);
        }
    }

    /// The rest waits as long as the longest group before it borrows, and takes nothing back.
    fn of_rest(&self, members: &[usize]) -> GroupTerms {
        let longest = self.groups.last();
        GroupTerms {
            mean_ns: longest.map_or(MEAN_NS_UNKNOWN, |longest| longest.mean_ns),
            allowance_ns: longest.map_or(0.0, |longest| longest.allowance_ns),
            recall: Recall::Never,
            gives_way: self.give_way(members),
        }
    }

    fn of_members(&self, members: &[usize], after_ns: u64, darc: &Darc) -> GroupTerms {
        let (mut work, mut share, mut waits_ns) = (0.0, 0.0, f64::INFINITY);
        for &slot in members {
            let mean_ns = darc.profile.mean_ns(slot).unwrap_or(MEAN_NS_UNKNOWN);
            let share_here = darc.profile.share(slot).max(SHARE_MIN);
            work += mean_ns * share_here;
            share += share_here;
            let slo_ns = self.slo_ns[slot].unwrap_or(mean_ns * self.settings.slo_slowdown);
            waits_ns = waits_ns.min(slo_ns - mean_ns);
        }
        let times = members.iter().map(|&slot| &self.service_times[slot]);
        let spread = ServiceTimes::spread(times, after_ns);
        let ages = |spread: &Spread| spread.scv >= SCV_MIN && spread.beyond >= AGED_SHARE_MIN;
        let keep = spread
            .filter(ages)
            .map(|spread| self.idle_to_keep(members, &spread));
        let recall = if let Some(keep) = keep.filter(|&keep| keep <= self.keep_max) {
            Recall::Ahead { keep, after_ns }
        } else if self.cost_ns <= waits_ns * self.settings.cost_max {
            Recall::Patiently
        } else {
            Recall::Never
        };
        GroupTerms {
            mean_ns: work / share,
            allowance_ns: (waits_ns - self.cost_ns).max(1.0),
            recall,
            gives_way: self.give_way(members),
        }
    }

    fn give_way(&self, members: &[usize]) -> bool {
        members.iter().all(|&slot| self.gives_way[slot])
    }

    /// As many as arrive during a preemption, and at least one, where the shortest requests cannot
    /// wait for one.
    fn idle_to_keep(&self, members: &[usize], spread: &Spread) -> usize {
        let shortest_waits_ns = spread.shortest_ns * (self.settings.slo_slowdown - 1.0);
        if shortest_waits_ns >= self.cost_ns {
            return 0;
        }
        let rates = members.iter().filter_map(|&slot| self.rates[slot]);
        let arrivals = rates.sum::<f64>() * self.cost_ns;
        (arrivals.round() as usize).max(1)
    }
}
