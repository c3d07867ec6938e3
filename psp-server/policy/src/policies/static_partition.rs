//! Static partition: workers divided among groups of types by their share of the CPU demand, once
//! and for good; each group runs on its own workers and on no other (Perséphone, table 5). When workers come
//! or go, those present are divided among the same groups.
//!
//! Types are grouped by length as DARC groups them, and every worker belongs to some partition.
//! Within one, requests are served in order of arrival. Where there are more groups than workers,
//! those nearest to each other share one.
//!
//! Until the service time of every type is known, from hints or because windows measured it, there
//! is one queue for all. What a look into an open window says divides the workers provisionally, until the
//! window closes. `UNKNOWN` belongs to the last partition, that of the longest types, and
//! waits its turn there: no type can starve another.

use crate::backlog::Handover;
use crate::event::{Action, Event};
use crate::parts::grouped::Grouped;
use crate::parts::profile::Learned;
use crate::scheduler::{Relief, Scheduler, TypeStatus};
use crate::settings;
use crate::settings::Darc;
use crate::setup::SchedulerSetup;

/// See the [module](self).
pub(crate) struct StaticPartition {
    grouped: Grouped,
    delta: f64,
    /// Per type slot: its share of the demand when the types were grouped.
    demand: Vec<f64>,
    /// Whether the workers are divided for good.
    settled: bool,
    updates: u64,
}

impl StaticPartition {
    pub(crate) fn new(setup: &SchedulerSetup<'_>, settings: &settings::StaticPartition) -> Self {
        let mut policy = Self {
            grouped: Grouped::new(setup, &Darc::default()),
            delta: settings.delta,
            demand: vec![0.0; setup.types.len() + 1],
            settled: false,
            updates: 0,
        };
        policy.partition_if_known(true);
        policy
    }

    fn partition_if_known(&mut self, for_good: bool) {
        let Grouped { plan, profile, .. } = &mut self.grouped;
        if self.settled || profile.any_unknown() {
            return;
        }
        plan.regroup(self.delta, |slot| profile.mean_ns(slot));
        for (demand, slot) in self.demand.iter_mut().zip(0..) {
            *demand = profile.demand(slot);
        }
        self.settled = for_good;
        self.divide();
    }

    /// Divides the workers that are present by the demand as it was when the groups were made.
    fn divide(&mut self) {
        let demand = &self.demand;
        self.grouped.plan.partition_by_demand(|slot| demand[slot]);
        self.updates += 1;
    }
}

impl Scheduler for StaticPartition {
    fn on_event(&mut self, now_ns: u64, event: Event<'_>) {
        self.grouped.record(now_ns, event);
        if matches!(event, Event::Workers { .. }) && self.updates > 0 {
            self.divide();
        }
        if let Some(learned) = self.grouped.close_window_if_due(now_ns) {
            self.partition_if_known(learned != Learned::Provisional);
        }
    }

    fn poll(&mut self, now_ns: u64) -> Option<Action> {
        let refused = self.grouped.queues.pop_refused();
        refused.or_else(|| Some(self.grouped.dispatch_within_partition(now_ns)?.action))
    }

    fn deadline_ns(&self) -> Option<u64> {
        self.grouped.deadline_ns()
    }

    fn handover(&mut self) -> Option<&mut dyn Handover> {
        Some(&mut self.grouped)
    }

    fn type_status(&self, slot: usize) -> TypeStatus {
        self.grouped.type_status(slot)
    }

    fn relief(&self, now_ns: u64, slot: usize) -> Relief {
        self.grouped.relief_within_partition(now_ns, slot)
    }

