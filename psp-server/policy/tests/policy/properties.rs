//! The conformance kit against every policy, with arbitrary settings, and with switches among all of
//! them: whatever windows close, quanta end and policies change, each keeps its promises.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use psp_policy::Policy;
use psp_policy::conformance::{CASES, Case, check_case, workers};

use crate::promises::promises_of;
use crate::settings::{any_policy, policy_with_any_settings};

/// A policy of that name and up to three others, and a number of workers for them.
fn policies(name: &'static str) -> impl Strategy<Value = (Vec<Policy>, usize)> {
    workers().prop_flat_map(move |workers| {
        let first = policy_with_any_settings(name, workers);
        let others = prop::collection::vec(any_policy(workers), 0..4);
        let policies = (first, others).prop_map(|(first, mut policies)| {
            policies.insert(0, first);
            policies
        });
        (policies, Just(workers))
    })
}

/// A test for each policy, and [`TESTED`], their names.
macro_rules! keeps_its_promises {
    ($($test:ident: $name:literal),* $(,)?) => {
        const TESTED: &[&str] = &[$($name),*];

        proptest! {
            #![proptest_config(ProptestConfig::with_cases(CASES))]
            $(
                #[test]
                fn $test(case in Case::any(policies($name))) {
                    let checked = check_case(&case, promises_of);
                    prop_assert!(checked.is_ok(), "{}", checked.unwrap_err());
                }
            )*
        }
    };
}

keeps_its_promises! {
    d_fcfs: "d-fcfs",
    c_fcfs: "c-fcfs",
    stealing: "stealing",
    fixed_priority: "fixed-priority",
    static_partition: "static-partition",
    darc: "darc",
    darc_static: "darc-static",
    darc_lending: "darc-lending",
    portfolio: "portfolio",
    sjf: "sjf",
    edf: "edf",
    drr: "drr",
    wrr: "wrr",
    cscq: "cscq",
    sq: "sq",
    mq: "mq",
    jbsq: "jbsq",
    jsq: "jsq",
    synergy: "synergy",
    darc_distributed: "darc-distributed",
}

#[test]
fn every_policy_is_tested() {
    assert_eq!(TESTED, Policy::NAMES);
    let mut runner = TestRunner::deterministic();
    for name in Policy::NAMES {
        for workers in [1, 2, 14] {
            let drawn = policy_with_any_settings(name, workers).new_tree(&mut runner);
            let policy = drawn.unwrap().current();
            assert_eq!(policy.name(), name);
            assert_eq!(policy.validate(workers), Ok(()));
        }
    }
}
