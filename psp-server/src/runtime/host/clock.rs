//! The runtime's clock: nanoseconds since the server was built.

/// Cheap to clone and to read; clones agree.
#[derive(Debug, Clone)]
pub(crate) struct Clock {
    inner: quanta::Clock,
    origin: u64,
}

impl Clock {
    /// Calibrates the time-stamp counter if the machine has a stable one.
    pub(crate) fn new() -> Self {
        let inner = quanta::Clock::new();
        let origin = inner.raw();
        Self { inner, origin }
    }

    #[inline]
    pub(crate) fn now_ns(&self) -> u64 {
        #[cfg(all(test, not(loom)))]
        if let Some(now_ns) = crate::simulated::clock() {
            return now_ns;
        }
        self.inner.delta_as_nanos(self.origin, self.inner.raw())
    }
}
