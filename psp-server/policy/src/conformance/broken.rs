//! Promises by name, and the report of a broken one.

use std::fmt;

use thiserror::Error;

/// What a policy can break. The first part holds for every policy, the second for policies whose
/// [`Promises`](super::Promises) say so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Promise {
    /// Every accepted request runs to its end, however policies change.
    NothingLost,
    /// No request runs twice, after it was refused, or while it is blocked, and no action names another
    /// request's type.
    NothingTwice,
    /// A worker gets a request only while it is idle.
    OneRequestPerWorker,
    /// A request is refused if, and only if, it finds its typed queue full. Refusals are polled in
    /// the order of arrival.
    RefusedOnlyWhenFull,
    /// Where requests do not migrate, a request resumes on its home worker.
    HomeWorker,
    /// No request begins on an absent worker.
    PresentWorkers,
    /// A worker holds no more requests than it has contexts: running, suspended and blocked ones.
    Contexts,
    /// Requests are preempted only where the setup allows it, and only if they run and their type
    /// yields.
    PreemptsWhatCanStop,
    /// A request is asked to stop at most once in a turn.
    PreemptsOnce,
    /// A request is not asked to stop before the quantum is over that the action names.
    PreemptsAfterQuantum,
    /// The deadline is not in the past when the scheduler has nothing more to do, and there is none
    /// when it holds no request.
    Deadline,
    /// Requests of one type may share a run; whether two types may does not depend on their order;
    /// types that were not registered share with none. A type that is never grouped is in no group with another.
    Runs,
    /// Requests that wait start in the promised [`Order`](super::Order). A request that was blocked goes before
    /// requests of its type that arrived later and never ran, unless either has a deadline of its own.
    Order,
    /// Requests run on [`AllowedWorkers`](super::AllowedWorkers) only.
    AllowedWorkers,
    /// Workers idle, while requests wait that they can run, only as [`Idling`](super::Idling) says.
    WorkConserving,
    /// A request that yielded resumes on the worker where it ran.
    Stays,
    /// A request that may use the driver's own thread does so whenever that is idle.
    OwnThreadFirst,
    /// No request of unknown length begins on the driver's own thread while there is another worker.
    OwnThreadSpared,
    /// No request that never ran waits while all workers that it may use are stuck and another worker idles that is not
    /// the driver's own thread, unless a request of its group runs on such a worker.
    Relieved,
    /// Requests are preempted only as [`Preempts`](super::Preempts) says.
    PreemptsForOthers,
    /// No request keeps its worker for longer than its [`Quantum`](super::Quantum).
    Quantum,
    /// Requests reach their workers in one of the promised ways.
    HandOff,
    /// The status of each type counts the requests that wait and those that were refused, and its
    /// other fields make sense.
    Telemetry,
}

/// A promise that a policy broke, and how.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub struct Broken {
    /// The promise.
    pub promise: Promise,
    /// What the policy did.
    pub what: String,
    /// The shortest case that was found, as text; empty where the caller made the case.
    pub case: String,
}

impl Broken {
    pub(super) const fn new(promise: Promise, what: String) -> Self {
        Self { promise, what, case: String::new() }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?} is broken: {}", self.promise, self.what)?;
        if !self.case.is_empty() {
            write!(formatter, "\nin the case {}", self.case)?;
        }
        Ok(())
    }
}
