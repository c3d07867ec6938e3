//! How long each group's requests may wait, and how the group lends: computed anew whenever a
//! profiling window closes.

use crate::parts::plan::{Aging, Loan};
use crate::parts::profile::Learned;
use crate::parts::slos::Slos;
use crate::policies::darc::Darc;
use crate::policies::lending::service_times::{ServiceTimes, Spread};
use crate::settings;
use crate::setup::{History, Preemption, SchedulerSetup};

/// From this squared coefficient of variation on, the shortest requests of a type say how long its requests may wait.
const SCV_VARIES: f64 = 0.05;
/// Least patience is a part of so many costs of a preemption.
const PATIENT_COSTS: f64 = 2.0;
/// Samples after which the spread is looked at first, and again at twice as many, and so on, until a window closes.
const LOOK_SAMPLES: u64 = 512;
/// From this squared coefficient of variation on, a request that ran for long is expected to run
/// on for about as long as a new one, or longer. An exponential distribution has 1.
const SCV_MIN: f64 = 0.7;
/// This part of a group's work is of requests that are aged, if preemptions are cheap enough.
const AGED_WORK: f64 = 0.25;
/// Aging pays only if a request is aged after so many costs of a preemption or more.
const AGED_COSTS_MIN: f64 = 3.0;
/// Aging pays only if at least this part of the requests reach the age.
const AGED_SHARE_MIN: f64 = 0.0005;
/// Shortest age, for preemptions that cost next to nothing.
const AGED_NS_MIN: f64 = 1000.0;
/// An aged request is late after this part of the allowance of one that is as long as it ran.
const LATE_AFTER: f64 = 0.2;
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
pub(crate) enum Recall {
    /// Never: preemption costs too much, or no longer group exists.
    Never,
    /// After its first request has waited for a part of its allowance.
    Patiently,
    /// At once, from its own aged requests too, so that `keep` workers are idle.
    Ahead { keep: usize, after_ns: u64 },
}

/// How long the requests of one group may wait, and how it gets workers back.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct GroupAllowance {
    /// Mean service time.
    pub(crate) mean_ns: f64,
    /// For how long its requests may wait: their SLO without the mean service time and the cost
    /// of a preemption.
    pub(crate) allowance_ns: f64,
    /// Patience is a part of this: the allowance of the shortest requests, if service times vary.
    pub(crate) patient_ns: f64,
    /// The same for borrowing.
    pub(crate) borrow_ns: f64,
    pub(crate) recall: Recall,
    /// Whether all its types yield. A group that does not borrows no worker.
    pub(crate) yields: bool,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Allowances {
    settings: settings::DarcLending,
    cost_ns: f64,
    /// Aging does not pay if it would keep more workers than this idle.
    keep_max: usize,
    /// The first worker that is lent: worker 0 cannot be preempted if it is the driver's own thread.
    first_lent: u32,
    slos: Slos,
    /// Per type slot: whether the type yields.
    yields: Vec<bool>,
    /// Per type slot.
    service_times: Vec<ServiceTimes>,
    /// Per type slot: arrivals since `counted_ns`.
    arrivals: Vec<u64>,
    counted_ns: Option<u64>,
    /// Per type slot, per nanosecond.
    rates: Vec<Option<f64>>,
    groups: Vec<GroupAllowance>,
    any_ahead: bool,
    samples: u64,
    /// The next look is at so many samples.
    look_at: u64,
}

impl Allowances {
    /// Call [`Allowances::follow`] next.
    pub(crate) fn new(setup: &SchedulerSetup<'_>, settings: &settings::DarcLending, preemption: Preemption) -> Self {
        let slots = setup.types.len() + 1;
        let mut allowances = Self {
            settings: settings.clone(),
            cost_ns: preemption.cost_ns as f64,
            keep_max: keep_max(setup.workers),
            first_lent: u32::from(setup.inline),
            slos: Slos::new(setup, settings.slo_slowdown),
            yields: (0..slots).map(|slot| setup.types.yields(slot)).collect(),
            service_times: vec![ServiceTimes::new(); slots],
            arrivals: vec![0; slots],
            counted_ns: None,
            rates: vec![None; slots],
            groups: Vec::with_capacity(slots + 1),
            any_ahead: false,
            samples: 0,
            look_at: LOOK_SAMPLES,
        };
        allowances.remember(setup);
        allowances
    }

