//! Wakes the threads that receive requests from any thread, once the server runs.

use std::sync::{Arc, Mutex, PoisonError};

use mio::Waker;

/// Wakers that are set only when the server starts to run. Before that, `wake` does nothing: a thread looks for work
/// before it first sleeps.
#[derive(Debug, Default)]
pub(crate) struct LateWaker(Mutex<Vec<Arc<Waker>>>);

impl LateWaker {
    pub(crate) fn attach(&self, wakers: Vec<Arc<Waker>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = wakers;
    }

    pub(crate) fn wake(&self) {
        let wakers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for waker in &*wakers {
            if let Err(error) = waker.wake() {
                tracing::warn!(%error, "cannot wake a net thread; it continues at its next event");
            }
        }
    }
}
