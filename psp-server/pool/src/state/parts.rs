//! What the state is made of, and what it tells those who ask.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use psp_policy::internal::StudyPace;
use psp_policy::{RequestId, RequestType, WorkerId};
use smallvec::SmallVec;

use crate::pool_thread::PoolThread;
use crate::table::Task;
use crate::tick::Ticker;

/// What has to be done without the lock.
#[derive(Debug, Default)]
pub(crate) struct Left {
    /// Tasks that will not run.
    pub(crate) dropped: SmallVec<[Task; 1]>,
    /// Pending tasks that come back to be dropped.
    pub(crate) recalled: Vec<Waker>,
    /// Workers that have something to run, or to end for.
    pub(crate) woken: SmallVec<[WorkerId; 4]>,
    /// Threads that have a worker to serve, or to end.
    pub(crate) rung: SmallVec<[Arc<PoolThread>; 1]>,
}

/// What a worker runs next.
#[derive(Debug)]
pub(crate) struct Turn<T> {
    pub(crate) name: RequestId,
    pub(crate) what: T,
}

/// How a worker's next turn begins.
#[derive(Debug)]
pub(super) enum What {
    Begins(Task),
    /// The task of this thread goes on.
    GoesOn(Arc<PoolThread>),
}

/// A poll of a task.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Polled {
    pub(crate) name: RequestId,
    pub(crate) request_type: RequestType,
    /// Since when it has had its worker this time.
    pub(crate) since_ns: u64,
}

impl Polled {
    /// For how long it has had its worker this time.
    pub(super) const fn served_ns(self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.since_ns)
    }
}

/// What a thread that serves a worker does next.
#[derive(Debug)]
pub(crate) enum Next {
    /// It polls this task.
    Begins { turn: Turn<Task>, now_ns: u64 },
    /// The thread of a suspended task serves the worker in its place, and is to be rung. Whether it is kept as a spare
    /// one.
    HandedOver { to: Arc<PoolThread>, is_kept: bool },
    /// The pool has ended.
    Over,
}

/// What comes of a task that was asked to yield.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// It waits for its next turn.
    Given,
    /// It runs on.
    Kept,
    /// A spare thread has to be started before.
    NeedsSpare,
}

/// What the timer does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    /// It hands a task off.
    HandOff,
    /// It starts a spare thread for that.
    Thread,
    /// It reports that time has passed.
    Tick,
    /// It waits.
    In(Duration),
}

/// How many there are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) workers: usize,
    pub(crate) queue_capacity: usize,
    /// Tasks that may be suspended.
    pub(crate) contexts: usize,
}

/// The thread that sees to what happens by time alone.
#[derive(Debug, Default)]
pub(super) struct Timer {
    pub(super) ticker: Ticker,
    /// When it looks again; 0 while it does not wait.
    pub(super) looks_ns: u64,
}

/// When studies begin, and what came of those that have ended.
#[derive(Debug, Default)]
pub(super) struct Studies {
    pub(super) pace: StudyPace,
    /// Those that came to something.
    pub(super) ended: u64,
    /// What the latest of them found.
    pub(super) findings: Option<String>,
}