    /// Begins with the history of `setup`.
    fn remember(&mut self, setup: &SchedulerSetup<'_>) {
        let History { samples, span_ns } = setup.history;
        for sample in samples {
            let slot = setup.types.slot(sample.request_type);
            self.service_times[slot].record(sample.count, sample.service_ns);
            self.arrivals[slot] += u64::from(sample.count);
        }
        if span_ns > 0 {
            self.take_rates(span_ns);
        }
    }

    /// So many workers are present. [`Allowances::follow`] comes next.
    pub(crate) fn set_workers(&mut self, workers: usize) {
        self.keep_max = keep_max(workers);
    }

    /// Counts an arrival of the type at `slot`.
    pub(crate) fn arrived(&mut self, now_ns: u64, slot: usize) {
        self.counted_ns.get_or_insert(now_ns);
        self.arrivals[slot] += 1;
    }

    /// Counts what a worker measured.
    pub(crate) fn measured(&mut self, slot: usize, count: u32, service_ns: u64) {
        self.service_times[slot].record(count, service_ns);
        self.samples += u64::from(count);
    }

    /// The allowance of the group with that number.
    pub(crate) fn of(&self, group: usize) -> &GroupAllowance {
        &self.groups[group]
    }

    /// Whether any group [recalls ahead](Recall::Ahead).
    pub(crate) const fn any_ahead(&self) -> bool {
        self.any_ahead
    }

    /// Follows what DARC has learned.
    pub(crate) fn keep_up(&mut self, now_ns: u64, learned: Option<Learned>, darc: &mut Darc) {
        match learned {
            None if self.samples >= self.look_at => {
                self.look_at = self.samples.saturating_mul(2);
                self.update_rates(now_ns);
                self.follow(darc);
            }
            None => {}
            Some(Learned::Provisional) => self.follow(darc),
            Some(Learned::Window { .. }) => self.renew(now_ns, darc),
        }
    }

    /// Closes the window, too, and follows DARC.
    pub(crate) fn renew(&mut self, now_ns: u64, darc: &mut Darc) {
        self.update_rates(now_ns);
        self.follow(darc);
        self.service_times.iter_mut().for_each(ServiceTimes::fade);
    }

    /// Takes the means of `darc`, and tells its plan which groups lend.
    pub(crate) fn follow(&mut self, darc: &mut Darc) {
        self.groups.clear();
        let rest = darc.grouped.plan.len() - 1;
        for (number, (_, members)) in darc.grouped.plan.groups().enumerate() {
            let allowance = if number == rest {
                self.of_rest(members)
            } else {
                self.of_members(members, darc)
            };
            self.groups.push(allowance);
        }
        let is_ahead = |allowance: &GroupAllowance| matches!(allowance.recall, Recall::Ahead { .. });
        self.any_ahead = self.groups.iter().any(is_ahead);
        let loan = |number| self.loan(number);
        darc.grouped.plan.lend(self.first_lent, loan);
    }

    fn loan(&self, number: usize) -> Loan {
        let allowance = &self.groups[number];
        Loan {
            lends: allowance.recall != Recall::Never,
            borrows: allowance.yields,
            borrow_after_ns: (allowance.borrow_ns * self.settings.borrow_after) as u64,
            allowance_ns: allowance.allowance_ns as u64,
            aging: match allowance.recall {
                Recall::Ahead { keep, after_ns } => Some(Aging {
                    after_ns,
                    spare: keep + keep / 2,
                    late_after: self.late_after(number),
                }),
                Recall::Never | Recall::Patiently => None,
            },
        }
    }

    /// For how many times as long as it ran an aged request of a group waits until it is late. No request of the
    /// longest group is: what it waits for are shorter ones.
    fn late_after(&self, number: usize) -> f64 {
        let is_longest = number + 2 >= self.groups.len();
        let allowance = &self.groups[number];
        if is_longest {
            f64::INFINITY
        } else {
            allowance.allowance_ns / allowance.mean_ns * LATE_AFTER
        }
    }

