//! When a worker comes, and when one goes (Arachne 6.2).
//!
//! - **Up**, by the *load factor*: the requests that run and wait for each worker, on average over the interval. It
//!   is a measure of how long requests wait, whatever their service times.
//! - **Down**, one worker at a time, by the *utilisation*: how many workers are busy. The estimator remembers the
//!   utilisation at which each number of workers was too few. A worker goes when the utilisation of the last
//!   [`SETTLING`] intervals is lower than that by more than the hysteresis.
//!
//! ```text
//!   utilisation
//!    at ramp-up  ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─╮ 3 workers were too few here
//!    less 9 %    ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─┴─ ─ ─ below this the 4th goes
//! ```
//!
//! What the paper does not have, and a [`tail_factor`](super::ElasticSettings::tail_factor) of 0 switches off:
//!
//! - A worker comes when too many requests of a type are late (`lateness.rs`). The load factor is a mean over all
//!   requests, and does not see that a few wait behind long ones.
//! - Where more work arrives than one worker more can do, as many come at once as can.
//!
//! What the paper does not say: a worker that must come back soon after one went has gone too early. Then the
//! utilisation at which it went was too much for those that were left, and is remembered in place of the one at
//! ramp-up, which is that of a backlog. So a load that stays the same does not make workers come and go for long.
//!
//! Reservations: a worker that DARC reserves for short requests and that idles is no waste. It is there so that
//! they do not wait. So each group with a reservation
//!
//! - has a load factor of its own, by the workers reserved for it. The highest of all counts. A group can be short
//!   of workers while those of others idle.
//! - *claims* its utilisation or, if it has any requests, one whole worker. No worker goes that the claims need.
//!   Utilisation alone would take the worker away which a few short requests leave idle for most of the time.

use super::settings::ElasticSettings;

/// Intervals over which the utilisation is averaged before a worker goes.
const SETTLING: usize = 5;
/// A worker that comes within this many intervals after one went has gone too early.
const REGRETTING: usize = 40;

/// The load of a group of types, on average over an interval.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct GroupLoad {
    /// How many workers ran its requests.
    pub busy: f64,
    /// How many of its requests waited.
    pub queued: f64,
    /// How many workers the requests that arrived will keep busy.
    pub offered: f64,
    /// Workers reserved for it; 0 if it has none of its own.
    pub reserved: usize,
}

impl GroupLoad {
    /// Requests for each of `workers`, of which no more run than there are.
    fn load_factor(&self, workers: usize) -> f64 {
        let workers = workers as f64;
        (self.busy.min(workers) + self.queued) / workers
    }

    /// Workers that it needs.
    fn claim(&self) -> f64 {
        if self.reserved > 0 && self.busy > 0.0 {
            self.busy.max(1.0)
        } else {
            self.busy
        }
    }
}

/// Decides how many workers shall be present. See [`elastic`](crate::elastic).
#[derive(Debug, Clone)]
pub struct Estimator {
    settings: ElasticSettings,
    workers_min: usize,
    workers_max: usize,
    workers: usize,
    /// Per number of workers: the utilisation at which they were too few.
    too_much: Vec<f64>,
    /// Utilisation in the last intervals since the number changed.
    utilisations: [f64; SETTLING],
    /// Intervals since the number changed.
    age: usize,
    /// The utilisation at which the last worker went, if the last change was that.
    went_at: Option<f64>,
}

impl Estimator {
    /// The fewest of `workers_min..=workers_max` workers shall be present at first.
    ///
    /// # Panics
    ///
    /// When the fewest are 0, or more than the most.
    #[must_use]
    pub fn new(workers_min: usize, workers_max: usize, settings: ElasticSettings) -> Self {
        assert!(
            0 < workers_min && workers_min <= workers_max,
            "{workers_min} to {workers_max} workers are none"
        );
        Self {
            settings,
            workers_min,
            workers_max,
            workers: workers_min,
            too_much: vec![0.0; workers_max + 1],
            utilisations: [0.0; SETTLING],
            age: 0,
            went_at: None,
        }
    }

