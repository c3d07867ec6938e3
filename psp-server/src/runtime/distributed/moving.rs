//! Requests that have threads of their own, so that any worker may resume them once they were preempted.
//!
//! ```text
//!   worker 0   begins a request with a quantum ── claim ──► thread 3
//!              is preempted ── put ──► ┌ wait queue ┐ ──► take   worker 1, which goes on with thread 3
//!                                      └────────────┘
//!   worker 1   the request has ended ── release ──► thread 3 is idle
//! ```
//!
//! Threads are known by numbers here; the [request threads](crate::runtime::request_threads) have them. A request that
//! found no thread runs on its worker, like one without a quantum, and stays there.
//!
//! The wait queue is that of a worker group, for policies that have one. Under others a preempted request waits in a
//! worker's own queue, from which others may steal it. A worker that looks before it sleeps sees what was put before,
//! or is woken: checked by loom together with the [sleepers](super::sleepers).

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};

use hashbrown::HashMap;
#[cfg(loom)]
use loom::sync::atomic::{AtomicUsize, Ordering};
#[cfg(loom)]
use loom::sync::{Mutex, MutexGuard};
use psp_policy::{RequestId, WorkerId};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicUsize, Ordering};
#[cfg(not(loom))]
use std::sync::{Mutex, MutexGuard};

use super::own_queue::Waiting;
use crate::runtime::request_threads::RequestThreadNumber;
use crate::shared::Shared;

/// Preempted requests for which memory is set aside.
const PREALLOCATED: usize = 256;

/// Which thread has which request.
#[derive(Debug)]
struct Roster {
    by_request: HashMap<RequestId, RequestThreadNumber>,
    /// Threads that were claimed before and are idle.
    idle: Vec<RequestThreadNumber>,
    /// How many were ever claimed.
    known: u32,
    /// How many there may be.
    max: u32,
}

/// Requests that were preempted and put aside, first in, first out.
#[derive(Debug)]
pub(super) struct WaitQueue {
    requests: Mutex<VecDeque<Waiting>>,
    /// How many: read without the lock.
    len: AtomicUsize,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Moving {
    roster: Mutex<Roster>,
    /// Counts requests that found no thread; `None` where every request has one, as in simulations.
    shared: Option<Arc<Shared>>,
}

impl WaitQueue {
    pub(super) fn new() -> Self {
        Self {
            requests: Mutex::new(VecDeque::with_capacity(PREALLOCATED)),
            len: AtomicUsize::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Waiting>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a request in that was preempted. The caller wakes a worker that sleeps.
    pub(super) fn put(&self, waiting: Waiting) {
        let mut requests = self.lock();
        requests.push_back(waiting);
        self.len.store(requests.len(), Ordering::Release);
    }

    /// Takes the first.
    pub(super) fn take(&self) -> Option<Waiting> {
        let mut requests = self.lock();
        let first = requests.pop_front();
        self.len.store(requests.len(), Ordering::Release);
        first
    }

    /// Whether there is any, as far as the caller can tell without the lock.
    #[inline]
    pub(super) fn has_any(&self) -> bool {
        self.len.load(Ordering::Acquire) > 0
    }

    /// How many there are of the type at `slot`.
    pub(super) fn of_type(&self, slot: usize) -> usize {
        let requests = self.lock();
        requests.iter().filter(|it| it.slot == slot).count()
    }
}

impl Moving {
    /// Up to `threads` threads of a server.
    pub(crate) fn new(threads: usize, shared: Arc<Shared>) -> Self {
        Self::with(threads, Some(shared))
    }

    /// Every request has a thread.
    #[cfg(test)]
    pub(super) fn unlimited() -> Self {
        Self::with(usize::MAX, None)
    }

    fn with(threads: usize, shared: Option<Arc<Shared>>) -> Self {
        Self {
            roster: Mutex::new(Roster {
                by_request: HashMap::new(),
                idle: Vec::new(),
                known: 0,
                max: u32::try_from(threads).unwrap_or(u32::MAX),
            }),
            shared,
        }
    }

    fn roster(&self) -> MutexGuard<'_, Roster> {
        self.roster.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a request of `worker` a thread that is to run it from its beginning: one that is warm, if there is any.
    /// Returns whether there is a thread for it.
    pub(super) fn claim(&self, worker: WorkerId, request: RequestId) -> bool {
        let mut roster = self.roster();
        let number = roster.idle.pop().or_else(|| {
            let number = roster.known;
            (number < roster.max).then(|| {
                roster.known += 1;
                number
            })
        });
        if let Some(number) = number {
            roster.by_request.insert(request, number);
        } else if let Some(shared) = &self.shared {
            let counters = &shared.telemetry.workers[worker.index()];
            counters.contexts_exhausted.add(1);
        }
        number.is_some()
    }

    /// The thread of a request, if it has one.
    pub(crate) fn thread_of(&self, request: RequestId) -> Option<RequestThreadNumber> {
        self.roster().by_request.get(&request).copied()
    }

    /// Whether a request that began can be resumed by any worker.
    pub(super) fn has(&self, request: RequestId) -> bool {
        self.shared.is_none() || self.thread_of(request).is_some()
    }

    /// A request has ended: its thread is idle, or about to be.
    pub(super) fn release(&self, request: RequestId) {
        let mut roster = self.roster();
        if let Some(number) = roster.by_request.remove(&request) {
            roster.idle.push(number);
        }
    }

    /// The system has no thread of this number: there is none for requests that begin from now on beside those that
    /// there are. The request that claimed it runs on its worker.
    pub(crate) fn give_up(&self, request: RequestId) {
        let mut roster = self.roster();
        if let Some(number) = roster.by_request.remove(&request) {
            debug_assert!(number < roster.known);
            roster.max = roster.known;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use psp_policy::TypeTable;

    use super::*;
    use crate::config::Config;

    const ME: WorkerId = WorkerId(0);

    fn moving(threads: usize) -> (Moving, Arc<Shared>) {
        let shared = Shared::example(Config::default(), TypeTable::new(), 1);
        let shared = Arc::new(shared);
        (Moving::new(threads, shared.clone()), shared)
    }

    #[test]
    fn a_request_has_its_thread_until_it_ends_and_those_without_one_are_counted() {
        let (moving, shared) = moving(2);
        let [a, b, c] = [0, 1, 2].map(RequestId);
        assert!(moving.claim(ME, a) && moving.claim(ME, b) && !moving.claim(ME, c));
        assert_eq!([a, b, c].map(|it| moving.thread_of(it)), [Some(0), Some(1), None]);
        assert!(moving.has(a) && !moving.has(c));
        moving.release(b);
        moving.release(c);
        assert!(moving.claim(ME, c) && !moving.claim(ME, b));
        assert_eq!(moving.thread_of(c), Some(1), "it is warm");
        assert_eq!(shared.telemetry.workers[0].contexts_exhausted.get(), 2);
    }

    #[test]
    fn threads_that_the_system_does_not_have_are_not_claimed_again() {
        let (moving, _) = moving(9);
        let [a, b, c] = [0, 1, 2].map(RequestId);
        assert!(moving.claim(ME, a) && moving.claim(ME, b));
        moving.give_up(b);
        assert!(!moving.has(b) && !moving.claim(ME, c));
        moving.release(a);
        assert!(moving.claim(ME, c));
    }
}
