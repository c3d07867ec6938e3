//! One worker, for the request threads that have its turns.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Thread;

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering};

use crate::runtime::channel::turn_start::TurnStart;
use crate::runtime::team::FIRST;
use crate::runtime::team::active_thread::{ActiveThread, TeamThread};

/// Names a request thread.
pub(crate) type RequestThreadNumber = u32;

/// The worker's own thread is [`FIRST`]; the request thread that has the turn, whichever it is, has this index.
pub(super) const REQUEST_THREAD: TeamThread = FIRST + 1;

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct TurnOwner<T> {
    /// Who has the turn: the worker's own thread, or the request thread.
    pub(super) active: ActiveThread,
    /// The request thread that had a turn last.
    request_thread: AtomicU64,
    /// The worker's own thread.
    thread: OnceLock<Thread>,
    /// What the request thread completed in this turn.
    pub(super) completed: Mutex<Option<T>>,
    /// When the turn began.
    pub(super) start: Arc<TurnStart>,
}

impl<T> TurnOwner<T> {
    pub(super) fn new(start: Arc<TurnStart>) -> Self {
        Self {
            active: ActiveThread::new(),
            request_thread: AtomicU64::new(0),
            thread: OnceLock::new(),
            completed: Mutex::default(),
            start,
        }
    }

    /// The calling thread is the worker's own, and is about to lend a turn to this request thread.
    pub(super) fn set_request_thread(&self, request_thread: RequestThreadNumber) {
        let _ = self.thread.set(std::thread::current());
        self.request_thread.store(request_thread.into(), Ordering::Relaxed);
    }

    /// The request thread that had a turn last.
    pub(super) fn request_thread(&self) -> RequestThreadNumber {
        self.request_thread.load(Ordering::Relaxed) as RequestThreadNumber
    }

    /// Wakes the worker's own thread, which waits for the end of the turn.
    pub(super) fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}
