//! One value, which any thread sends and one request receives.
//!
//! ```no_run
//! # use psp_server::protocols::Sink;
//! # use psp_server::{Reply, Request, sync::oneshot, wait};
//! # fn ask(_: impl FnOnce(Vec<u8>)) {}
//! /// Waits for a library that calls back from a thread of its own.
//! fn handle(_: Request<'_, ()>, reply: &mut Reply<'_>) {
//!     let (sender, receiver) = oneshot::channel();
//!     ask(move |answer| drop(sender.send(answer)));
//!     match wait(receiver) {
//!         Ok(answer) => reply.put(&answer),
//!         Err(closed) => reply.fail(closed),
//!     }
//! }
//! ```

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::fiber::no_preempt;

/// A channel for one value.
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let shared = Arc::new(Shared(Mutex::new(Stage::Empty(None))));
    (Sender(shared.clone()), Receiver(shared))
}

/// Sends the value of a [`channel`]. If it is dropped without, the receiver gets [`Closed`].
pub struct Sender<T>(Arc<Shared<T>>);

/// A future of the value of a [`channel`].
///
/// # Panics
/// It panics if it is polled again after it was ready.
#[must_use = "futures do nothing unless they are waited for"]
pub struct Receiver<T>(Arc<Shared<T>>);

/// The sender was dropped without sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("nobody sends the value any more")]
pub struct Closed(());

struct Shared<T>(Mutex<Stage<T>>);

enum Stage<T> {
    /// With the waker of a receiver that waits.
    Empty(Option<Waker>),
    Sent(T),
    /// The sender was dropped.
    Unsent,
    /// The receiver was dropped, or has the value.
    Over,
}

impl<T> Sender<T> {
    /// Sends the value, from any thread.
    ///
    /// # Errors
    /// The value, if the receiver was dropped.
    pub fn send(self, value: T) -> Result<(), T> {
        let mut value = Some(value);
        let replaced = self.0.with(|stage| match stage {
            Stage::Empty(_) => value.take().map(|value| std::mem::replace(stage, Stage::Sent(value))),
            _ => None,
        });
        wake(replaced);
        value.map_or(Ok(()), Err)
    }

    /// Whether the receiver was dropped: no request wants the value any more.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.0.with(|stage| matches!(stage, Stage::Over))
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let replaced = self
            .0
            .with(|stage| matches!(stage, Stage::Empty(_)).then(|| std::mem::replace(stage, Stage::Unsent)));
        wake(replaced);
    }
}

impl<T> Future for Receiver<T> {
    type Output = Result<T, Closed>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T, Closed>> {
        let next = || Stage::Empty(Some(context.waker().clone()));
        // What is replaced has a foreign waker or the value, which are dropped without the lock.
        let replaced = self.0.with(|stage| {
            let next = match stage {
                Stage::Empty(_) => next(),
                _ => Stage::Over,
            };
            std::mem::replace(stage, next)
        });
        match replaced {
            Stage::Empty(_) => Poll::Pending,
            Stage::Sent(value) => Poll::Ready(Ok(value)),
            Stage::Unsent => Poll::Ready(Err(Closed(()))),
            Stage::Over => panic!("the receiver was ready before"),
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        drop(self.0.with(|stage| std::mem::replace(stage, Stage::Over)));
    }
}

/// Wakes the receiver that waited in this stage.
fn wake<T>(replaced: Option<Stage<T>>) {
    if let Some(Stage::Empty(Some(waker))) = replaced {
        waker.wake();
    }
}

impl<T> Shared<T> {
    /// A request that yields while it has the lock would be waited for.
    fn with<U>(&self, use_stage: impl FnOnce(&mut Stage<T>) -> U) -> U {
        no_preempt(|| use_stage(&mut self.lock()))
    }

    fn lock(&self) -> MutexGuard<'_, Stage<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::wait::wait;

    #[test]
    fn the_value_or_the_end_of_the_sender_is_received() {
        for pause in [Duration::ZERO, Duration::from_millis(2)] {
            let (sender, receiver) = channel();
            let sends = std::thread::spawn(move || {
                std::thread::sleep(pause);
                sender.send(7)
            });
            assert_eq!(wait(receiver), Ok(7));
            assert_eq!(sends.join().unwrap(), Ok(()));
            let (sender, receiver) = channel::<u8>();
            let drops = std::thread::spawn(move || {
                std::thread::sleep(pause);
                drop(sender);
            });
            assert_eq!(wait(receiver), Err(Closed(())));
            drops.join().unwrap();
        }
    }

    #[test]
    fn a_value_that_nobody_wants_comes_back() {
        let (sender, receiver) = channel();
        assert!(!sender.is_closed());
        drop(receiver);
        assert!(sender.is_closed());
        assert_eq!(sender.send(7), Err(7));
        let value = Arc::new(());
        let (sender, receiver) = channel();
        assert!(sender.send(value.clone()).is_ok());
        drop(receiver);
        assert_eq!(Arc::strong_count(&value), 1, "a value that was not received is dropped");
    }
}