    fn update_rates(&mut self, now_ns: u64) {
        let passed_ns = now_ns.saturating_sub(self.counted_ns.unwrap_or(now_ns));
        if passed_ns > 0 {
            self.counted_ns = Some(now_ns);
            self.take_rates(passed_ns);
        }
    }

    /// Takes the arrivals as those of so many nanoseconds.
    fn take_rates(&mut self, passed_ns: u64) {
        for (rate, arrivals) in self.rates.iter_mut().zip(&mut self.arrivals) {
            let latest = std::mem::take(arrivals) as f64 / passed_ns as f64;
            let before = rate.unwrap_or(latest);
            *rate = Some(before + (latest - before) * RATE_WEIGHT);
        }
    }

    /// The rest borrows after the same wait as the longest group, and takes no worker back.
    fn of_rest(&self, members: &[usize]) -> GroupAllowance {
        let longest = self.groups.last();
        GroupAllowance {
            mean_ns: longest.map_or(MEAN_NS_UNKNOWN, |longest| longest.mean_ns),
            allowance_ns: longest.map_or(0.0, |longest| longest.allowance_ns),
            patient_ns: longest.map_or(0.0, |longest| longest.patient_ns),
            borrow_ns: longest.map_or(0.0, |longest| longest.borrow_ns),
            recall: Recall::Never,
            yields: self.all_yield(members),
        }
    }

    fn of_members(&self, members: &[usize], darc: &Darc) -> GroupAllowance {
        let (mut work, mut share) = (0.0, 0.0);
        let (mut waits_ns, mut quick_waits_ns) = (f64::INFINITY, f64::INFINITY);
        for &slot in members {
            let mean_ns = darc.grouped.profile.mean_ns(slot).unwrap_or(MEAN_NS_UNKNOWN);
            let share_here = darc.grouped.profile.share(slot).max(SHARE_MIN);
            work += mean_ns * share_here;
            share += share_here;
            let slo_ns = self.slos.of_mean(slot, mean_ns);
            waits_ns = waits_ns.min(slo_ns - mean_ns);
            let quick_ns = self.quick_ns(slot).filter(|&quick_ns| quick_ns < mean_ns);
            quick_waits_ns = quick_waits_ns.min(match quick_ns {
                Some(quick_ns) => (slo_ns / mean_ns - 1.0) * quick_ns,
                None => slo_ns - mean_ns,
            });
        }
        let allowance_ns = (waits_ns - self.cost_ns).max(1.0);
        let quick_ns = (quick_waits_ns - self.cost_ns).max(0.0);
        let recall = if let Some(after_ns) = self.aged_ns(members) {
            let keep = self.idle_to_keep(members, quick_waits_ns);
            Recall::Ahead { keep, after_ns }
        } else if self.cost_ns <= waits_ns * self.settings.cost_max {
            Recall::Patiently
        } else {
            Recall::Never
        };
        GroupAllowance {
            mean_ns: work / share,
            allowance_ns,
            patient_ns: quick_ns.max(self.cost_ns * PATIENT_COSTS).min(allowance_ns),
            borrow_ns: quick_ns.min(allowance_ns),
            recall,
            yields: self.all_yield(members),
        }
    }

    /// The shortest service times of the type at `slot`, if they are far from its mean.
    fn quick_ns(&self, slot: usize) -> Option<f64> {
        let times = std::iter::once(&self.service_times[slot]);
        let spread = ServiceTimes::spread(times, AGED_WORK, AGED_SHARE_MIN)?;
        (spread.scv >= SCV_VARIES).then_some(spread.shortest_ns)
    }

    /// From when requests of a group are aged, if they age.
    fn aged_ns(&self, members: &[usize]) -> Option<u64> {
        let times = members.iter().map(|&slot| &self.service_times[slot]);
        let Spread { scv, late_ns, rare_ns, .. } = ServiceTimes::spread(times, AGED_WORK, AGED_SHARE_MIN)?;
        let most_ns = self.cost_ns * self.settings.aged_after_costs;
        let after_ns = late_ns.min(most_ns).max(AGED_NS_MIN);
        let ages = scv >= SCV_MIN && late_ns >= self.cost_ns * AGED_COSTS_MIN && after_ns < rare_ns;
        ages.then_some(after_ns as u64)
    }

    fn all_yield(&self, members: &[usize]) -> bool {
        members.iter().all(|&slot| self.yields[slot])
    }

