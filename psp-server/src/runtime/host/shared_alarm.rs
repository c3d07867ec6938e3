//! An alarm that any thread may set, and for which one thread waits.
//!
//! ```text
//!   worker 1   publish ── set(10 us) ──┐
//!   worker 0   publish ── set(4 us) ───┼──► timer ──► the thread that waits: rang ── looks at everything ── set
//!                                      ┘
//! ```
//!
//! The thread calls [`SharedAlarm::rang`] before it looks. Either that comes after a `set`, and the thread sees what
//! was published before; or the `set` comes later, and the alarm rings again. Checked by loom.
//!
//! Setting the timer is a system call. An alarm that rings early enough stays as it is.

use std::io;
use std::sync::PoisonError;

#[cfg(loom)]
use loom::sync::{Mutex, MutexGuard};
#[cfg(not(loom))]
use std::sync::{Mutex, MutexGuard};

/// By how much the alarm may ring late.
const SLACK_NS: u64 = 1_000;

/// The timer of an alarm.
pub(crate) trait Countdown {
    /// Has the timer ring in so many nanoseconds, above 0, and not at the time before.
    fn start(&self, in_ns: u64) -> io::Result<()>;
    /// The timer rings no more until it is started again.
    fn clear(&self);
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct SharedAlarm<C> {
    countdown: C,
    /// When the timer rings or has rung; `None` if the thread knows that.
    at_ns: Mutex<Option<u64>>,
}

impl<C: Countdown> SharedAlarm<C> {
    pub(crate) fn new(countdown: C) -> Self {
        Self { countdown, at_ns: Mutex::new(None) }
    }

    /// The timer.
    pub(crate) fn countdown(&self) -> &C {
        &self.countdown
    }

    fn lock(&self) -> MutexGuard<'_, Option<u64>> {
        self.at_ns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the alarm ring by `at_ns`, or at once if that is past. It may ring earlier.
    pub(crate) fn set(&self, now_ns: u64, at_ns: u64) {
        let mut set = self.lock();
        // One whose time is past has rung, or is about to.
        if set.is_some_and(|set_ns| set_ns <= at_ns.saturating_add(SLACK_NS)) {
            return;
        }
        *set = Some(at_ns);
        // A length of 0 would stop the timer.
        if let Err(error) = self.countdown.start(at_ns.saturating_sub(now_ns).max(1)) {
            *set = None;
            tracing::debug!(%error, "cannot set the alarm");
        }
    }

    /// When the alarm rings next.
    pub(crate) fn at_ns(&self) -> Option<u64> {
        *self.lock()
    }

    /// The alarm rang, or something else woke the thread that waits for it: it looks at everything now.
    pub(crate) fn rang(&self) {
        let mut set = self.lock();
        *set = None;
        self.countdown.clear();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Records when it was started, and whether it runs or has rung.
    #[derive(Default)]
    struct Recorded {
        started: Cell<u64>,
        in_ns: Cell<Option<u64>>,
    }

    impl Countdown for Recorded {
        fn start(&self, in_ns: u64) -> io::Result<()> {
            self.started.set(self.started.get() + 1);
            self.in_ns.set(Some(in_ns));
            Ok(())
        }

        fn clear(&self) {
            self.in_ns.set(None);
        }
    }

    #[test]
    fn it_is_started_for_earlier_times_and_after_it_rang() {
        let alarm = SharedAlarm::new(Recorded::default());
        let set = |now_ns, at_ns| {
            alarm.set(now_ns, at_ns);
            let Recorded { started, in_ns } = alarm.countdown();
            (started.get(), in_ns.get())
        };
        assert_eq!(set(0, 50_000), (1, Some(50_000)));
        assert_eq!(set(10, 60_000), (1, Some(50_000)), "later");
        assert_eq!(set(10, 49_000), (1, Some(50_000)), "within the slack");
        assert_eq!(set(10, 20_000), (2, Some(19_990)));
        assert_eq!(set(30_000, 90_000), (2, Some(19_990)), "no thread has heard it");
        alarm.rang();
        assert_eq!(set(30_000, 90_000), (3, Some(60_000)));
        assert_eq!(set(40_000, 20_000), (4, Some(1)), "at once");
        assert_eq!(alarm.at_ns(), Some(20_000));
    }
}
