//! Wakes the net worker from any thread, once there is one.

use std::sync::{Arc, Mutex, PoisonError};

use mio::Waker;

/// A waker that is known only when the server runs. Nobody is woken before that: whoever waits
/// looks for work first.
#[derive(Debug, Default)]
pub(crate) struct LateWaker(Mutex<Option<Arc<Waker>>>);

impl LateWaker {
    pub(crate) fn attach(&self, waker: Arc<Waker>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(waker);
    }

    pub(crate) fn wake(&self) {
        let waker = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(waker) = &*waker
            && let Err(error) = waker.wake()
        {
            tracing::warn!(%error, "cannot wake the net worker; it goes on at its next event");
        }
    }
}
