//! Shortest job first, without preemption: the waiting request whose type has the shortest mean
//! service time, on any idle worker; equal ones in order of arrival (Perséphone, table 5).
//!
//! Under [`fixed_priority`](crate::policies::fixed_priority) a hint counts whatever is measured, as an
//! operator's priorities do. Here it counts until the type is measured, and the order follows the
//! profile from window to window. Sizes are those of types: a request's own is not known before it
//! has run.
//!
//! Types of unknown length come last, with `UNKNOWN`, in order of arrival, but for one request of each
//! untried type ([`grouped`](crate::parts::grouped)). The longest type waits while shorter types keep all
//! workers busy: SJF promises it nothing.

use crate::parts::profile::Profile;
use crate::policies::fixed_priority::FixedPriority;
use crate::setup::SchedulerSetup;

/// See the [module](self).
pub(crate) fn scheduler(setup: &SchedulerSetup<'_>) -> FixedPriority {
    FixedPriority::ranked(setup, Profile::mean_ns)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::policy::Policy;
    use crate::rehearsal::{Rehearsal, UNKNOWN};
    use crate::request_type::TypeSpec;

    /// What hints call short and long is measured the other way round.
    const MISLED: [(&str, u64); 2] = [("A", 1), ("B", 100)];

    fn misled() -> [TypeSpec; 2] {
        MISLED.map(|(name, us)| TypeSpec::new(name).service_time(Duration::from_micros(us)))
    }

    /// Runs a window of both types, of which A takes 100 us and B takes 1 us.
    fn measured(policy: Policy) -> Rehearsal {
        let mut rehearsal = Rehearsal::new(policy, 1, misled());
        for index in (0..1_200).map(|nth| nth % 2) {
            rehearsal.arrive_all([index]);
            rehearsal.finishes(0, [100_000, 1_000][index as usize]);
        }
        rehearsal.now_ns += 10_000_000_000;
        rehearsal.arrive_all([0]);
        rehearsal.finishes(0, 100_000);
        rehearsal
    }

    #[test]
    fn hints_are_believed_until_the_type_is_measured() {
        let mut sjf = Rehearsal::new(Policy::sjf(), 1, misled());
        assert_eq!(sjf.order_of([0, 1, 1, 0, UNKNOWN], 1_000), [0, 3, 1, 2, 4]);

        for (policy, expected) in [(Policy::sjf(), [1, 2, 0]), (Policy::fixed_priority(), [0, 1, 2])] {
            let name = policy.name().to_owned();
            let order = measured(policy).order_of([0, 1, 1], 1_000);
            let before = 1_201;
            assert_eq!(order, expected.map(|id: u32| before + id), "{name}");
        }
    }

    #[test]
    fn without_hints_it_is_first_come_first_served() {
        let types = [TypeSpec::new("A"), TypeSpec::new("B")];
        let mut sjf = Rehearsal::new(Policy::sjf(), 1, types);
        assert_eq!(sjf.order_of([1, 7, 0, 1], 1_000), [0, 1, 2, 3]);
    }

    #[test]
    fn one_request_of_an_untried_type_goes_first_once_others_have_a_length() {
        let types = || {
            let [hinted, _] = misled();
            [hinted, TypeSpec::new("B"), TypeSpec::new("C")]
        };
        for policy in [Policy::sjf(), Policy::fixed_priority(), Policy::darc_static(0)] {
            let mut one = Rehearsal::new(policy.clone(), 1, types());
            let order = one.order_of([0, UNKNOWN, 2, 2, 1, 0, 2], 1_000);
            assert_eq!(order, [2, 4, 0, 5, 1, 3, 6], "{policy}");
            let mut two = Rehearsal::new(policy, 2, types());
            assert_eq!(two.arrive_all([2, 2, 0, 0]), "0@0, 2@1", "one runs");
            assert_eq!(two.completes(10, 0), "1@0", "nothing was measured");
        }
    }

    #[test]
    fn any_worker_will_do_and_what_yielded_goes_on_first() {
        let mut sjf = Rehearsal::new(Policy::sjf(), 2, misled());
        assert_eq!(sjf.arrive_all([1, 1, 1, 0]), "3@0, 0@1");
        assert_eq!(sjf.yields_now(1, 500), "0@1");
        assert_eq!(sjf.finishes(0, 1_000), "1@0");
    }

    #[test]
    fn what_waits_and_runs_goes_on_under_another_policy_and_back() {
        let one_worker = |policy| Rehearsal::new(policy, 1, misled());
        let mut policy = one_worker(Policy::d_fcfs());
        assert_eq!(policy.arrive_all([1, 1, 0]), "0@0");
        assert_eq!(policy.switches(10, one_worker(Policy::sjf())), "");
        assert_eq!(policy.finishes(0, 1_000), "2@0", "the short one overtakes");
        assert_eq!(policy.arrive_all([0]), "");
        assert_eq!(policy.switches(20, one_worker(Policy::c_fcfs())), "");
        assert_eq!(policy.drain(1_000), [1, 3]);
    }
}
