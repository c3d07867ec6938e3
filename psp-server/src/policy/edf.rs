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

    /// The type whose next request has the earliest deadline. Of equal ones, the request that
    /// arrived first.
    fn most_urgent(&self) -> Option<usize> {
        let first = |(slot, &target_ns): (usize, &u64)| {
            let arrived_ns = self.grouped.next_of(slot)?.arrived_ns;
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

    use super::super::rehearsal::{Rehearsal, UNKNOWN};
    use super::super::{Edf, Policy};
    use crate::request_type::TypeSpec;

    const US: fn(u64) -> Duration = Duration::from_micros;

    /// A is long and urgent, B has 10 times 2 us, nothing is known of C.
    fn types() -> [TypeSpec; 3] {
        [
            TypeSpec::new("A").service_time(US(100)).slo(US(5)),
            TypeSpec::new("B").service_time(US(2)),
            TypeSpec::new("C"),
        ]
    }

    #[test]
    fn the_nearest_deadline_goes_first_whatever_the_length() {
        let mut edf = Rehearsal::new(Policy::edf(), 1, types());
        let order = edf.order_of([UNKNOWN, 2, 1, 0, 1, 0], 1_000);
        assert_eq!(order, [3, 5, 0, 1, 2, 4]);
    }

    #[test]
    fn the_factor_makes_slos_of_service_times() {
        for (factor, expected) in [(10.0, [1, 0]), (5.0, [0, 1])] {
            let types = [
                TypeSpec::new("A").slo(US(15)),
                TypeSpec::new("B").service_time(US(2)),
            ];
            let mut edf = Rehearsal::new(Edf::default().slo_factor(factor), 1, types);
            assert_eq!(edf.order_of([1, 0], 1_000), expected, "{factor}");
        }
    }

    #[test]
    fn whoever_waited_for_the_longest_slo_is_not_overtaken_any_more() {
        let mut edf = Rehearsal::new(Policy::edf(), 1, types());
        assert_eq!(edf.arrive_all([UNKNOWN, 2, 0]), "2@0");
        edf.now_ns += 14_000;
        assert_eq!(edf.arrive_all([0]), "");
        edf.now_ns += 2_000;
        assert_eq!(edf.arrive_all([0]), "");
        let first = edf.finishes(0, 100_000);
        assert_eq!(first, "3@0", "due after 19 us, the unknown after 20");
        let next = edf.finishes(0, 100_000);
        assert_eq!(next, "0@0", "the second A is due after 21");
        assert_eq!(edf.drain(1_000), [1, 4]);
    }

    #[test]
    fn without_any_knowledge_the_order_is_that_of_arrival() {
        let types = [TypeSpec::new("A"), TypeSpec::new("B")];
        let mut edf = Rehearsal::new(Policy::edf(), 2, types);
        assert_eq!(edf.arrive_all([1, 9, 0, 1]), "0@0, 1@1");
        assert_eq!(edf.drain(1_000), [2, 3]);
    }

    #[test]
    fn measurements_give_a_type_its_deadline() {
        let types = [TypeSpec::new("A").slo(US(50)), TypeSpec::new("B")];
        let mut edf = Rehearsal::new(Policy::edf(), 1, types);
        for id in 0..1_000 {
            assert_eq!(edf.order_of([1], 1_000), [id]);
        }
        let order = edf.order_of([0, 1], 1_000);
        assert_eq!(order, [1_000, 1_001], "as urgent as A");
        edf.now_ns += 10_000_000_000;
        assert_eq!(edf.order_of([1], 1_000), [1_002]);
        let order = edf.order_of([0, 1], 1_000);
        assert_eq!(order, [1_004, 1_003], "due after 10 us");
    }

    #[test]
    fn what_waits_and_runs_goes_on_under_another_policy_and_back() {
        let one_worker = |policy| Rehearsal::new(policy, 1, types());
        let mut policy = one_worker(Policy::c_fcfs());
        assert_eq!(policy.arrive_all([1, 1, 0]), "0@0");
        assert_eq!(policy.switches(10, one_worker(Policy::edf())), "");
        assert_eq!(policy.gives_way(0, 500), "2@0");
        let next = policy.finishes(0, 100_000);
        assert_eq!(next, "0@0", "before the one that arrived later");
        assert_eq!(policy.switches(20, one_worker(Policy::darc())), "");
        assert_eq!(policy.drain(1_000), [1]);
    }
}
