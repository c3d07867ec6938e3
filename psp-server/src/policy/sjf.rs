//! Shortest job first, without preemption: the waiting request whose type has the shortest mean
//! service time, on any idle worker; equal ones in order of arrival (Perséphone, table 5).
//!
//! It differs from [`fixed_priority`](super::fixed_priority) in whose word counts. There a hint
//! stands whatever is measured, as an operator's priorities do; here it stands until the type was
//! measured, and the order follows the profile from window to window. Sizes are those of types: a
//! request's own is not known before it ran.
//!
//! Types of which nothing is known come last, with `UNKNOWN`, in order of arrival. While shorter
//! types keep all workers busy they wait, as does the longest type: SJF promises them nothing.

use super::SchedulerSetup;
use super::fixed_priority::FixedPriority;
use super::profile::Profile;

/// See the [module](self).
pub(super) fn scheduler(setup: &SchedulerSetup<'_>) -> FixedPriority {
    FixedPriority::ranked(setup, Profile::mean_ns)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::Policy;
    use super::super::driven::Driven;
    use crate::request_type::{RequestType, TypeSpec, TypeTable};

    /// What hints call short and long is measured the other way round.
    const MISLED: [(&str, u64); 2] = [("A", 1), ("B", 100)];

    fn misled() -> TypeTable {
        MISLED
            .iter()
            .map(|&(name, us)| TypeSpec::new(name).service_time(Duration::from_micros(us)))
            .collect()
    }

    /// Runs a window of both types, of which A takes 100 us and B takes 1 us.
    fn measured(policy: &Policy) -> Driven {
        let mut driven = Driven::new(policy, 1, &misled());
        for index in (0..1_200).map(|nth| nth % 2) {
            driven.arrive_all([index]);
            driven.poll();
            driven.complete(0, [100_000, 1_000][index as usize]);
        }
        driven.now_ns += 10_000_000_000;
        driven.arrive_all([0]);
        driven.poll();
        driven.complete(0, 100_000);
        driven
    }

    #[test]
    fn hints_are_believed_until_the_type_is_measured() {
        let mut driven = Driven::new(&Policy::sjf(), 1, &misled());
        driven.arrive_all([0, 1, 1, 0]);
        driven.arrive(RequestType::UNKNOWN);
        assert_eq!(driven.drain(), [0, 3, 1, 2, 4]);

        for (policy, expected) in [
            (Policy::sjf(), [1, 2, 0]),
            (Policy::fixed_priority(), [0, 1, 2]),
        ] {
            let mut driven = measured(&policy);
            let before = 1_201;
            driven.arrive_all([0, 1, 1]);
            let order: Vec<u32> = driven.drain().iter().map(|id| id - before).collect();
            assert_eq!(order, expected, "{policy}");
        }
    }

    #[test]
    fn without_hints_it_is_first_come_first_served() {
        let types = TypeTable::from_iter([TypeSpec::new("A"), TypeSpec::new("B")]);
        let mut driven = Driven::new(&Policy::sjf(), 1, &types);
        driven.arrive_all([1, 7, 0, 1]);
        assert_eq!(driven.drain(), [0, 1, 2, 3]);
    }

    #[test]
    fn any_worker_will_do_and_what_yielded_goes_on_first() {
        let mut driven = Driven::new(&Policy::sjf(), 2, &misled());
        driven.arrive_all([1, 1, 1, 0]);
        assert_eq!(driven.poll(), [(0, 3), (1, 0)]);
        driven.yields(1, 500);
        assert_eq!(driven.poll(), [(1, 0)]);
        driven.complete(0, 1_000);
        assert_eq!(driven.poll(), [(0, 1)]);
    }

    #[test]
    fn what_waits_and_runs_goes_on_under_another_policy_and_back() {
        let mut driven = Driven::new(&Policy::d_fcfs(), 1, &misled());
        driven.arrive_all([1, 1, 0]);
        assert_eq!(driven.poll(), [(0, 0)]);
        driven.switch_to(&Policy::sjf());
        assert_eq!(driven.poll(), []);
        driven.complete(0, 1_000);
        assert_eq!(driven.poll(), [(0, 2)], "the short one overtakes");
        driven.arrive_all([0]);
        driven.switch_to(&Policy::c_fcfs());
        assert_eq!(driven.drain(), [1, 3]);
    }
}