    /// How many workers shall be present.
    #[must_use]
    pub const fn workers(&self) -> usize {
        self.workers
    }

    /// An interval is over. Returns how many workers shall be present: more than before, one fewer, or as many.
    /// Types that have no group are one without a reservation. `is_late` says whether more requests of a type are
    /// late than [`tail_factor`](field@ElasticSettings::tail_factor) allows.
    pub fn decide(&mut self, groups: &[GroupLoad], is_late: bool) -> usize {
        let utilisation: f64 = groups.iter().map(|group| group.busy).sum();
        self.utilisations[self.age % SETTLING] = utilisation;
        self.age += 1;
        let is_loaded = self.load_factor(groups) >= self.settings.load_factor;
        if self.workers < self.workers_max && (is_loaded || is_late) {
            self.ramp_up(utilisation, groups);
        } else if self.workers > self.workers_min && self.age >= SETTLING {
            self.ramp_down_if_unneeded(groups);
        }
        self.workers
    }

    /// The highest load factor: of all workers, or of those that are reserved for a group.
    fn load_factor(&self, groups: &[GroupLoad]) -> f64 {
        let all = GroupLoad {
            busy: groups.iter().map(|group| group.busy).sum(),
            queued: groups.iter().map(|group| group.queued).sum(),
            ..GroupLoad::default()
        };
        let reserved = groups.iter().filter(|group| group.reserved > 0);
        let reserved = reserved.map(|group| group.load_factor(group.reserved));
        reserved.fold(all.load_factor(self.workers), f64::max)
    }

    /// So many workers are present, whatever was decided.
    pub fn correct_to(&mut self, workers: usize) {
        if self.workers != workers {
            self.change_to(workers, None);
        }
    }

    fn ramp_up(&mut self, utilisation: f64, groups: &[GroupLoad]) {
        let went_at = self.went_at.filter(|_| self.age <= REGRETTING);
        self.too_much[self.workers] = went_at.map_or(utilisation, |went| went.min(utilisation));
        let offered: f64 = groups.iter().map(|group| group.offered).sum();
        let mut workers = self.workers + 1;
        while self.settings.tail_factor > 0.0 && workers < self.workers_max && workers as f64 <= offered {
            self.too_much[workers] = workers as f64;
            workers += 1;
        }
        self.change_to(workers, None);
    }

    fn ramp_down_if_unneeded(&mut self, groups: &[GroupLoad]) {
        let left = self.workers - 1;
        let mean = self.utilisations.iter().sum::<f64>() / SETTLING as f64;
        let claims: f64 = groups.iter().map(GroupLoad::claim).sum();
        let enough = self.too_much[left] * (1.0 - self.settings.hysteresis);
        if mean < enough && claims <= left as f64 {
            self.change_to(left, Some(mean));
        }
    }

