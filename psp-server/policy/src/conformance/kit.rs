//! Runs arbitrary cases.

use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};

use super::broken::Broken;
use super::cases::Case;
use super::model::Model;
use super::promises::Promises;
use crate::policy::Policy;
use crate::setup::SchedulerSetup;

/// Number of cases that [`check`] runs.
pub const CASES: u32 = 256;

/// Applies arbitrary events to the policy, in [`CASES`] cases that are the same in every run.
///
/// The policy hands over to c-FCFS and back if its schedulers have a
/// [`Handover`](crate::Handover).
///
/// # Errors
///
/// The promise that the policy broke, with the shortest case that was found.
///
/// # Panics
///
/// When the policy panics, or refuses every number of workers.
pub fn check(policy: &Policy, promises: &Promises) -> Result<(), Broken> {
    let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
    let promises_of = |other: &Policy, _: &SchedulerSetup<'_>| {
        if other == policy {
            promises.clone()
        } else {
            Promises::default()
        }
    };
    let mut runner = TestRunner::new_with_rng(
        config,
        proptest::test_runner::TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha),
    );
    let result = runner.run(&Case::of(policy), |case| {
        let checked = check_case(&case, promises_of);
        checked.map_err(|broken| TestCaseError::fail(broken.to_string()))
    });
    match result {
        Ok(()) => Ok(()),
        Err(TestError::Fail(reason, case)) => match check_case(&case, promises_of) {
            Err(broken) => Err(Broken { case: format!("{case:#?}"), ..broken }),
            Ok(()) => panic!("{reason}"),
        },
        Err(TestError::Abort(reason)) => panic!("{reason}"),
    }
}

/// Runs one case. `promises_of` says what each of its policies promises, given the setup of the case.
/// The setup has no preemption where a worker has no second context, so that preemption frees none.
///
/// # Errors
///
/// The promise that a policy broke.
pub fn check_case(case: &Case, promises_of: impl Fn(&Policy, &SchedulerSetup<'_>) -> Promises) -> Result<(), Broken> {
    let mut model = Model::new(case, &promises_of);
    for step in &case.steps {
        model.apply(step)?;
    }
    model.drain()
}
