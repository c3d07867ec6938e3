//! What tells a worker's thread that it has something to do.
//!
//! ```text
//!   next: nothing to do ── spins without the lock ── looks again ── sleeps
//!                          until rung, or too long                  until rung
//! ```

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often a thread that spins looks at its bell for each look at the clock.
const LOOKS: usize = 32;

/// See the [module](self). It is rung without the pool's lock, after what there is to do was noted under it.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    /// A hint for a thread that spins.
    is_rung: AtomicBool,
    /// Written under the lock: who noted something under it afterwards sees it.
    sleeps: AtomicBool,
    condvar: Condvar,
}

impl Bell {
    /// Costs a system call only if the thread sleeps.
    pub(crate) fn ring(&self) {
        self.is_rung.store(true, Ordering::Relaxed);
        if self.sleeps.load(Ordering::Relaxed) {
            self.condvar.notify_one();
        }
    }

    /// Waits without sleeping until it is rung, for so long at most.
    pub(crate) fn spin(&self, at_most: Duration) {
        self.is_rung.store(false, Ordering::Relaxed);
        let began = Instant::now();
        while began.elapsed() < at_most {
            for _ in 0..LOOKS {
                if self.is_rung.load(Ordering::Relaxed) {
                    return;
                }
                spin_loop();
            }
        }
    }

    /// Sleeps until it is rung, for so long at most.
    pub(crate) fn sleep<'a, T>(
        &self,
        state: MutexGuard<'a, T>,
        at_most: Duration,
    ) -> MutexGuard<'a, T> {
        self.sleeps.store(true, Ordering::Relaxed);
        let state = wait(&self.condvar, state, at_most);
        self.sleeps.store(false, Ordering::Relaxed);
        state
    }
}

/// Waits until it is notified, for so long at most.
pub(crate) fn wait<'a, T>(
    condvar: &Condvar,
    guard: MutexGuard<'a, T>,
    at_most: Duration,
) -> MutexGuard<'a, T> {
    if at_most == Duration::MAX {
        return condvar.wait(guard).unwrap_or_else(PoisonError::into_inner);
    }
    let waited = condvar.wait_timeout(guard, at_most);
    waited.unwrap_or_else(PoisonError::into_inner).0
}
