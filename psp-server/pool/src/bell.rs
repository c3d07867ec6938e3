//! What tells a worker's thread that it has something to do.
//!
//! ```text
//!   next: nothing to do ── spins without the lock ── looks again ── sleeps
//!                          until rung, or too long                  until rung
//! ```

use std::hint::spin_loop;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::sync::{AtomicBool, Condvar, MutexGuard};

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

    /// Ends the lock, and waits without sleeping until it is rung, for so long at most.
    pub(crate) fn spin<T>(&self, state: MutexGuard<'_, T>, at_most: Duration) {
        // Who notes something from here on rings later.
        self.is_rung.store(false, Ordering::Relaxed);
        drop(state);
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
    pub(crate) fn sleep<'a, T>(&self, state: MutexGuard<'a, T>, at_most: Duration) -> MutexGuard<'a, T> {
        self.sleeps.store(true, Ordering::Relaxed);
        let state = wait(&self.condvar, state, at_most);
        self.sleeps.store(false, Ordering::Relaxed);
        state
    }
}

/// Waits until it is notified, for so long at most.
pub(crate) fn wait<'a, T>(condvar: &Condvar, guard: MutexGuard<'a, T>, at_most: Duration) -> MutexGuard<'a, T> {
    if at_most == Duration::MAX {
        return condvar.wait(guard).unwrap_or_else(PoisonError::into_inner);
    }
    let waited = condvar.wait_timeout(guard, at_most);
    waited.unwrap_or_else(PoisonError::into_inner).0
}

/// Models of the bell: who was told to do something does it, whenever it was about to sleep.
#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;
    use crate::sync::Mutex;

    /// What a worker has to do, and how it hears of it.
    #[derive(Default)]
    struct Told {
        tasks: Mutex<u32>,
        bell: Bell,
    }

    impl Told {
        fn tell(&self) {
            *self.tasks.lock().unwrap() += 1;
            self.bell.ring();
        }

        fn do_all(&self, count: u32) {
            let mut done = 0;
            let mut tasks = self.tasks.lock().unwrap();
            while done < count {
                tasks = match std::mem::take(&mut *tasks) {
                    0 => self.bell.sleep(tasks, Duration::MAX),
                    some => {
                        done += some;
                        tasks
                    }
                };
            }
            assert_eq!(done, count);
        }
    }

    #[test]
    fn who_sleeps_is_woken() {
        loom::model(|| {
            let told = Arc::new(Told::default());
            let tellers = [(); 2].map(|()| {
                let told = told.clone();
                thread::spawn(move || told.tell())
            });
            told.do_all(2);
            tellers.into_iter().for_each(|it| it.join().unwrap());
        });
    }
}
