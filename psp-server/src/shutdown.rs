//! Asking a server to stop.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use mio::Waker;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::error::RunError;

/// Stops the server that runs until it. Cheap to clone; any clone triggers it.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    triggered: AtomicBool,
    waker: Mutex<Option<Arc<Waker>>>,
}

impl Shutdown {
    /// A shutdown that nobody has triggered.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// One that SIGTERM and SIGINT trigger. A second signal ends the process at once.
    ///
    /// # Errors
    /// When the signal handlers or the thread that waits for them cannot be installed.
    pub fn on_signals() -> Result<Self, RunError> {
        let shutdown = Self::new();
        let trigger = shutdown.clone();
        let install = || -> io::Result<()> {
            let second = Arc::new(AtomicBool::new(false));
            for signal in [SIGTERM, SIGINT] {
                signal_hook::flag::register_conditional_shutdown(signal, 1, second.clone())?;
                signal_hook::flag::register(signal, second.clone())?;
            }
            let mut signals = signal_hook::iterator::Signals::new([SIGTERM, SIGINT])?;
            std::thread::Builder::new()
                .name("psp-signals".into())
                .spawn(move || {
                    if signals.forever().next().is_some() {
                        trigger.trigger();
                    }
                })?;
            Ok(())
        };
        install().map_err(RunError::Signals)?;
        Ok(shutdown)
    }

    /// Asks the server to drain and return.
    pub fn trigger(&self) {
        self.inner.triggered.store(true, Ordering::Release);
        let waker = self
            .inner
            .waker
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(waker) = &*waker
            && let Err(error) = waker.wake()
        {
            tracing::warn!(%error, "cannot wake the net worker; it stops at its next event");
        }
    }

    /// Whether it was triggered.
    #[must_use]
    pub fn is_triggered(&self) -> bool {
        self.inner.triggered.load(Ordering::Acquire)
    }

    pub(crate) fn attach(&self, waker: Arc<Waker>) {
        *self
            .inner
            .waker
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(waker);
    }
}
