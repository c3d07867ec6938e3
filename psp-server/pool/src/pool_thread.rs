//! A thread of the pool, as other threads see it. It stays with each task that it polls until the end of that poll.

use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::time::Duration;

use psp_policy::WorkerId;

use crate::bell;
use crate::sync::{AtomicBool, Condvar, MutexGuard};
use crate::system;

/// It has no order.
const NONE: u32 = u32::MAX;

/// See the [module](self). Written under the pool's lock.
#[derive(Debug)]
pub(crate) struct PoolThread {
    /// The number that the system gave it.
    number: AtomicI32,
    /// Its task shall yield.
    is_asked: AtomicBool,
    /// The worker that it shall serve.
    order: AtomicU32,
    /// Rung when it has an order, or the pool ends.
    bell: Condvar,
}

impl Default for PoolThread {
    /// It has no order.
    fn default() -> Self {
        Self {
            number: AtomicI32::new(system::NO_THREAD),
            is_asked: AtomicBool::new(false),
            order: AtomicU32::new(NONE),
            bell: Condvar::new(),
        }
    }
}

impl PoolThread {
    /// Whether its task shall yield. Read without the lock, so that it may be true no longer.
    #[inline]
    pub(crate) fn is_asked(&self) -> bool {
        self.is_asked.load(Ordering::Relaxed)
    }

    /// Its task shall yield, or need not any more.
    pub(crate) fn set_asked(&self, is_asked: bool) {
        self.is_asked.store(is_asked, Ordering::Relaxed);
    }

    /// It shall serve a worker. Who says so [rings](Self::ring) without the lock.
    pub(crate) fn give_order(&self, worker: WorkerId) {
        self.order.store(worker.0, Ordering::Relaxed);
    }

    /// The worker that it shall serve, once.
    pub(crate) fn take_order(&self) -> Option<WorkerId> {
        let worker = self.order.swap(NONE, Ordering::Relaxed);
        (worker != NONE).then_some(WorkerId(worker))
    }

    /// The calling thread is it.
    pub(crate) fn begins(&self) {
        self.number.store(system::this_thread(), Ordering::Relaxed);
    }

    /// Threads that serve workers run before it when they wake, until it ends with its task.
    pub(crate) fn steps_back(&self) {
        system::step_back(self.number.load(Ordering::Relaxed));
    }

    pub(crate) fn ring(&self) {
        self.bell.notify_one();
    }

    /// Waits until it is rung.
    pub(crate) fn wait<'a, T>(&self, state: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        bell::wait(&self.bell, state, Duration::MAX)
    }
}
