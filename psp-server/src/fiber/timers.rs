//! Times at which requests that wait are woken.
//!
//! ```text
//!   a request: set ── the first? ── bell ──►  net thread: sleeps no longer than until the first
//!                                             wake_due ──► wakers, without the lock
//! ```
//!
//! Any thread may wake those that are due: a thread that has to wait without giving its worker away does so, too.
//! Futures that are polled outside of servers, in tests of handlers say, have timers of their own, with a thread.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;
use std::thread::Thread;
use std::time::{Duration, Instant};

use super::thread_state::no_preempt;
use super::waiter::Bell;

/// No timer is set.
const NEVER: u64 = u64::MAX;
/// Timers that are taken out under one lock.
const TAKEN_MAX: usize = 32;

/// The name of a timer that is set: when it is due, in nanoseconds since the timers were made, and a number.
pub(crate) type TimerKey = (u64, u64);

/// See the [module](self).
pub(crate) struct Timers {
    origin: Instant,
    /// When the first is due; `NEVER` if none is set. Written under the lock.
    first_ns: AtomicU64,
    set: Mutex<Set>,
    bell: Arc<dyn Bell>,
}

#[derive(Default)]
struct Set {
    by_time: BTreeMap<TimerKey, Waker>,
    number: u64,
}

impl Timers {
    /// No timers. `bell` is rung when another one becomes the first.
    pub(crate) fn new(bell: Arc<dyn Bell>) -> Self {
        Self {
            origin: Instant::now(),
            first_ns: AtomicU64::new(NEVER),
            set: Mutex::default(),
            bell,
        }
    }

    /// The timers of threads that belong to no server.
    pub(super) fn of_no_server() -> Arc<Self> {
        static TIMERS: OnceLock<Arc<Timers>> = OnceLock::new();
        let timers = TIMERS.get_or_init(|| {
            let bell = Arc::<ThreadBell>::default();
            let timers = Arc::new(Self::new(bell.clone()));
            let served = timers.clone();
            let spawned = std::thread::Builder::new().name("psp-timers".to_owned()).spawn(move || served.serve());
            match spawned {
                Ok(thread) => drop(bell.0.set(thread.thread().clone())),
                Err(error) => tracing::error!(%error, "no thread for timers outside of servers"),
            }
            timers
        });
        timers.clone()
    }

    /// Wakes what is due, for ever.
    fn serve(&self) {
        loop {
            self.wake_due();
            match self.until_first() {
                Some(left) => std::thread::park_timeout(left),
                None => std::thread::park(),
            }
        }
    }

    /// The present, on the clock of the timers.
    pub(crate) fn now_ns(&self) -> u64 {
        let passed = self.origin.elapsed().as_nanos();
        u64::try_from(passed).unwrap_or(NEVER)
    }

    /// Sets a timer.
    pub(crate) fn set(&self, at_ns: u64, waker: Waker) -> TimerKey {
        no_preempt(|| {
            let mut set = self.lock();
            set.number += 1;
            let key = (at_ns, set.number);
            set.by_time.insert(key, waker);
            let before_ns = self.publish(&set);
            drop(set);
            if at_ns < before_ns {
                self.bell.ring();
            }
            key
        })
    }

    /// Replaces the waker of a timer that was set. `false` if it was due in the meantime.
    pub(crate) fn replace(&self, key: TimerKey, waker: &Waker) -> bool {
        let mut replaced = None;
        no_preempt(|| {
            let mut set = self.lock();
            let current = set.by_time.get_mut(&key);
            current
                .map(|current| {
                    if !current.will_wake(waker) {
                        // A foreign waker is dropped without the lock.
                        replaced = Some(std::mem::replace(current, waker.clone()));
                    }
                })
                .is_some()
        })
    }

    /// Removes a timer, if it is set.
    pub(crate) fn remove(&self, key: TimerKey) {
        let removed = no_preempt(|| {
            let mut set = self.lock();
            let removed = set.by_time.remove(&key);
            self.publish(&set);
            removed
        });
        // A foreign waker is dropped without the lock.
        drop(removed);
    }

    /// When the first timer is due, on the clock of the timers. `None` if none is set.
    #[inline]
    pub(crate) fn first_ns(&self) -> Option<u64> {
        let first_ns = self.first_ns.load(Ordering::Relaxed);
        (first_ns != NEVER).then_some(first_ns)
    }

    /// How long it is until the first timer is due. `None` if none is set.
    pub(crate) fn until_first(&self) -> Option<Duration> {
        let left_ns = self.first_ns()?.saturating_sub(self.now_ns());
        Some(Duration::from_nanos(left_ns))
    }

    /// Wakes those whose timers are due. Costs a load if there is no timer, and a look at the clock if none is due.
    #[inline]
    pub(crate) fn wake_due(&self) {
        if let Some(first_ns) = self.first_ns() {
            self.wake_until(first_ns, self.now_ns());
        }
    }

    fn wake_until(&self, mut first_ns: u64, now_ns: u64) {
        let mut due: [Option<Waker>; TAKEN_MAX] = [const { None }; TAKEN_MAX];
        while first_ns <= now_ns {
            let mut set = self.lock();
            for place in &mut due {
                let first = set.by_time.first_entry();
                *place = first.and_then(|first| (first.key().0 <= now_ns).then(|| first.remove()));
            }
            self.publish(&set);
            drop(set);
            due.iter_mut().filter_map(Option::take).for_each(Waker::wake);
            first_ns = self.first_ns().unwrap_or(NEVER);
        }
    }

    /// Publishes the time of the first timer, and returns the one before.
    fn publish(&self, set: &Set) -> u64 {
        let first = set.by_time.first_key_value();
        let first_ns = first.map_or(NEVER, |(&(at_ns, _), _)| at_ns);
        let before_ns = self.first_ns.load(Ordering::Relaxed);
        self.first_ns.store(first_ns, Ordering::Relaxed);
        before_ns
    }

    fn lock(&self) -> MutexGuard<'_, Set> {
        self.set.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes a thread, once it is known.
#[derive(Default)]
struct ThreadBell(OnceLock<Thread>);

impl Bell for ThreadBell {
    fn ring(&self) {
        if let Some(thread) = self.0.get() {
            thread.unpark();
        }
    }
}

impl fmt::Debug for Timers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timers").finish_non_exhaustive()
    }
}
