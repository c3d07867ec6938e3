//! One worker, for the carriers that have its turns.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Thread;

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering};

use crate::runtime::channel::turn_start::TurnStart;
use crate::runtime::team::FIRST;
use crate::runtime::team::active_thread::{ActiveThread, TeamThread};

/// Names a carrier.
pub(crate) type CarrierNumber = u32;

/// The worker's own thread is [`FIRST`]; the carrier that has the turn, whichever it is, has this index.
pub(super) const CARRIER: TeamThread = FIRST + 1;

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Post<T> {
    /// Who has the turn: the worker's own thread, or the carrier.
    pub(super) active: ActiveThread,
    /// The carrier that had a turn last.
    carrier: AtomicU64,
    /// The worker's own thread.
    thread: OnceLock<Thread>,
    /// What the carrier completed in this turn.
    pub(super) completed: Mutex<Option<T>>,
    /// When the turn began.
    pub(super) start: Arc<TurnStart>,
}

impl<T> Post<T> {
    pub(super) fn new(start: Arc<TurnStart>) -> Self {
        Self {
            active: ActiveThread::new(),
            carrier: AtomicU64::new(0),
            thread: OnceLock::new(),
            completed: Mutex::default(),
            start,
        }
    }

    /// The calling thread is the worker's own, and is about to lend a turn to this carrier.
    pub(super) fn set_carrier(&self, carrier: CarrierNumber) {
        let _ = self.thread.set(std::thread::current());
        self.carrier.store(carrier.into(), Ordering::Relaxed);
    }

    /// The carrier that had a turn last.
    pub(super) fn carrier(&self) -> CarrierNumber {
        self.carrier.load(Ordering::Relaxed) as CarrierNumber
    }

    /// Wakes the worker's own thread, which waits for the end of the turn.
    pub(super) fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}
