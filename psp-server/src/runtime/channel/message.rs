//! Messages to a worker, and its reports.
//!
//! A task is a tagged pointer of 16 bytes; the payload behind it never moves. A task that yielded, blocked or paused
//! stays with its worker until the worker has resumed and completed it.

use psp_policy::RequestId;

/// A message from the net worker to a worker.
#[derive(Debug)]
pub(crate) enum Message<T> {
    /// Run this task and send it back.
    Run {
        /// The name under which the task would be resumed.
        request: RequestId,
        /// The task.
        task: T,
    },
    /// Go on with a task that yielded or blocked.
    Resume(RequestId),
    /// Return from the thread.
    Stop,
}

/// A worker's report to the net worker. The worker is idle then.
#[derive(Debug)]
pub(crate) enum Report<T> {
    /// The task of this turn is done.
    Completed(T),
    /// The task of this turn waits for another turn.
    Yielded {
        /// How long the task ran in this turn.
        served_ns: u64,
    },
    /// The task of this turn waits for a wake, and then for another turn. The wake may have come already.
    Blocked {
        /// How long the task ran in this turn.
        served_ns: u64,
    },
    /// The task of this turn has had the net thread for too long, and waits until the net thread resumes it.
    Paused {
        /// How long the task ran in this turn.
        served_ns: u64,
    },
}
