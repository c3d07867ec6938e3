//! One thread of a team: how to wake it, its standing on its core, and the request that it runs.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::Thread;

use psp_policy::RequestId;

use crate::runtime::host::scheduling::{Standing, ThreadClock};

/// Only the active thread writes here, except under the lock; the word of `ActiveThread` orders the writes.
#[derive(Debug, Default)]
pub(crate) struct Member {
    thread: OnceLock<Thread>,
    clock: OnceLock<Option<ThreadClock>>,
    /// The request that the thread began last.
    pub(crate) request: AtomicU32,
    /// Slot of its type.
    pub(crate) slot: AtomicUsize,
    /// The thread runs code that may be preempted anywhere.
    pub(crate) preemptible: AtomicBool,
    /// The request gives its worker away because it waits for a wake.
    pub(crate) is_blocked: AtomicBool,
    /// The thread has begun its request, which waits for another turn.
    away: AtomicBool,
    away_since_ns: AtomicU64,
    away_ns: AtomicU64,
    standing: Mutex<Rank>,
}

/// What the kernel knows about a thread's standing.
#[derive(Debug, Default)]
struct Rank {
    /// The first standing; `None` if it never changes.
    own: Option<Standing>,
    is_lowered: bool,
}

impl Member {
    /// Makes the calling thread this member. `lowers` says whether its standing may be lowered.
    pub(crate) fn enlist(&self, lowers: bool) {
        if lowers {
            match Standing::of_this_thread() {
                Ok(own) => self.rank().own = Some(own),
                Err(error) => tracing::warn!(%error, "cannot lower a worker's thread"),
            }
        }
        let _ = self.clock.set(ThreadClock::of_this_thread());
        let first = self.thread.set(std::thread::current()).is_ok();
        debug_assert!(first, "one thread for each index");
    }

    /// Wakes the thread. A thread that has not enlisted need not be woken: it looks for work before it sleeps.
    pub(crate) fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// The clock of its run time. Known from when it enlisted.
    pub(crate) fn clock(&self) -> Option<ThreadClock> {
        self.clock.get().copied().flatten()
    }

    /// Gives the thread the lowest standing on its core, if `is_due` still holds. Other threads call this.
    pub(crate) fn lower(&self, is_due: impl FnOnce() -> bool) {
        let mut rank = self.rank();
        if let Some(own) = rank.own
            && !rank.is_lowered
            && is_due()
        {
            rank.is_lowered = own.suspend().is_ok();
        }
    }

    /// Restores the thread's own standing, then calls `publish`, before another thread can lower it again.
    pub(crate) fn raise<R>(&self, publish: impl FnOnce() -> R) -> R {
        let mut rank = self.rank();
        if let Some(own) = rank.own
            && rank.is_lowered
        {
            rank.is_lowered = own.restore().is_err();
        }
        publish()
    }

    /// Whether it holds a request that waits for another turn.
    pub(crate) fn is_away(&self) -> bool {
        self.away.load(Ordering::Relaxed)
    }

    pub(crate) fn is_away_with(&self, request: RequestId) -> bool {
        self.away.load(Ordering::Relaxed) && self.request.load(Ordering::Relaxed) == request.0
    }

    /// The thread's turn is over, its request is not done.
    pub(crate) fn go_away(&self, now_ns: u64) {
        self.away_since_ns.store(now_ns, Ordering::Relaxed);
        self.away.store(true, Ordering::Relaxed);
    }

    /// The thread's request has another turn.
    pub(crate) fn come_back(&self, now_ns: u64) {
        let since_ns = self.away_since_ns.load(Ordering::Relaxed);
        let away_ns = self.away_ns() + now_ns.saturating_sub(since_ns);
        self.away_ns.store(away_ns, Ordering::Relaxed);
        self.away.store(false, Ordering::Relaxed);
    }

    /// Total time between turns, in nanoseconds.
    pub(crate) fn away_ns(&self) -> u64 {
        self.away_ns.load(Ordering::Relaxed)
    }

    fn rank(&self) -> std::sync::MutexGuard<'_, Rank> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
