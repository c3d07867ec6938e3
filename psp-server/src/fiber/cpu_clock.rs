//! The CPU clock of the request that runs on this thread, while a [timer](super::cpu_timer) needs it.
//!
//! ```text
//!   time    ──────────────────────────────────────────────────────────────►
//!   thread  A ████████ yields ─ B ████ ─ A ███ the kernel runs others ─ A ████
//!   A's       ████████                        ███                            ████
//! ```
//!
//! The CPU clock of a thread leaves out what other threads do on its core. [`keep`] and [`restore`] leave out what
//! other requests do on the thread.

use std::cell::Cell;
use std::time::Duration;

use quanta::Instant;
use rustix::time::{ClockId, clock_gettime};

/// A timer begins at the clock's last reading, if that is no older.
const START_AGE: Duration = Duration::from_micros(50);

thread_local! {
    static OWN: Own = const { Own {
        timers: Cell::new(0),
        others_ns: Cell::new(0),
        read: Cell::new(None),
    } };
}

/// The CPU time of this thread that is the running request's own.
struct Own {
    /// Timers of the request that runs.
    timers: Cell<u32>,
    /// What the clock counts that is not the request's, modulo 2^64.
    others_ns: Cell<u64>,
    /// When the clock was read last, and what it showed.
    read: Cell<Option<(Instant, u64)>>,
}

impl Own {
    /// The request's time, now.
    fn ns(&self) -> u64 {
        cpu_ns().wrapping_sub(self.others_ns.get())
    }

    /// The request's time at `now`, or not long before.
    fn ns_before(&self, now: Instant) -> u64 {
        let recent = self.read.get().filter(|(at, _)| now - *at < START_AGE);
        let (_, clock_ns) = recent.unwrap_or_else(|| {
            let read = (now, cpu_ns());
            self.read.set(Some(read));
            read
        });
        clock_ns.wrapping_sub(self.others_ns.get())
    }
}

pub(super) fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let ns = i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec);
    u64::try_from(ns).unwrap_or(0)
}

/// A timer of the request that runs begins. Returns the request's time at `now`, or not long before.
pub(super) fn begin_timer(now: Instant) -> u64 {
    OWN.with(|own| {
        own.timers.set(own.timers.get() + 1);
        own.ns_before(now)
    })
}

/// A timer is gone.
pub(super) fn end_timer() {
    OWN.with(|own| own.timers.set(own.timers.get().saturating_sub(1)));
}

/// The time of the request that runs.
pub(super) fn own_ns() -> u64 {
    OWN.with(Own::ns)
}

/// The timers of a request that yields: how many there are, and the request's time.
#[derive(Debug)]
pub(super) struct Kept(Option<(u32, u64)>);

#[cfg(test)]
impl Kept {
    pub(super) fn has_timers(&self) -> bool {
        self.0.is_some()
    }
}

/// What [`restore`] needs when the request goes on.
pub(super) fn keep() -> Kept {
    OWN.with(|own| {
        let timers = own.timers.replace(0);
        Kept((timers > 0).then(|| {
            // The next request's timers begin later.
            own.read.set(None);
            (timers, own.ns())
        }))
    })
}

/// The request that yielded goes on.
pub(super) fn restore(kept: &Kept) {
    OWN.with(|own| match kept.0 {
        None => own.timers.set(0),
        Some((timers, own_ns)) => {
            own.timers.set(timers);
            own.others_ns.set(cpu_ns().wrapping_sub(own_ns));
            own.read.set(None);
        }
    });
}
