//! Arbitrary operations on every policy, beside a model that knows what must hold after each.
//!
//! Each request ends once or is refused once, in order and where it may run; no worker gets two;
//! nothing waits for a worker that is idle and allowed; only a full queue refuses; nobody is
//! preempted for nobody, nor asked to who does not give way; and in the end everything has run, whatever windows closed, quanta ended
//! and policies changed in between.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use psp_server::Policy;

use crate::model::Model;
use crate::operations::Case;
use crate::settings::policy_with_any_settings;

const CASES: u32 = 256;

/// A test for each policy, and [`TESTED`], their names.
macro_rules! keeps_its_promises {
    ($($test:ident: $name:literal),* $(,)?) => {
        const TESTED: &[&str] = &[$($name),*];

        proptest! {
            #![proptest_config(ProptestConfig::with_cases(CASES))]
            $(
                #[test]
                fn $test(case in Case::any($name)) {
                    let mut model = Model::new(&case);
                    for step in &case.steps {
                        model.apply(step);
                    }
                    model.drain();
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
    sjf: "sjf",
    edf: "edf",
    drr: "drr",
    cscq: "cscq",
    sq: "sq",
    mq: "mq",
    jbsq: "jbsq",
    jsq: "jsq",
    synergy: "synergy",
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
