//! What the pool, its workers and its tasks share.

use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use psp_policy::{RequestType, TypeTable, WorkerId};

use crate::bell::{self, Bell};
use crate::pool_thread::PoolThread;
use crate::state::{Left, State};
use crate::sync::{Condvar, Mutex, MutexGuard};

/// Calls its argument, once, within something that the task needs.
pub(crate) type Surroundings = Box<dyn Fn(&mut dyn FnMut()) + Send + Sync>;

/// What threads are like.
#[derive(Debug, Clone)]
pub(crate) struct Threads {
    /// What their names begin with.
    pub(crate) name: String,
    /// The nice value of workers; `None` for that of who starts them.
    pub(crate) nice: Option<i32>,
    /// For how long a worker that has nothing to do looks for more before it sleeps.
    pub(crate) spin: Duration,
}

/// Threads that serve workers, or did, or will.
#[derive(Debug, Default)]
struct ThreadsThere {
    /// Those that have not ended.
    now: usize,
    /// All that were started.
    ever: usize,
    /// Of tasks that wait until all have ended.
    awaited_by: Vec<Waker>,
}

/// See the [module](self).
pub(crate) struct Shared {
    state: Mutex<State>,
    /// Per worker: rung when it has something to do.
    bells: Box<[Bell]>,
    /// Rung when the timer has something to do.
    timer: Condvar,
    pub(crate) threads: Threads,
    types: Arc<TypeTable>,
    surroundings: Option<Surroundings>,
    origin: Instant,
    /// The standard library's: loom's condition variables wait for no time, and no model has threads to count.
    threads_there: std::sync::Mutex<ThreadsThere>,
    has_ended: std::sync::Condvar,
}

impl Shared {
    pub(crate) fn new(
        state: State,
        types: Arc<TypeTable>,
        workers: usize,
        threads: Threads,
        surroundings: Option<Surroundings>,
    ) -> Self {
        Self {
            state: Mutex::new(state),
            bells: (0..workers).map(|_| Bell::default()).collect(),
            timer: Condvar::new(),
            threads,
            types,
            surroundings,
            origin: Instant::now(),
            threads_there: std::sync::Mutex::default(),
            has_ended: std::sync::Condvar::new(),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nanoseconds since the start of the pool.
    pub(crate) fn now_ns(&self) -> u64 {
        self.ns_at(Instant::now())
    }

    pub(crate) fn ns_at(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.origin);
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    }

    pub(crate) fn types(&self) -> &TypeTable {
        &self.types
    }

    pub(crate) fn type_name(&self, request_type: RequestType) -> &str {
        self.types.name_of_slot(self.types.slot(request_type))
    }

    /// Changes what is behind the lock, and does without it what follows.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut State, &mut Left) -> T) -> T {
        let mut left = Left::default();
        let (changed, is_over, wakes_timer) = {
            let mut state = self.lock();
            let changed = change(&mut state, &mut left);
            let is_over = state.is_over();
            if is_over {
                state.ends_spares(&mut left);
            }
            (changed, is_over, state.wakes_timer())
        };
        match is_over {
            true => self.bells.iter().for_each(Bell::ring),
            false => {
                let woken = left.woken.iter();
                woken.for_each(|worker| self.bell(*worker).ring());
            }
        }
        if wakes_timer {
            self.timer.notify_one();
        }
        left.rung.iter().for_each(|thread| thread.ring());
        // Their destructors may wake, or submit, other tasks.
        drop(left.dropped);
        left.recalled.into_iter().for_each(Waker::wake);
        changed
    }

    pub(crate) fn bell(&self, worker: WorkerId) -> &Bell {
        &self.bells[worker.index()]
    }

    /// Waits until the timer has something to do, for so long at most.
    pub(crate) fn timer_waits<'a>(&self, state: MutexGuard<'a, State>, at_most: Duration) -> MutexGuard<'a, State> {
        bell::wait(&self.timer, state, at_most)
    }

    /// Waits until a thread has a worker to serve. `None` if the pool has ended.
    pub(crate) fn wait_for_order(&self, thread: &PoolThread) -> Option<WorkerId> {
        let mut state = self.lock();
        loop {
            let order = thread.take_order();
            if order.is_some() || state.is_over() {
                return order;
            }
            state = thread.wait(state);
        }
    }

    /// Polls a task within what the pool was told.
    pub(crate) fn within(&self, poll: impl FnOnce()) {
        match &self.surroundings {
            None => poll(),
            Some(surroundings) => {
                let mut poll = Some(poll);
                surroundings(&mut || {
                    if let Some(poll) = poll.take() {
                        poll();
                    }
                });
            }
        }
    }

    fn threads_there(&self) -> std::sync::MutexGuard<'_, ThreadsThere> {
        let there = self.threads_there.lock();
        there.unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the thread's number.
    pub(crate) fn thread_begins(&self) -> usize {
        let mut there = self.threads_there();
        let number = there.ever;
        there.ever += 1;
        there.now += 1;
        number
    }

    pub(crate) fn thread_has_ended(&self) {
        let mut there = self.threads_there();
        there.now -= 1;
        let awaited_by = match there.now {
            0 => std::mem::take(&mut there.awaited_by),
            _ => Vec::new(),
        };
        drop(there);
        self.has_ended.notify_all();
        awaited_by.into_iter().for_each(Waker::wake);
    }

    /// Waits until all threads but the timer have ended, for so long at most. Returns whether they have.
    pub(crate) fn wait_for_threads(&self, timeout: Duration) -> bool {
        let there = self.threads_there();
        let waited = { &self.has_ended }.wait_timeout_while(there, timeout, |it| it.now > 0);
        waited.unwrap_or_else(PoisonError::into_inner).0.now == 0
    }

    /// As [`wait_for_threads`](Self::wait_for_threads), for a task.
    pub(crate) fn poll_threads(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut there = self.threads_there();
        if there.now == 0 {
            return Poll::Ready(());
        }
        let waker = context.waker();
        if !there.awaited_by.iter().any(|it| it.will_wake(waker)) {
            there.awaited_by.push(waker.clone());
        }
        Poll::Pending
    }
}
