//! The kit names the promise that a policy breaks: there is a policy for each that breaks it alone.

mod breaking;
mod driving;
mod faulty;
mod rules;
mod view;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use super::{Broken, CASES, Case, Promise, Promises, check, check_case};
use crate::policy::Policy;
use crate::setup::SchedulerSetup;
use breaking::{breaking, good};

/// Cases in which each broken policy has to be found.
const BROKEN: usize = 8;
/// Cases of each policy without a fault. Other tests run more of them.
const KEPT: usize = 64;

/// How a policy breaks its promises, in the cases that [`check`] runs and without a search for shorter ones.
fn broken_cases(policy: &Policy, promises: &Promises) -> impl Iterator<Item = Option<Broken>> {
    let mut runner = TestRunner::deterministic();
    let cases = Case::of(policy);
    (0..CASES).map(move |_| {
        let case = cases.new_tree(&mut runner).expect("a case").current();
        let promises_of = |other: &Policy, _: &SchedulerSetup<'_>| match other == policy {
            true => promises.clone(),
            false => Promises::default(),
        };
        check_case(&case, promises_of).err()
    })
}

/// Tests each policy that breaks the promise.
fn is_caught(promise: Promise) {
    for (fault, policy, promises) in breaking(promise) {
        let mut found = broken_cases(&policy, &promises).flatten().take(BROKEN).peekable();
        assert!(found.peek().is_some(), "{fault}");
        for broken in found {
            assert_eq!(broken.promise, promise, "{fault}: {broken}");
        }
    }
}

/// A test for each promise. One that is left out does not compile.
macro_rules! each_promise {
    ($($test:ident: $promise:ident),* $(,)?) => {
        const _: fn(Promise) = |promise| match promise {
            $(Promise::$promise => {})*
        };

        $(
            #[test]
            fn $test() {
                is_caught(Promise::$promise);
            }
        )*
    };
}

each_promise! {
    nothing_lost: NothingLost,
    nothing_twice: NothingTwice,
    one_request_per_worker: OneRequestPerWorker,
    refused_only_when_full: RefusedOnlyWhenFull,
    home_worker: HomeWorker,
    present_workers: PresentWorkers,
    contexts: Contexts,
    preempts_what_can_stop: PreemptsWhatCanStop,
    preempts_once: PreemptsOnce,
    preempts_after_quantum: PreemptsAfterQuantum,
    deadline: Deadline,
    runs_of_one_type: Runs,
    order: Order,
    allowed_workers: AllowedWorkers,
    work_conserving: WorkConserving,
    stays: Stays,
    own_thread_first: OwnThreadFirst,
    own_thread_spared: OwnThreadSpared,
    relieved: Relieved,
    preempts_for_others: PreemptsForOthers,
    quantum: Quantum,
    hand_off: HandOff,
    telemetry: Telemetry,
}

/// It is the fault that breaks the promise.
#[test]
fn without_a_fault_each_policy_keeps_its_promises() {
    for (policy, promises) in good() {
        let mut found = broken_cases(&policy, &promises).take(KEPT).flatten();
        assert_eq!(found.next(), None, "{policy:?}");
    }
}

#[test]
fn the_shortest_case_is_shown() {
    let (_, policy, promises) = breaking(Promise::Telemetry).remove(0);
    let broken = check(&policy, &promises).unwrap_err();
    let shown = broken.to_string();
    let (first, case) = shown.split_once("\nin the case ").expect("a case");
    assert_eq!(first, format!("Telemetry is broken: {}", broken.what));
    assert!(case.contains("workers: 1,"), "{case}");
    assert!(case.matches("Step {").count() < 10, "{case}");
    let without = Broken { case: String::new(), ..broken };
    assert_eq!(without.to_string(), first);
    assert_eq!(check(&Policy::c_fcfs(), &Promises::default()), Ok(()));
}
