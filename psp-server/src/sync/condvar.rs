//! Waiting for a change of what a mutex has.

use std::fmt;
use std::future::poll_fn;

use super::mutex::MutexGuard;
use super::wait_list::WaitList;

/// Waits for a change of what a [`Mutex`](super::Mutex) has. Whoever changes it notifies those who wait.
///
/// ```no_run
/// # use psp_server::sync::{Condvar, Mutex};
/// # use psp_server::wait;
/// struct Jobs {
///     waiting: Mutex<Vec<String>>,
///     some: Condvar,
/// }
///
/// impl Jobs {
///     fn add(&self, job: String) {
///         wait(self.waiting.lock()).push(job);
///         self.some.notify_one();
///     }
///
///     fn take(&self) -> String {
///         let waiting = wait(self.waiting.lock());
///         let mut waiting = wait(self.some.wait_while(waiting, |waiting| waiting.is_empty()));
///         waiting.pop().expect("there is a job")
///     }
/// }
/// ```
pub struct Condvar(WaitList);

impl Condvar {
    /// No request waits for it.
    #[must_use]
    pub fn new() -> Self {
        Self(WaitList::keeping_none())
    }

    /// Unlocks, waits for a notification, and locks again. The caller then has to look whether what it waits for is so:
    /// another request may have had the lock in between.
    ///
    /// A notification for a future that is dropped before it has the lock again goes to the next future that waits.
    pub async fn wait<'a, T: ?Sized>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        let mutex = guard.mutex();
        let mut place = self.0.enter(1);
        drop(guard);
        poll_fn(|context| place.poll(context)).await;
        let guard = mutex.lock().await;
        place.consume();
        guard
    }

    /// [Waits](Self::wait) while `condition` holds.
    pub async fn wait_while<'a, T: ?Sized>(
        &self,
        mut guard: MutexGuard<'a, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> MutexGuard<'a, T> {
        while condition(&mut guard) {
            guard = self.wait(guard).await;
        }
        guard
    }

    /// Notifies the one who has waited longest. Does nothing if no request waits.
    pub fn notify_one(&self) {
        self.0.give(1);
    }

    /// Notifies all who wait now.
    pub fn notify_all(&self) {
        self.0.give_all();
    }
}

impl Default for Condvar {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Condvar").field(&self.0).finish()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::VecDeque;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::sync::Mutex;
    use crate::wait::wait;

    #[test]
    fn all_that_is_put_into_a_queue_is_taken_once() {
        const JOBS: usize = 400;
        let (jobs, some) = (Mutex::new(VecDeque::new()), Condvar::new());
        let taken = std::thread::scope(|scope| {
            let takers: Vec<_> = (0..3)
                .map(|_| {
                    scope.spawn(|| {
                        let mut taken = Vec::new();
                        loop {
                            let waiting = wait(jobs.lock());
                            let mut waiting = wait(some.wait_while(waiting, |jobs| jobs.is_empty()));
                            match waiting.pop_front().unwrap() {
                                JOBS => return taken,
                                job => taken.push(job),
                            }
                        }
                    })
                })
                .collect();
            for job in (0..JOBS).chain([JOBS; 3]) {
                wait(jobs.lock()).push_back(job);
                some.notify_one();
            }
            let taken = takers.into_iter().map(|taker| taker.join().unwrap());
            taken.collect::<Vec<_>>().concat()
        });
        let mut sorted = taken;
        sorted.sort_unstable();
        assert_eq!(sorted, (0..JOBS).collect::<Vec<_>>());
    }

    #[test]
    fn a_notification_of_who_gives_up_goes_to_the_next() {
        let (mutex, condvar) = (Mutex::new(()), Condvar::new());
        condvar.notify_one();
        let mut context = Context::from_waker(Waker::noop());
        let mut first = Box::pin(condvar.wait(mutex.try_lock().unwrap()));
        assert!(first.as_mut().poll(&mut context).is_pending(), "none is kept");
        let mut second = pin!(condvar.wait(mutex.try_lock().unwrap()));
        assert!(second.as_mut().poll(&mut context).is_pending());
        condvar.notify_one();
        let held = mutex.try_lock().unwrap();
        assert!(first.as_mut().poll(&mut context).is_pending(), "it has no lock");
        drop(first);
        drop(held);
        let Poll::Ready(guard) = second.as_mut().poll(&mut context) else {
            panic!("no request notified the second");
        };
        assert!(mutex.try_lock().is_none());
        drop(guard);
        assert_eq!(condvar.0.counts(), (0, 0));
    }

    #[test]
    fn all_who_wait_are_notified_and_no_later_ones() {
        let (mutex, condvar) = (Mutex::new(()), Condvar::new());
        let mut context = Context::from_waker(Waker::noop());
        let mut wait = || {
            let mut wait = Box::pin(condvar.wait(mutex.try_lock().unwrap()));
            assert!(wait.as_mut().poll(&mut context).is_pending());
            wait
        };
        let waits = [wait(), wait()];
        condvar.notify_all();
        let mut later = wait();
        for mut wait in waits {
            assert!(wait.as_mut().poll(&mut context).is_ready());
        }
        assert!(later.as_mut().poll(&mut context).is_pending());
    }
}
