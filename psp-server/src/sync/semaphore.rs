//! Permits that requests take and give back.

use std::fmt;
use std::future::poll_fn;

use super::wait_list::{Place, WaitList};

/// Permits: at most so many requests use an upstream server at once, say. The request that has
/// waited longest is served first, even if later ones want fewer.
///
/// ```no_run
/// # use psp_server::sync::Semaphore;
/// # use psp_server::{Reply, Request, wait};
/// # async fn ask_another_server() {}
/// fn handle(connections: &Semaphore, _: Request<'_, ()>, _: &mut Reply<'_>) {
///     let _permit = wait(connections.acquire());
///     wait(ask_another_server());
/// }
/// ```
pub struct Semaphore(WaitList);

/// Permits of a [`Semaphore`]. They are given back when this is dropped.
#[must_use = "permits that are dropped are given back"]
pub struct Permit<'a> {
    semaphore: &'a Semaphore,
    permits: usize,
}

impl Semaphore {
    /// Of so many permits.
    #[must_use]
    pub fn new(permits: usize) -> Self {
        Self(WaitList::new(permits))
    }

    /// Waits for a permit.
    pub async fn acquire(&self) -> Permit<'_> {
        self.acquire_many(1).await
    }

    /// Waits for so many permits, and takes them together. If the semaphore never has as many, it waits for ever, and
    /// so do those behind it.
    pub async fn acquire_many(&self, permits: usize) -> Permit<'_> {
        granted(&self.0, permits).await.consume();
        Permit { semaphore: self, permits }
    }

    /// Takes a permit if there is one and no request waits.
    pub fn try_acquire(&self) -> Option<Permit<'_>> {
        // Not made if it was not taken: it would give back what it has not.
        self.0.try_take(1).then(|| Permit { semaphore: self, permits: 1 })
    }

    /// Adds so many permits.
    pub fn add_permits(&self, permits: usize) {
        self.0.give(permits);
    }

    /// How many permits there are now.
    #[must_use]
    pub fn available(&self) -> usize {
        self.0.counts().0
    }
}

/// The place to which the permits were granted.
pub(super) async fn granted(list: &WaitList, permits: usize) -> Place<'_> {
    let mut place = list.enter(permits);
    poll_fn(|context| place.poll(context)).await;
    place
}

impl Permit<'_> {
    /// Does not give them back.
    pub fn forget(mut self) {
        self.permits = 0;
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.semaphore.0.give(self.permits);
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Semaphore").field(&self.0).finish()
    }
}

impl fmt::Debug for Permit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Permit").field(&self.permits).finish()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;
    use crate::wait::sleep::timeout;
    use crate::wait::wait;

    #[test]
    fn there_are_no_more_holders_than_permits() {
        const ROUNDS: usize = 300;
        let (semaphore, holders) = (Semaphore::new(2), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (semaphore, holders) = (&semaphore, &holders);
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        let permits = 1 + (thread + round) % 2;
                        let held = wait(semaphore.acquire_many(permits));
                        let now = holders.fetch_add(permits, Ordering::SeqCst) + permits;
                        assert!(now <= 2);
                        std::thread::yield_now();
                        holders.fetch_sub(permits, Ordering::SeqCst);
                        drop(held);
                    }
                });
            }
        });
        assert_eq!(semaphore.0.counts(), (2, 0));
    }

    #[test]
    fn waits_that_are_given_up_keep_nothing() {
        let semaphore = Semaphore::new(1);
        let held = semaphore.try_acquire().unwrap();
        assert!(semaphore.try_acquire().is_none());
        let late = timeout(Duration::from_millis(1), semaphore.acquire());
        assert!(wait(late).is_err());
        drop(held);
        wait(semaphore.acquire_many(1)).forget();
        assert_eq!(semaphore.0.counts(), (0, 0));
        semaphore.add_permits(3);
        let held = wait(semaphore.acquire_many(2));
        assert_eq!(semaphore.available(), 1);
        drop(held);
        assert_eq!(semaphore.available(), 3);
    }
}
