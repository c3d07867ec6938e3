//! Wakes the net thread from any thread, once the server runs.

use std::sync::{Arc, Mutex, PoisonError};

use mio::Waker;

/// A waker that is set only when the server starts to run. Before that, `wake` does nothing: the net thread
/// looks for work before it first sleeps.
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
            tracing::warn!(%error, "cannot wake the net thread; it continues at its next event");
        }
    }
}
