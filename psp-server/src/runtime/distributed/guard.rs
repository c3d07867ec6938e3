//! Whether preempted requests wait for too long, as all workers see it (Synergy II-B.1).
//!
//! Each worker keeps the requests that were preempted there. Together these are the wait queue: it is congested for all
//! workers, or for none.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use psp_policy::distributed::Congestion;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Guard {
    congestion: Mutex<Congestion>,
    /// What it says: read without the lock.
    is_congested: AtomicBool,
    /// Before this the passing of time makes no difference.
    check_ns: AtomicU64,
}

impl Guard {
    pub(super) fn new(threshold_ns: u64) -> Self {
        let congestion = Congestion::new(threshold_ns);
        Self {
            is_congested: AtomicBool::new(false),
            check_ns: AtomicU64::new(congestion.check_ns().unwrap_or(u64::MAX)),
            congestion: Mutex::new(congestion),
        }
    }

    fn change(&self, now_ns: u64, change: impl FnOnce(&mut Congestion)) {
        let lock = self.congestion.lock();
        let mut congestion = lock.unwrap_or_else(PoisonError::into_inner);
        congestion.passes(now_ns);
        change(&mut congestion);
        let check_ns = congestion.check_ns().unwrap_or(u64::MAX);
        self.check_ns.store(check_ns, Ordering::Relaxed);
        let is_congested = congestion.is_congested();
        self.is_congested.store(is_congested, Ordering::Relaxed);
    }

    /// Time passes.
    #[inline]
    pub(super) fn passes(&self, now_ns: u64) {
        if now_ns >= self.check_ns.load(Ordering::Relaxed) {
            self.change(now_ns, |_| {});
        }
    }

    /// A request was put into the wait queue.
    pub(super) fn put(&self, now_ns: u64) {
        self.change(now_ns, |congestion| congestion.put(1));
    }

    /// One was taken out.
    pub(super) fn took(&self, now_ns: u64) {
        self.change(now_ns, |congestion| congestion.took(now_ns));
    }

    /// Whether the wait queue is congested.
    #[inline]
    pub(super) fn is_congested(&self) -> bool {
        self.is_congested.load(Ordering::Relaxed)
    }
}
