//! What can go wrong. The `Debug` of what `main` may return is one line that a person reads, since `main` prints that.

use std::error::Error;
use std::fmt::{self, Debug, Formatter};

use psp_policy::PolicyError;

/// Why a task has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PoolError {
    /// The queue of its type was full.
    #[error("the queue of `{type_name}` is full")]
    Busy {
        /// The name of the type.
        type_name: String,
    },
    /// Its turn came too late.
    #[error("the deadline has passed before the task could begin")]
    Expired,
    /// The pool has ended.
    #[error("the pool is closed")]
    Closed,
}

/// Why a pool cannot be built.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// There has to be a worker.
    #[error("a pool needs a worker")]
    NoWorkers,
    /// The pool or a type has queues of no tasks.
    #[error("a queue that holds no task refuses all: its capacity is at least 1")]
    NoQueue,
    /// The policy does not fit.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The system has no thread.
    #[error("cannot start a worker")]
    Thread(#[from] std::io::Error),
}

/// Why a policy does not come into force.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum PolicyRefused {
    /// It does not fit the pool.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// It cannot take over what waits, or that before cannot hand it over.
    #[error("the policies cannot hand waiting tasks over to each other")]
    NoHandover,
    /// It preempts tasks, and the system has no thread to see to that.
    #[error("cannot start the thread that a policy with preemption needs")]
    Thread(#[from] std::io::Error),
}

fn with_cause(error: &dyn Error, formatter: &mut Formatter<'_>) -> fmt::Result {
    write!(formatter, "{error}")?;
    error.source().map_or(Ok(()), |cause| write!(formatter, ": {cause}"))
}

impl Debug for BuildError {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        with_cause(self, formatter)
    }
}

impl Debug for PolicyRefused {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        with_cause(self, formatter)
    }
}
