//! A value that one request at a time has.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{self, PoisonError, TryLockError};

use super::semaphore::granted;
use super::wait_list::WaitList;

/// A lock that a request may hold while it waits or yields. Other requests that want the lock leave their workers to
/// others meanwhile. They get it in the order in which they asked.
///
/// Where no request waits while the lock is held, `std::sync::Mutex` within [`no_preempt`](crate::no_preempt) is
/// cheaper. If a request panics while it holds the lock, the lock is released, and the value stays as it is.
///
/// ```no_run
/// # use psp_server::protocols::Sink;
/// # use psp_server::sync::Mutex;
/// # use psp_server::{Reply, Request, wait};
/// # async fn append(_: &mut Vec<u8>) {}
/// fn handle(log: &Mutex<Vec<u8>>, _: Request<'_, ()>, reply: &mut Reply<'_>) {
///     let mut log = wait(log.lock());
///     wait(append(&mut log));
///     reply.put(&log);
/// }
/// ```
pub struct Mutex<T: ?Sized> {
    /// Whether the lock is free, and who waits for it.
    turns: WaitList,
    /// Locked only in one's turn, and so never waited for.
    value: sync::Mutex<T>,
}

/// The value of a [`Mutex`], which is unlocked when this is dropped. It stays on its thread, as a request does.
#[must_use = "a lock that is dropped is unlocked"]
pub struct MutexGuard<'a, T: ?Sized> {
    // Fields are dropped in this order: the value is free before the turn.
    value: sync::MutexGuard<'a, T>,
    turn: Turn<'a, T>,
}

struct Turn<'a, T: ?Sized>(&'a Mutex<T>);

impl<T> Mutex<T> {
    /// Unlocked, with this value.
    pub fn new(value: T) -> Self {
        Self { turns: WaitList::new(1), value: sync::Mutex::new(value) }
    }

    /// The value.
    pub fn into_inner(self) -> T {
        let value = self.value.into_inner();
        value.unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits until the lock is free and all earlier callers have had it.
    pub async fn lock(&self) -> MutexGuard<'_, T> {
        granted(&self.turns, 1).await.consume();
        self.locked()
    }

    /// Locks it if it is free and no request waits.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.turns.try_take(1).then(|| self.locked())
    }

    /// The value, without locking: no other request can have it.
    pub fn get_mut(&mut self) -> &mut T {
        let value = self.value.get_mut();
        value.unwrap_or_else(PoisonError::into_inner)
    }

    /// To be called in one's turn.
    fn locked(&self) -> MutexGuard<'_, T> {
        let turn = Turn(self);
        let value = match self.value.try_lock() {
            Ok(value) => value,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => unreachable!("one has the turn"),
        };
        MutexGuard { value, turn }
    }
}

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    pub(super) fn mutex(&self) -> &'a Mutex<T> {
        self.turn.0
    }
}

impl<T: ?Sized> Drop for Turn<'_, T> {
    fn drop(&mut self) {
        self.0.turns.give(1);
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: ?Sized> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutex").finish_non_exhaustive()
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::wait::wait;

    #[test]
    fn one_thread_at_a_time_has_the_value() {
        const ROUNDS: u64 = 500;
        let mut count = Mutex::new(0_u64);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let count = &count;
                scope.spawn(move || {
                    for _ in 0..ROUNDS {
                        let mut count = wait(count.lock());
                        let before = *count;
                        std::thread::yield_now();
                        *count = before + 1;
                    }
                });
            }
        });
        assert_eq!(*count.get_mut(), 4 * ROUNDS);
        assert_eq!(count.into_inner(), 4 * ROUNDS);
    }

    #[test]
    fn a_panic_unlocks() {
        let mutex = Mutex::new(7);
        let held = mutex.try_lock().unwrap();
        assert!(mutex.try_lock().is_none());
        drop(held);
        let fails = || {
            let _held = wait(mutex.lock());
            panic!("the test asked for it");
        };
        assert!(catch_unwind(AssertUnwindSafe(fails)).is_err());
        assert_eq!(*wait(mutex.lock()), 7);
    }
}
