//! One thread of a team: how to wake it, its standing, and the request that it runs.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::Thread;

use crate::policy::RequestId;
use crate::runtime::scheduling::{Standing, ThreadClock};

/// Written by whoever holds the baton, except for the lock; the baton orders it.
#[derive(Debug, Default)]
pub(super) struct Member {
    thread: OnceLock<Thread>,
    clock: OnceLock<Option<ThreadClock>>,
    /// The request that it began last.
    pub(super) request: AtomicU32,
    /// It runs code that may lose the baton anywhere.
    pub(super) preemptible: AtomicBool,
    /// It has begun its request and waits for another turn.
    away: AtomicBool,
    away_since_ns: AtomicU64,
    away_ns: AtomicU64,
    standing: Mutex<Rank>,
}

/// What the kernel was told about a thread.
#[derive(Debug, Default)]
struct Rank {
    /// As it was at first; absent where it stays like that.
    own: Option<Standing>,
    is_lowered: bool,
}

impl Member {
    /// Says that the calling thread is this one, and whether it may be lowered.
    pub(super) fn enlist(&self, lowers: bool) {
        if lowers {
            match Standing::of_this_thread() {
                Ok(own) => self.rank().own = Some(own),
                Err(error) => tracing::warn!(%error, "cannot lower a worker's thread"),
            }
        }
        let _ = self.clock.set(ThreadClock::of_this_thread());
        let first = self.thread.set(std::thread::current()).is_ok();
        debug_assert!(first, "one thread for each seat");
    }

    /// Nobody waits on a thread that has not enlisted: it looks for work before it sleeps.
    pub(super) fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// Says how long it has run. Known from when it enlisted.
    pub(super) fn clock(&self) -> Option<ThreadClock> {
        self.clock.get().copied().flatten()
    }

    /// Puts it behind every other thread of its core, unless it is wanted again by now. For other threads
    /// to call.
    pub(super) fn lower(&self, is_due: impl FnOnce() -> bool) {
        let mut rank = self.rank();
        if let Some(own) = rank.own
            && !rank.is_lowered
            && is_due()
        {
            rank.is_lowered = own.suspend().is_ok();
        }
    }

    /// Gives it its own standing, then does `publish`, before anybody can lower it again.
    pub(super) fn raise<R>(&self, publish: impl FnOnce() -> R) -> R {
        let mut rank = self.rank();
        if let Some(own) = rank.own
            && rank.is_lowered
        {
            rank.is_lowered = own.restore().is_err();
        }
        publish()
    }

    pub(super) fn is_away_with(&self, request: RequestId) -> bool {
        self.away.load(Ordering::Relaxed) && self.request.load(Ordering::Relaxed) == request.0
    }

    /// Its turn is over, its request is not.
    pub(super) fn go_away(&self, now_ns: u64) {
        self.away_since_ns.store(now_ns, Ordering::Relaxed);
        self.away.store(true, Ordering::Relaxed);
    }

    /// It has another turn.
    pub(super) fn come_back(&self, now_ns: u64) {
        let since_ns = self.away_since_ns.load(Ordering::Relaxed);
        let away_ns = self.away_ns() + now_ns.saturating_sub(since_ns);
        self.away_ns.store(away_ns, Ordering::Relaxed);
        self.away.store(false, Ordering::Relaxed);
    }

    /// Between turns, in all.
    pub(super) fn away_ns(&self) -> u64 {
        self.away_ns.load(Ordering::Relaxed)
    }

    fn rank(&self) -> std::sync::MutexGuard<'_, Rank> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