    /// Workers to keep idle, if the shortest requests cannot wait for a preemption: as many as
    /// requests arrive during one, and at least one.
    fn idle_to_keep(&self, members: &[usize], quick_waits_ns: f64) -> usize {
        if quick_waits_ns >= self.cost_ns {
            return 0;
        }
        let rates = members.iter().filter_map(|&slot| self.rates[slot]);
        let arrivals = rates.sum::<f64>() * self.cost_ns;
        (arrivals.round() as usize).max(1).min(self.keep_max)
    }
}

/// At most so many of so many workers are kept idle for a group.
fn keep_max(workers: usize) -> usize {
    (workers as f64 * KEEP_SHARE_MAX) as usize
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::parts::grouped::Grouped;
    use crate::preempt::PreemptPolicy;
    use crate::rehearsal::setup;
    use crate::request_type::{TypeSpec, TypeTable};

    const MICRO: u64 = 1000;
    const COST_NS: u64 = MICRO;

    /// Types of these means in microseconds, on 20 workers.
    fn table(means_us: impl IntoIterator<Item = u64>) -> TypeTable {
        let spec = |us: u64| TypeSpec::new(us.to_string()).service_time(Duration::from_micros(us)).share(0.4);
        means_us.into_iter().map(spec).collect()
    }

    fn allowances(types: &TypeTable) -> (Allowances, Darc) {
        let preemption = Preemption::new(COST_NS);
        let setup = SchedulerSetup { preemption: Some(preemption), ..setup(20, types) };
        let settings = settings::DarcLending::default();
        let mut darc = Darc::over(&setup, &settings.darc, Grouped::with_aging(&setup, &settings.darc));
        let mut allowances = Allowances::new(&setup, &settings, preemption);
        allowances.follow(&mut darc);
        (allowances, darc)
    }

    /// So many requests of the type at `slot` take each of these times.
    fn measure(allowances: &mut Allowances, slot: usize, each: u32, times_ns: [u64; 2]) {
        for ns in times_ns {
            allowances.measured(slot, each, ns * u64::from(each));
        }
    }

    #[test]
    fn a_request_may_wait_for_what_its_slo_leaves_beside_its_service_and_a_preemption() {
        let types = table([10, 12, 1000]);
        let (allowances, _) = allowances(&types);
        let waits_ns = 10.0 * 10_000.0 - 10_000.0 - 1_000.0;
        let short = GroupAllowance {
            mean_ns: 11_000.0,
            allowance_ns: waits_ns,
            patient_ns: waits_ns,
            borrow_ns: waits_ns,
            recall: Recall::Patiently,
            yields: true,
        };
        let longest = allowances.of(1);
        assert_eq!(*allowances.of(0), short);
        assert_eq!((longest.mean_ns, longest.allowance_ns), (1e6, 8_999_000.0));
        assert_eq!(*allowances.of(2), GroupAllowance { recall: Recall::Never, ..*longest }, "the rest");
    }

    #[test]
    fn where_times_vary_a_request_is_as_patient_as_the_shortest_can_be() {
        let types = table([1, 1000]);
        let (mut allowances, mut darc) = allowances(&types);
        // The shortest are taken for 480 ns and 208 ns; their SLO, too, is ten times as long.
        for (times_ns, patient_ns, borrow_ns) in [
            ([500, 1_500], 9.0 * 480.0 - 1_000.0, 9.0 * 480.0 - 1_000.0),
            ([200, 1_800], 2_000.0, 9.0 * 208.0 - 1_000.0),
        ] {
            allowances.service_times[0] = ServiceTimes::new();
            measure(&mut allowances, 0, 500, times_ns);
            measure(&mut allowances, 1, 500, [1000 * MICRO; 2]);
            allowances.follow(&mut darc);
            let short = allowances.of(0);
            assert_eq!((short.patient_ns, short.borrow_ns), (patient_ns, borrow_ns), "{times_ns:?}");
            assert_eq!(short.allowance_ns, 8_000.0, "{times_ns:?}");
            assert_eq!([0, 1].map(|group| allowances.of(group).recall), [Recall::Patiently; 2]);
        }
    }

    #[test]
    fn requests_age_where_times_are_widely_spread_and_long_beside_a_preemption() {
        let types = table([50, 1000]);
        let (mut allowances, mut darc) = allowances(&types);
        for (times_ns, after_ns) in [
            ([MICRO, 100 * MICRO], Some(50 * MICRO)), // At most 50 preemptions.
            ([MICRO, 12 * MICRO], Some(7_680)),
            ([50, 3 * MICRO], None),
            ([50 * MICRO; 2], None),
        ] {
            allowances.service_times[0] = ServiceTimes::new();
            measure(&mut allowances, 0, 100, times_ns);
            allowances.follow(&mut darc);
            let aging = darc.grouped.plan.aging_of(0);
            assert_eq!(aging.map(|aging| aging.after_ns), after_ns, "{times_ns:?}");
            assert_eq!(allowances.any_ahead(), after_ns.is_some());
        }
    }

    /// Types whose shortest requests cannot wait for a preemption, and so many arrivals in each of two windows of
    /// 10 us.
    fn arrived(allowances: &mut Allowances, darc: &mut Darc, arrivals: [u64; 2]) {
        for (window, arrivals) in (0..).zip(arrivals) {
            measure(allowances, 0, 200, [50, 100 * MICRO]);
            (0..arrivals).for_each(|_| allowances.arrived(window * 10 * MICRO, 0));
            allowances.renew((window + 1) * 10 * MICRO, darc);
            allowances.renew((window + 1) * 10 * MICRO, darc);
        }
    }

    #[test]
    fn as_many_workers_stay_idle_as_requests_arrive_during_a_preemption() {
        let types = table([50, 1000]);
        for (arrivals, workers, keep) in [
            ([0, 0], 20, 1),
            ([10, 10], 20, 1),
            ([10, 50], 20, 4), // The latest window counts three times as much as those before.
            ([900, 900], 20, 9),
            ([900, 900], 10, 4),
        ] {
            let (mut allowances, mut darc) = allowances(&types);
            allowances.set_workers(workers);
            arrived(&mut allowances, &mut darc, arrivals);
            let recall = allowances.of(0).recall;
            assert_eq!(recall, Recall::Ahead { keep, after_ns: 50 * MICRO }, "{arrivals:?}");
            let spare = darc.grouped.plan.aging_of(0).map(|aging| aging.spare);
            assert_eq!(spare, Some(keep + keep / 2), "{arrivals:?}");
        }
    }

    #[test]
    fn an_aged_request_is_late_after_a_part_of_what_its_like_may_wait_but_for_the_longest() {
        let types = table([50, 1000]);
        let (allowances, _) = allowances(&types);
        assert_eq!(allowances.late_after(0), 449.0 / 50.0 * LATE_AFTER);
        assert_eq!(allowances.late_after(1), f64::INFINITY);
    }

    #[test]
    fn a_spread_is_looked_at_after_enough_samples_and_then_after_twice_as_many() {
        let types = table([50, 1000]);
        let (mut allowances, mut darc) = allowances(&types);
        let half = LOOK_SAMPLES as u32 / 2;
        let mut ages_after = |half, times_ns| {
            measure(&mut allowances, 0, half, times_ns);
            allowances.keep_up(1, None, &mut darc);
            allowances.any_ahead()
        };
        assert!(!ages_after(half - 1, [MICRO, 100 * MICRO]));
        assert!(ages_after(1, [MICRO, 100 * MICRO]));
        assert!(ages_after(half - 1, [50 * MICRO; 2]), "it was not looked at again");
        assert!(!ages_after(1, [50 * MICRO; 2]));
    }

    #[test]
    fn a_group_with_a_type_that_never_yields_borrows_nothing() {
        let mut types = table([10, 1000]);
        types.register(
            TypeSpec::new("NEVER")
                .service_time(Duration::from_micros(1000))
                .preempt(PreemptPolicy::None),
        );
        let (allowances, darc) = allowances(&types);
        assert_eq!([0, 1].map(|group| allowances.of(group).yields), [true, false]);
        let borrowed: Vec<usize> = darc.grouped.plan.groups().map(|(group, _)| group.borrowed.len()).collect();
        assert_eq!(borrowed[1], 0, "{borrowed:?}");
        assert!(borrowed[2] > 0, "{borrowed:?}");
    }
}
