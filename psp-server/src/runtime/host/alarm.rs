//! Wakes the net thread at a time that the scheduler names, to the nanosecond.
//!
//! ```text
//!   Scheduler::deadline_ns ──► Alarm::set ──► timerfd ──► event queue ──► Event::Tick
//! ```
//!
//! The event queue's own timeout counts milliseconds, and quanta are shorter. The timer is set only when the
//! time changes. An alarm for a time that no longer matters rings once without effect.

use mio::{Registry, Token};

/// One alarm, which rings in an event queue.
#[derive(Debug)]
pub(crate) struct Alarm {
    timer: system::Timer,
    setting: Setting,
}

impl Alarm {
    /// An alarm that is not set. When it rings, `registry` has an event with `token`.
    pub(crate) fn new(registry: &Registry, token: Token) -> std::io::Result<Self> {
        Ok(Self {
            timer: system::Timer::new(registry, token)?,
            setting: Setting::default(),
        })
    }

    /// Sets the alarm to `at_ns`, in place of the time before; it rings at once if `at_ns` is past. Both times
    /// are of the runtime's clock. Returns whether the system has such a timer.
    pub(crate) fn set(&mut self, now_ns: u64, at_ns: u64) -> bool {
        let Some(in_ns) = self.setting.change(now_ns, at_ns) else {
            return true;
        };
        let started = self.timer.start(in_ns);
        if let Err(error) = &started {
            self.setting.forget();
            tracing::debug!(%error, "cannot set the alarm");
        }
        started.is_ok()
    }

    /// The event queue had the alarm's event.
    pub(crate) fn rang(&mut self) {
        self.setting.forget();
    }
}

/// The time that the timer is set to.
#[derive(Debug, Default)]
struct Setting {
    /// When the timer rings, unless it has rung.
    at_ns: Option<u64>,
}

impl Setting {
    /// How long the timer has to run to ring at `at_ns`; `None` if it is set to that time already.
    fn change(&mut self, now_ns: u64, at_ns: u64) -> Option<u64> {
        let before = self.at_ns.replace(at_ns);
        // A length of 0 would stop the timer.
        (before != Some(at_ns)).then(|| at_ns.saturating_sub(now_ns).max(1))
    }

    /// The timer is not running. The system's clock and the runtime's differ a little: the timer may ring
    /// early, and is then set for the rest.
    fn forget(&mut self) {
        self.at_ns = None;
    }
}

#[cfg(target_os = "linux")]
mod system {
    use std::io;
    use std::os::fd::{AsRawFd, OwnedFd};

    use mio::unix::SourceFd;
    use mio::{Interest, Registry, Token};
    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    };

    /// Never read: the event queue is edge-triggered, and each expiry is an edge.
    #[derive(Debug)]
    pub(super) struct Timer(OwnedFd);

    impl Timer {
        pub(super) fn new(registry: &Registry, token: Token) -> io::Result<Self> {
            let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
            let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
            registry.register(&mut SourceFd(&timer.as_raw_fd()), token, Interest::READABLE)?;
            Ok(Self(timer))
        }

        pub(super) fn start(&self, in_ns: u64) -> io::Result<()> {
            let once = Itimerspec {
                it_interval: Timespec::default(),
                it_value: Timespec {
                    tv_sec: (in_ns / 1_000_000_000).try_into().unwrap_or(i64::MAX),
                    tv_nsec: (in_ns % 1_000_000_000) as _,
                },
            };
            timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &once)?;
            Ok(())
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::io;

    use mio::{Registry, Token};

    /// This system has no such timer: the event queue's timeout has to do.
    #[derive(Debug)]
    pub(super) struct Timer;

    impl Timer {
        pub(super) fn new(_registry: &Registry, _token: Token) -> io::Result<Self> {
            Ok(Self)
        }

        pub(super) fn start(&self, _in_ns: u64) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::time::Duration;

    use mio::{Events, Poll};
    use proptest::prelude::*;

    use super::*;

    const ALARM: Token = Token(7);
    const PATIENCE: Duration = Duration::from_secs(30);
    const HOUR_NS: u64 = 3_600_000_000_000;

    /// The tokens of the events within `timeout`.
    fn events(poll: &mut Poll, timeout: Duration) -> Vec<Token> {
        let mut events = Events::with_capacity(8);
        poll.poll(&mut events, Some(timeout)).unwrap();
        events.iter().map(mio::event::Event::token).collect()
    }

    #[test]
    fn it_rings_once_for_the_time_that_was_set_last() {
        let mut poll = Poll::new().unwrap();
        let mut alarm = Alarm::new(poll.registry(), ALARM).unwrap();
        assert_eq!(events(&mut poll, Duration::ZERO), []);
        for round in 0..3 {
            assert!(alarm.set(round, HOUR_NS));
            assert_eq!(events(&mut poll, Duration::ZERO), []);
            assert!(alarm.set(round, round + 1_000));
            assert_eq!(events(&mut poll, PATIENCE), [ALARM]);
            alarm.rang();
            assert_eq!(events(&mut poll, Duration::ZERO), [], "once");
        }
        assert!(alarm.set(9, 5), "a time that is past");
        assert_eq!(events(&mut poll, PATIENCE), [ALARM]);
    }

    #[test]
    fn a_time_that_was_moved_away_does_not_ring() {
        let mut poll = Poll::new().unwrap();
        let mut alarm = Alarm::new(poll.registry(), ALARM).unwrap();
        alarm.set(0, 1);
        // It rings, and is set again before the event is read.
        alarm.set(0, HOUR_NS);
        assert_eq!(events(&mut poll, Duration::ZERO), []);
    }

    proptest! {
        /// The timer rings at the time that was set last, whatever was set in whatever order, and is started no
        /// more often than that time changes.
        #[test]
        fn the_timer_agrees_with_what_was_set(steps in prop::collection::vec((0u64..50, 0u64..100), 1..50)) {
            let mut setting = Setting::default();
            let (mut now_ns, mut rings_ns, mut last) = (0, None, None);
            for (passed_ns, ahead_ns) in steps {
                now_ns += passed_ns;
                if rings_ns.take_if(|rings_ns| *rings_ns <= now_ns).is_some() {
                    setting.forget();
                    last = None;
                }
                let at_ns = (now_ns / 64 + 1) * 64 + ahead_ns / 64;
                let started = setting.change(now_ns, at_ns);
                prop_assert_eq!(started.is_some(), last != Some(at_ns));
                if let Some(in_ns) = started {
                    rings_ns = Some(now_ns + in_ns);
                }
                prop_assert_eq!(rings_ns, Some(at_ns));
                last = Some(at_ns);
            }
        }
    }
}
