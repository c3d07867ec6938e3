//! Asking a server to stop.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mio::Waker;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::error::RunError;
use crate::late_waker::LateWaker;

/// Stops a server that runs until this is triggered. Cheap to clone; any clone triggers all.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    triggered: AtomicBool,
    waker: LateWaker,
}

impl Shutdown {
    /// A shutdown that is not triggered.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A shutdown that SIGTERM and SIGINT trigger. A second SIGINT ends the process at once; SIGTERM may come again,
    /// from programs that pass it on.
    ///
    /// # Errors
    /// When the signal handlers or the thread that waits for them cannot be installed.
    pub fn on_signals() -> Result<Self, RunError> {
        Self::on_signals_between(|| (), || ())
    }

    /// [`on_signals`](Self::on_signals). After the first signal the thread that waits for them calls `before`, triggers
    /// the shutdown, and calls `then`.
    pub(crate) fn on_signals_between(
        before: impl FnOnce() + Send + 'static,
        then: impl FnOnce() + Send + 'static,
    ) -> Result<Self, RunError> {
        let shutdown = Self::new();
        let trigger = shutdown.clone();
        let install = || -> io::Result<()> {
            let second = Arc::new(AtomicBool::new(false));
            signal_hook::flag::register_conditional_shutdown(SIGINT, 1, second.clone())?;
            for signal in [SIGTERM, SIGINT] {
                signal_hook::flag::register(signal, second.clone())?;
            }
            let mut signals = signal_hook::iterator::Signals::new([SIGTERM, SIGINT])?;
            std::thread::Builder::new().name("psp-signals".into()).spawn(move || {
                if signals.forever().next().is_some() {
                    before();
                    trigger.trigger();
                    then();
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
        self.inner.waker.wake();
    }

    /// Whether it was triggered.
    #[must_use]
    pub fn is_triggered(&self) -> bool {
        self.inner.triggered.load(Ordering::Acquire)
    }

    pub(crate) fn attach(&self, wakers: Vec<Arc<Waker>>) {
        self.inner.waker.attach(wakers);
    }
}