    fn reservation_updates(&self) -> u64 {
        self.updates
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::event::WorkerId;
    use crate::policy::Policy;
    use crate::rehearsal::{Rehearsal, UNKNOWN};
    use crate::request_type::TypeSpec;

    /// A needs one of four workers, B needs three.
    fn hinted() -> [TypeSpec; 2] {
        let spec = |name, us, share| TypeSpec::new(name).service_time(Duration::from_micros(us)).share(share);
        [spec("A", 1, 0.75), spec("B", 10, 0.25)]
    }

    /// The worker that a request runs on when it arrives, if any.
    fn worker_of(rehearsal: &mut Rehearsal, index: u32) -> Option<u32> {
        let ran = rehearsal.arrive_all([index]);
        ran.split_once('@').map(|(_, worker)| worker.parse().unwrap())
    }

    #[test]
    fn each_group_keeps_to_its_workers_even_when_others_idle() {
        let mut policy = Rehearsal::new(Policy::static_partition(), 4, hinted());
        assert_eq!(policy.reservation_updates(), 1);
        assert_eq!(policy.arrive_all([0; 3]), "0@0", "workers 1 to 3 are idle");
        assert_eq!(policy.arrive_all([1; 4]), "3@1, 4@2, 5@3");
        assert_eq!(policy.finishes(0, 1_000), "1@0");
        let (short, long) = (policy.type_status(0), policy.type_status(1));
        assert_eq!((short.workers_reserved, long.workers_reserved), (1, 3));
        assert_eq!(long.worker_first, Some(WorkerId(1)));
        assert_eq!(policy.type_status(2).group, None);
    }

    #[test]
    fn workers_that_come_or_go_are_divided_anew_if_they_were_divided() {
        let bare = || ["A", "B"].map(TypeSpec::new);
        for (types, updates, reserved) in [(hinted(), [1, 2, 3], [1, 2]), (bare(), [0; 3], [0; 2])] {
            let mut policy = Rehearsal::new(Policy::static_partition(), 4, types);
            let counted = [4, 2, 3].map(|present| {
                if present < 4 {
                    policy.has_workers(present);
                }
                policy.reservation_updates()
            });
            assert_eq!(counted, updates);
            assert_eq!([0, 1].map(|slot| policy.type_status(slot).workers_reserved), reserved);
        }
    }

    #[test]
    fn unknown_requests_wait_their_turn_in_the_last_partition() {
        let mut policy = Rehearsal::new(Policy::static_partition(), 2, hinted());
        assert_eq!(policy.arrive_all([1, 1, 7, 1, 0, UNKNOWN]), "4@0, 0@1");
        for next in ["1@1", "2@1", "3@1", "5@1", ""] {
            assert_eq!(policy.finishes(1, 10_000), next);
        }
    }

    #[test]
    fn partitions_are_made_when_every_type_was_measured_and_never_again() {
        let types = [TypeSpec::new("A"), TypeSpec::new("B")];
        let mut policy = Rehearsal::new(Policy::static_partition(), 2, types);
        let run = |policy: &mut Rehearsal, index, service_ns: [u64; 2]| {
            let worker = worker_of(policy, index).expect("both are idle");
            policy.finishes(worker, service_ns[index as usize]);
        };
        let window = |policy: &mut Rehearsal, types: &[u32], service_ns| {
            for index in types.iter().cycle().take(1_000) {
                run(policy, *index, service_ns);
            }
            policy.now_ns += 10_000_000_000;
            run(policy, types[0], service_ns);
        };
        window(&mut policy, &[1], [1_000, 10_000]);
        assert_eq!(policy.reservation_updates(), 0, "A is new");
        let first = worker_of(&mut policy, 0).unwrap();
        let other = worker_of(&mut policy, 0).unwrap();
        assert_eq!(first + other, 1, "any worker");
        policy.drain(1_000);
        window(&mut policy, &[0, 1], [1_000, 10_000]);
        let updates = policy.reservation_updates();
        assert!(updates > 1, "provisional ones, and the last");
        assert_eq!(worker_of(&mut policy, 0), Some(0));
        assert_eq!(worker_of(&mut policy, 0), None);
        policy.drain(1_000);
        window(&mut policy, &[0, 1], [10_000, 1_000]);
        let first = policy.type_status(0).worker_first;
        assert_eq!(first, Some(WorkerId(0)), "as it was");
        assert_eq!(policy.reservation_updates(), updates);
    }

    #[test]
    fn one_worker_and_no_types_are_no_different_from_one_queue() {
        for types in [hinted().to_vec(), Vec::new()] {
            let mut policy = Rehearsal::new(Policy::static_partition(), 1, types);
            assert_eq!(policy.order_of([1, 0, 5, 0], 1_000), [0, 1, 2, 3]);
        }
    }

    #[test]
    fn what_waits_and_runs_goes_on_under_another_policy_and_back() {
        let two_workers = |policy| Rehearsal::new(policy, 2, hinted());
        let mut policy = two_workers(Policy::c_fcfs());
        assert_eq!(policy.arrive_all([0, 0, 0, 1]), "0@0, 1@1");
        let partition = two_workers(Policy::static_partition());
        assert_eq!(policy.switches(10, partition), "");
        let next = policy.finishes(1, 1_000);
        assert_eq!(next, "3@1", "worker 1 is no longer A's");
        assert_eq!(policy.arrive_all([1]), "");
        assert_eq!(policy.yields_now(1, 500), "3@1", "it was first");
        let stealing = two_workers(Policy::stealing());
        assert_eq!(policy.switches(20, stealing), "");
        assert_eq!(policy.drain(1_000).len(), 2);
    }
}