    fn change_to(&mut self, workers: usize, went_at: Option<f64>) {
        self.workers = workers;
        self.went_at = went_at;
        self.age = 0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn estimator(workers_min: usize, workers_max: usize) -> Estimator {
        Estimator::new(workers_min, workers_max, ElasticSettings::default())
    }

    fn load(busy: f64, queued: f64) -> GroupLoad {
        GroupLoad { busy, queued, ..GroupLoad::default() }
    }

    /// A load of so many workers, under which queues grow while fewer are present, and half a request waits per
    /// worker that has less than a tenth of its time left.
    fn offered(demand: f64, backlog: &mut f64, workers: usize) -> GroupLoad {
        let workers = workers as f64;
        let busy = (demand + *backlog).min(workers);
        *backlog += demand - busy;
        let queued = if demand > 0.9 * workers { 0.6 * workers } else { 0.0 };
        load(busy, *backlog * 50.0 + queued)
    }

    /// The numbers of workers after each of so many intervals.
    fn follow(estimator: &mut Estimator, demand: f64, intervals: usize) -> Vec<usize> {
        let mut backlog = 0.0;
        (0..intervals)
            .map(|_| estimator.decide(&[offered(demand, &mut backlog, estimator.workers())], false))
            .collect()
    }

    fn changes(workers: &[usize]) -> usize {
        workers.windows(2).filter(|pair| pair[0] != pair[1]).count()
    }

    #[test]
    fn workers_come_one_an_interval_and_go_when_the_load_has_fallen_below_what_fewer_carry() {
        let mut workers = estimator(1, 8);
        assert_eq!(workers.decide(&[load(1.0, 0.4)], false), 1);
        assert_eq!(workers.decide(&[load(1.0, 0.5)], false), 2, "1.5 for each");
        assert_eq!(workers.decide(&[load(2.0, 1.0)], false), 3);
        let gone =
            |workers: &mut Estimator, busy| (0..2 * SETTLING).find(|_| workers.decide(&[load(busy, 0.0)], false) < 3);
        assert_eq!(gone(&mut workers, 1.83), None, "within 9 % of 2");
        assert!(gone(&mut workers, 1.81).is_some());
        assert_eq!(workers.workers(), 2);
    }

    #[test]
    fn an_idle_server_has_the_fewest_workers_soon() {
        let mut workers = estimator(2, 8);
        assert_eq!(follow(&mut workers, 7.0, 20).last(), Some(&8));
        let idle = follow(&mut workers, 0.0, 6 * SETTLING);
        assert_eq!(idle.last(), Some(&2));
    }

    #[test]
    fn a_worker_that_must_come_back_stays() {
        let mut workers = estimator(1, 4);
        follow(&mut workers, 1.0, 4);
        let settled = follow(&mut workers, 1.95, 400);
        assert!(changes(&settled) <= 6, "{settled:?}");
        assert_eq!(changes(&settled[200..]), 0, "{settled:?}");
    }

    #[test]
    fn a_worker_that_comes_back_soon_stays_at_the_load_at_which_it_went() {
        for (intervals, left) in [(1, 2), (REGRETTING + 1, 1)] {
            let mut workers = estimator(1, 4);
            assert_eq!(workers.decide(&[load(1.0, 1.0)], false), 2);
            while workers.decide(&[load(0.5, 0.0)], false) > 1 {}
            (1..intervals).for_each(|_| _ = workers.decide(&[load(0.5, 0.0)], false));
            assert_eq!(workers.decide(&[load(1.0, 1.0)], false), 2);
            (0..4 * SETTLING).for_each(|_| _ = workers.decide(&[load(0.6, 0.0)], false));
            assert_eq!(workers.workers(), left, "after {intervals} intervals");
        }
    }

    #[test]
    fn a_worker_comes_when_requests_are_late_although_few_wait() {
        let mut workers = estimator(1, 4);
        assert_eq!(workers.decide(&[load(0.4, 0.1)], false), 1);
        assert_eq!(workers.decide(&[load(0.4, 0.1)], true), 2);
        let busy = |workers: &mut Estimator, busy| {
            (0..4 * SETTLING).for_each(|_| {
                workers.decide(&[load(busy, 0.0)], false);
            });
            workers.workers()
        };
        assert_eq!(busy(&mut workers, 0.39), 2, "one was too few for it");
        assert_eq!(busy(&mut workers, 0.3), 1);
    }

    #[test]
    fn several_workers_come_at_once_for_what_one_more_could_not_do() {
        let steep = GroupLoad { offered: 4.5, ..load(1.0, 50.0) };
        for (tail_factor, come) in [(1.0, 5), (0.0, 2)] {
            let settings = ElasticSettings::default().tail_factor(tail_factor);
            let mut workers = Estimator::new(1, 8, settings);
            assert_eq!(workers.decide(&[steep], false), come);
            let most = GroupLoad { offered: 40.0, ..steep };
            workers.decide(&[most], false);
            assert_eq!(workers.workers(), if come == 2 { 3 } else { 8 });
        }
        // They are remembered as too few, and go one after the other.
        let mut workers = estimator(1, 8);
        workers.decide(&[steep], false);
        let idle: Vec<usize> = (0..6 * SETTLING).map(|_| workers.decide(&[load(0.1, 0.0)], false)).collect();
        assert!(idle.windows(2).all(|pair| pair[0] - pair[1] <= 1), "{idle:?}");
        assert_eq!(idle.last(), Some(&1));
    }

    #[test]
    fn a_group_without_enough_reserved_workers_calls_for_more_while_others_idle() {
        let mut workers = estimator(4, 8);
        let idle = GroupLoad { reserved: 3, ..load(0.1, 0.0) };
        let full = GroupLoad { reserved: 1, ..load(1.0, 0.6) };
        assert_eq!(workers.clone().decide(&[load(1.1, 0.6)], false), 4, "without groups");
        assert_eq!(workers.decide(&[idle, full], false), 5);
    }

    #[test]
    fn a_group_with_any_requests_keeps_a_reserved_worker() {
        let groups = |short| {
            let reserved = |reserved, busy| GroupLoad { reserved, ..load(busy, 0.0) };
            [load(0.0, 0.0), reserved(1, short), reserved(1, 0.5)]
        };
        // Requests of a type without a group claim no worker of their own.
        let mut workers = estimator(1, 4);
        assert_eq!(
            [workers.decide(&[load(1.0, 2.0)], false), workers.decide(&[load(2.0, 4.0)], false)],
            [2, 3]
        );
        let others = [load(0.3, 0.0), GroupLoad { reserved: 2, ..load(1.5, 0.0) }];
        assert!((0..4 * SETTLING).any(|_| workers.decide(&others, false) == 2));
        for (short, left) in [(0.01, 2), (0.0, 1)] {
            let mut workers = estimator(1, 4);
            assert_eq!(workers.decide(&[load(1.0, 2.0)], false), 2);
            assert_eq!(workers.decide(&[load(2.0, 4.0)], false), 3);
            for _ in 0..4 * SETTLING {
                workers.decide(&groups(short), false);
            }
            assert_eq!(workers.workers(), left);
        }
    }

    fn group() -> impl Strategy<Value = GroupLoad> {
        let loads = (0.0..20.0_f64, 0.0..100.0_f64, 0.0..20.0_f64, 0..9_usize);
        loads.prop_map(|(busy, queued, offered, reserved)| GroupLoad { busy, queued, offered, reserved })
    }

    proptest! {
        #[test]
        fn the_number_stays_between_its_bounds_falls_by_one_and_rises_as_far_as_the_load(
            workers_min in 1..9_usize,
            more in 0..9_usize,
            tail_factor in prop_oneof![Just(0.0), 1.0..3.0_f64],
            loads in prop::collection::vec((prop::collection::vec(group(), 0..4), any::<bool>()), 0..100),
        ) {
            let settings = ElasticSettings::default().tail_factor(tail_factor);
            let mut estimator = Estimator::new(workers_min, workers_min + more, settings);
            for (groups, is_late) in loads {
                let before = estimator.workers();
                let after = estimator.decide(&groups, is_late);
                prop_assert!((workers_min..=workers_min + more).contains(&after));
                prop_assert!(after + 1 >= before);
                let offered: f64 = groups.iter().map(|group| group.offered).sum();
                let several = if tail_factor > 0.0 { offered as usize + 1 } else { 0 };
                prop_assert!(after <= several.max(before + 1));
            }
        }

        #[test]
        fn a_constant_load_is_followed_and_then_left_alone(
            before in 0.0..8.0_f64,
            demand in 0.0..8.0_f64,
        ) {
            let mut estimator = estimator(1, 8);
            follow(&mut estimator, before, 300);
            let workers = follow(&mut estimator, demand, 600);
            let last = workers[workers.len() - 1] as f64;
            prop_assert!(demand <= last, "{workers:?}");
            prop_assert!(last <= (demand / 0.9).ceil() + 2.0, "{workers:?}");
            prop_assert_eq!(changes(&workers[400..]), 0, "{:?}", workers);
            // One an interval.
            let reached = workers.iter().position(|&workers| workers as f64 >= demand);
            prop_assert!(reached.is_some_and(|intervals| intervals < 8));
        }
    }
}
