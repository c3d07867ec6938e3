//! Static partition: workers divided among groups of types by their share of the CPU demand, once
//! and for good; each group runs on its own workers and on no other (Perséphone, table 5).
//!
//! Types are grouped by length as DARC groups them, and every worker belongs to some partition.
//! Within one, requests are served in order of arrival. Where there are more groups than workers,
//! those nearest to each other share one.
//!
//! Until the service time of every type is known, from hints or because windows measured it, there
//! is one queue for all. `UNKNOWN` belongs to the last partition, that of the longest types, and
//! waits its turn there: no type can starve another.

use super::grouped::Grouped;
use super::profile::Profile;
use super::settings::{self, Darc};
use super::{Action, Backlog, Event, Scheduler, SchedulerSetup, TypeStatus};

/// See the [module](self).
pub(super) struct StaticPartition {
    grouped: Grouped,
    profile: Profile,
    delta: f64,
    partitioned: bool,
}

impl StaticPartition {
    pub(super) fn new(setup: &SchedulerSetup<'_>, settings: &settings::StaticPartition) -> Self {
        let mut policy = Self {
            grouped: Grouped::new(setup),
            profile: Profile::new(setup, &Darc::default()),
            delta: settings.delta,
            partitioned: false,
        };
        policy.partition_if_known();
        policy
    }

    fn partition_if_known(&mut self) {
        let Self { profile, delta, .. } = self;
        if self.partitioned || (0..profile.types()).any(|slot| profile.mean_ns(slot).is_none()) {
            return;
        }
        let plan = &mut self.grouped.plan;
        plan.regroup(*delta, |slot| profile.mean_ns(slot));
        plan.partition_by_demand(|slot| profile.demand(slot));
        self.partitioned = true;
    }
}

impl Scheduler for StaticPartition {
    fn on_event(&mut self, now_ns: u64, event: Event<'_>) {
        self.grouped.take_note(now_ns, event, &mut self.profile);
        if self.profile.close_window_if_due(now_ns) {
            self.partition_if_known();
        }
    }

    fn poll(&mut self, now_ns: u64) -> Option<Action> {
        let refused = self.grouped.queues.pop_refused();
        refused.or_else(|| Some(self.grouped.dispatch_within_partition(now_ns)?.action))
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

    fn reservation_updates(&self) -> u64 {
        u64::from(self.partitioned)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::driven::Driven;
    use super::super::{Policy, WorkerId};
    use crate::request_type::{RequestType, TypeSpec, TypeTable};

    /// A needs one of four workers, B needs three.
    fn hinted() -> TypeTable {
        let spec = |name, us, share| {
            TypeSpec::new(name)
                .service_time(Duration::from_micros(us))
                .share(share)
        };
        TypeTable::from_iter([spec("A", 1, 0.75), spec("B", 10, 0.25)])
    }

    fn worker_of(driven: &mut Driven, request_type: RequestType) -> Option<u32> {
        driven.arrive(request_type);
        driven.poll().pop().map(|(worker, _)| worker)
    }

    #[test]
    fn each_group_keeps_to_its_workers_even_when_others_idle() {
        let mut driven = Driven::new(&Policy::static_partition(), 4, &hinted());
        assert_eq!(driven.scheduler().reservation_updates(), 1);
        driven.arrive_all([0, 0, 0]);
        assert_eq!(driven.poll(), [(0, 0)], "workers 1 to 3 are idle");
        driven.arrive_all([1, 1, 1, 1]);
        assert_eq!(driven.poll(), [(1, 3), (2, 4), (3, 5)]);
        driven.complete(0, 1_000);
        assert_eq!(driven.poll(), [(0, 1)]);
        let (short, long) = (driven.status(0), driven.status(1));
        assert_eq!((short.workers_reserved, long.workers_reserved), (1, 3));
        assert_eq!(long.worker_first, Some(WorkerId(1)));
        assert_eq!(driven.status(2).group, None);
    }

    #[test]
    fn unknown_requests_wait_their_turn_in_the_last_partition() {
        let mut driven = Driven::new(&Policy::static_partition(), 2, &hinted());
        driven.arrive_all([1, 1, 7, 1, 0]);
        driven.arrive(RequestType::UNKNOWN);
        assert_eq!(driven.poll(), [(0, 4), (1, 0)]);
        let mut ran = Vec::new();
        for _ in 0..5 {
            driven.complete(1, 10_000);
            ran.extend(driven.poll());
        }
        assert_eq!(ran, [(1, 1), (1, 2), (1, 3), (1, 5)]);
    }

    #[test]
    fn partitions_are_made_when_every_type_was_measured_and_never_again() {
        let types = TypeTable::from_iter([TypeSpec::new("A"), TypeSpec::new("B")]);
        let mut driven = Driven::new(&Policy::static_partition(), 2, &types);
        let window = |driven: &mut Driven, types: &[u32], service_ns: [u64; 2]| {
            for nth in 0..1_000 {
                let index = types[nth % types.len()];
                driven.arrive_all([index]);
                let (worker, _) = driven.poll()[0];
                driven.complete(worker, service_ns[index as usize]);
            }
            driven.now_ns += 10_000_000_000;
            driven.arrive_all([types[0]]);
            let (worker, _) = driven.poll()[0];
            driven.complete(worker, service_ns[types[0] as usize]);
        };
        window(&mut driven, &[1], [1_000, 10_000]);
        assert_eq!(driven.scheduler().reservation_updates(), 0, "A is new");
        let first = worker_of(&mut driven, RequestType::new(0)).unwrap();
        let other = worker_of(&mut driven, RequestType::new(0)).unwrap();
        assert_eq!(first + other, 1, "any worker");
        driven.complete(0, 1_000);
        driven.complete(1, 1_000);
        window(&mut driven, &[0, 1], [1_000, 10_000]);
        assert_eq!(driven.scheduler().reservation_updates(), 1);
        assert_eq!(worker_of(&mut driven, RequestType::new(0)), Some(0));
        assert_eq!(worker_of(&mut driven, RequestType::new(0)), None);
        driven.drain();
        window(&mut driven, &[0, 1], [10_000, 1_000]);
        assert_eq!(
            driven.status(0).worker_first,
            Some(WorkerId(0)),
            "as it was"
        );
    }

    #[test]
    fn one_worker_and_no_types_are_no_different_from_one_queue() {
        for types in [hinted(), TypeTable::new()] {
            let mut driven = Driven::new(&Policy::static_partition(), 1, &types);
            driven.arrive_all([1, 0, 5, 0]);
            assert_eq!(driven.drain(), [0, 1, 2, 3]);
        }
    }

    #[test]
    fn what_waits_and_runs_goes_on_under_another_policy_and_back() {
        let mut driven = Driven::new(&Policy::c_fcfs(), 2, &hinted());
        driven.arrive_all([0, 0, 0, 1]);
        assert_eq!(driven.poll(), [(0, 0), (1, 1)]);
        driven.switch_to(&Policy::static_partition());
        driven.complete(1, 1_000);
        assert_eq!(driven.poll(), [(1, 3)], "worker 1 is no longer A's");
        driven.yields(1, 500);
        driven.arrive_all([1]);
        assert_eq!(driven.poll(), [(1, 3)], "it was first");
        driven.switch_to(&Policy::stealing());
        assert_eq!(driven.poll(), []);
        assert_eq!(driven.drain().len(), 2);
    }
}
