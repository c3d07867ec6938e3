//! Earliest deadline first, without preemption: the waiting request whose deadline is nearest, on
//! any idle worker (Liu and Layland 1973; Perséphone, table 5).
//!
//! A request's deadline is its arrival and the SLO of its type. A type without one has `slo-factor`
//! mean service times: the hinted, later the measured ones. Types of which nothing is known, and
//! `UNKNOWN`, have the longest SLO of all types; they lose against what arrived with them but not
//! against what arrives much later, so nothing starves. Where nothing at all is known the order
//! is that of arrival.

use super::grouped::Grouped;
use super::profile::Profile;
use super::settings::{self, Darc};
use super::{Action, Backlog, Event, Scheduler, SchedulerSetup, TypeStatus};

/// See the [module](self).
pub(super) struct Edf {
    grouped: Grouped,
    profile: Profile,
    slo_factor: f64,
    /// Per registered type: what its specification says.
    slos_ns: Vec<Option<u64>>,
    /// Per type slot: time from arrival to deadline.
    targets_ns: Vec<u64>,
}

impl Edf {
    pub(super) fn new(setup: &SchedulerSetup<'_>, settings: &settings::Edf) -> Self {
        let nanos = |slo: std::time::Duration| u64::try_from(slo.as_nanos()).unwrap_or(u64::MAX);
        let specs = setup.types.specs();
        let mut policy = Self {
            grouped: Grouped::new(setup),
            profile: Profile::new(setup, &Darc::default()),
            slo_factor: settings.slo_factor,
            slos_ns: specs.iter().map(|spec| spec.slo.map(nanos)).collect(),
            targets_ns: vec![0; specs.len() + 1],
        };
        policy.set_targets();
        policy
    }

    fn set_targets(&mut self) {
        let known_ns = |slot: usize| {
            let by_mean = |mean_ns: f64| (self.slo_factor * mean_ns) as u64;
            let slo_ns = *self.slos_ns.get(slot)?;
            slo_ns.or_else(|| self.profile.mean_ns(slot).map(by_mean))
        };
        let longest_ns = (0..self.slos_ns.len()).filter_map(known_ns).max();
        for (slot, target_ns) in self.targets_ns.iter_mut().enumerate() {
            *target_ns = known_ns(slot).or(longest_ns).unwrap_or(0);
        }
    }

    /// The type whose first request has the earliest deadline. Of equal ones, the request that
    /// arrived first.
    fn most_urgent(&self) -> Option<usize> {
        let first = |(slot, &target_ns): (usize, &u64)| {
            let arrived_ns = self.grouped.queues.front(slot)?.arrived_ns;
            Some((arrived_ns.saturating_add(target_ns), arrived_ns, slot))
        };
        let urgent = self.targets_ns.iter().enumerate().filter_map(first).min();
        urgent.map(|(_, _, slot)| slot)
    }
}

impl Scheduler for Edf {
    fn on_event(&mut self, now_ns: u64, event: Event<'_>) {
        self.grouped.take_note(now_ns, event, &mut self.profile);
        if self.profile.close_window_if_due(now_ns) {
            self.set_targets();
        }
    }

    fn poll(&mut self, now_ns: u64) -> Option<Action> {
        if let Some(refused) = self.grouped.queues.pop_refused() {
            return Some(refused);
        }
        if !self.grouped.can_dispatch() {
            return None;
        }
        let slot = self.most_urgent()?;
        let (_, action) = self.grouped.dispatch_type(now_ns, slot)?;
        Some(action)
    }

    fn hand_over(&mut self) -> Backlog {
        self.grouped.hand_over()
    }

    fn take_over(&mut self, _now_ns: u64, backlog: Backlog) {
        self.grouped.take_over(backlog);
    }

    fn type_status(&self, slot: usize) -> TypeStatus {
        self.grouped.type_status(slot, &self.profile)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::driven::Driven;
    use super::super::{Edf, Policy};
    use crate::request_type::{RequestType, TypeSpec, TypeTable};

    const US: fn(u64) -> Duration = Duration::from_micros;

    /// A is long and urgent, B has 10 times 2 us, nothing is known of C.
    fn types() -> TypeTable {
        TypeTable::from_iter([
            TypeSpec::new("A").service_time(US(100)).slo(US(5)),
            TypeSpec::new("B").service_time(US(2)),
            TypeSpec::new("C"),
        ])
    }

    #[test]
    fn the_nearest_deadline_goes_first_whatever_the_length() {
        let mut driven = Driven::new(&Policy::edf(), 1, &types());
        driven.arrive(RequestType::UNKNOWN);
        driven.arrive_all([2, 1, 0, 1, 0]);
        assert_eq!(driven.drain(), [3, 5, 0, 1, 2, 4]);
    }

    #[test]
    fn the_factor_makes_slos_of_service_times() {
        let types = TypeTable::from_iter([
            TypeSpec::new("A").slo(US(15)),
            TypeSpec::new("B").service_time(US(2)),
        ]);
        for (factor, expected) in [(10.0, [1, 0]), (5.0, [0, 1])] {
            let edf = Edf::default().slo_factor(factor);
            let mut driven = Driven::new(&edf.into(), 1, &types);
            driven.arrive_all([1, 0]);
            assert_eq!(driven.drain(), expected, "{factor}");
        }
    }

    #[test]
    fn whoever_waited_for_the_longest_slo_is_not_overtaken_any_more() {
        let mut driven = Driven::new(&Policy::edf(), 1, &types());
        driven.arrive(RequestType::UNKNOWN);
        driven.arrive_all([2, 0]);
        assert_eq!(driven.poll(), [(0, 2)]);
        driven.now_ns += 14_000;
        driven.arrive_all([0]);
        driven.now_ns += 2_000;
        driven.arrive_all([0]);
        driven.complete(0, 100_000);
        assert_eq!(
            driven.poll(),
            [(0, 3)],
            "due after 19 us, the unknown after 20"
        );
        driven.complete(0, 100_000);
        assert_eq!(driven.poll(), [(0, 0)], "the second A is due after 21");
        assert_eq!(driven.drain(), [1, 4]);
    }

    #[test]
    fn without_any_knowledge_the_order_is_that_of_arrival() {
        let types = TypeTable::from_iter([TypeSpec::new("A"), TypeSpec::new("B")]);
        let mut driven = Driven::new(&Policy::edf(), 2, &types);
        driven.arrive_all([1, 9, 0, 1]);
        assert_eq!(driven.poll(), [(0, 0), (1, 1)]);
        assert_eq!(driven.drain(), [2, 3]);
    }

    #[test]
    fn measurements_give_a_type_its_deadline() {
        let types = TypeTable::from_iter([TypeSpec::new("A").slo(US(50)), TypeSpec::new("B")]);
        let mut driven = Driven::new(&Policy::edf(), 1, &types);
        for _ in 0..1_000 {
            driven.arrive_all([1]);
            driven.drain_at(1_000);
        }
        driven.arrive_all([0, 1]);
        assert_eq!(driven.drain(), [1_000, 1_001], "as urgent as A");
        driven.now_ns += 10_000_000_000;
        driven.arrive_all([1]);
        driven.drain_at(1_000);
        driven.arrive_all([0, 1]);
        assert_eq!(driven.drain(), [1_004, 1_003], "due after 10 us");
    }

    #[test]
    fn what_waits_and_runs_goes_on_under_another_policy_and_back() {
        let mut driven = Driven::new(&Policy::c_fcfs(), 1, &types());
        driven.arrive_all([1, 1, 0]);
        assert_eq!(driven.poll(), [(0, 0)]);
        driven.switch_to(&Policy::edf());
        driven.yields(0, 500);
        assert_eq!(driven.poll(), [(0, 2)]);
        driven.complete(0, 100_000);
        assert_eq!(driven.poll(), [(0, 0)], "before the one that arrived later");
        driven.switch_to(&Policy::darc());
        assert_eq!(driven.drain(), [1]);
    }
}
