//! Wakes the net thread at a time that the scheduler names, to the microsecond.
//!
//! ```text
//!   Scheduler::deadline_ns ──► Alarm::set ──► timerfd ──► event queue ──► Event::Tick
//! ```
//!
//! The event queue's own timeout counts milliseconds, and quanta are shorter. Most times that are asked for never come:
//! a turn ends before its quantum does, and the next turn has a later one. To set the timer is a system call, so a
//! timer that rings early enough stays as it is:
//!
//! ```text
//!   asked for    a            b    c                        d
//!   timer        set to a ....:....:........ rings          :
//!                                            set to c ..... : rings, is not needed any more
//! ```
//!
//! When it rings too early, the net thread asks again for what is left. So it is set once for each time that it rings,
//! and else only for an earlier time. An alarm for a time that no longer matters rings once without effect.

use mio::{Registry, Token};

/// By how much the alarm may ring late. Less than a wake-up takes, so that no one notices.
const SLACK_NS: u64 = 1_000;

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

    /// Has the alarm ring by `at_ns`, in place of the time before, or at once if `at_ns` is past. It may ring earlier.
    /// Both times are of the runtime's clock. Returns whether the system has such a timer.
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
    /// How long the timer has to run to ring by `at_ns`; `None` if it does so already. A timer whose time is past
    /// should have rung, and is set anew.
    fn change(&mut self, now_ns: u64, at_ns: u64) -> Option<u64> {
        let latest_ns = at_ns.saturating_add(SLACK_NS);
        let is_set = |set_ns| now_ns < set_ns && set_ns <= latest_ns;
        if self.at_ns.is_some_and(is_set) {
            return None;
        }
        self.at_ns = Some(at_ns);
        // A length of 0 would stop the timer.
        Some(at_ns.saturating_sub(now_ns).max(1))
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
    use std::os::fd::AsRawFd;

    use mio::unix::SourceFd;
    use mio::{Interest, Registry, Token};

    use crate::runtime::host::shared_alarm::Countdown;
    use crate::runtime::host::timer_fd::TimerFd;

    /// Never read: the event queue is edge-triggered, and each expiry is an edge.
    #[derive(Debug)]
    pub(super) struct Timer(TimerFd);

    impl Timer {
        pub(super) fn new(registry: &Registry, token: Token) -> io::Result<Self> {
            let timer = TimerFd::new()?;
            registry.register(&mut SourceFd(&timer.as_raw_fd()), token, Interest::READABLE)?;
            Ok(Self(timer))
        }

        pub(super) fn start(&self, in_ns: u64) -> io::Result<()> {
            #[cfg(all(test, not(loom)))]
            if crate::simulated::set_alarm(in_ns) {
                return Ok(());
            }
            self.0.start(in_ns)
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
    fn it_rings_once_for_the_earliest_time_that_was_asked_for() {
        let mut poll = Poll::new().unwrap();
        let mut alarm = Alarm::new(poll.registry(), ALARM).unwrap();
        assert_eq!(events(&mut poll, Duration::ZERO), []);
        for round in 0..3 {
            assert!(alarm.set(round, HOUR_NS));
            assert_eq!(events(&mut poll, Duration::ZERO), []);
            assert!(alarm.set(round, round + 1_000));
            assert!(alarm.set(round, HOUR_NS), "a later time");
            assert_eq!(events(&mut poll, PATIENCE), [ALARM]);
            alarm.rang();
            assert_eq!(events(&mut poll, Duration::ZERO), [], "once");
        }
        assert!(alarm.set(9, 5), "a time that is past");
        assert_eq!(events(&mut poll, PATIENCE), [ALARM]);
    }

    #[test]
    fn an_alarm_that_rang_and_was_not_heard_is_set_anew() {
        let mut poll = Poll::new().unwrap();
        let mut alarm = Alarm::new(poll.registry(), ALARM).unwrap();
        alarm.set(0, 1);
        // It rings, and is set again before the event is read.
        alarm.set(1, HOUR_NS);
        assert_eq!(events(&mut poll, Duration::ZERO), []);
    }

    /// Quanta of 50 us, each of which ends early because its request completes after 10 us: the time that is asked for
    /// moves on with each turn.
    #[test]
    fn times_that_move_on_set_the_timer_once_a_quantum() {
        const TURN_NS: u64 = 10_000;
        const QUANTUM_NS: u64 = 50_000;
        let mut setting = Setting::default();
        let (mut starts, mut rings_ns) = (0, None);
        for now_ns in (0..1_000).map(|turn| turn * TURN_NS) {
            if rings_ns.take_if(|rings_ns| *rings_ns <= now_ns).is_some() {
                setting.forget();
            }
            if let Some(in_ns) = setting.change(now_ns, now_ns + QUANTUM_NS) {
                starts += 1;
                rings_ns = Some(now_ns + in_ns);
            }
        }
        assert_eq!(starts, 1_000 * TURN_NS / QUANTUM_NS);
    }

    #[test]
    fn a_time_that_is_hardly_earlier_does_not_set_the_timer() {
        let mut setting = Setting::default();
        assert_eq!(setting.change(0, 5 * SLACK_NS), Some(5 * SLACK_NS));
        assert_eq!(setting.change(1, 4 * SLACK_NS), None);
        assert_eq!(setting.change(2, 4 * SLACK_NS - 1), Some(4 * SLACK_NS - 3));
    }

    proptest! {
        /// Whatever is asked for in whatever order, the timer rings by the time that was asked for last, or at most the
        /// slack later, and is started only for an earlier time or after it rang.
        #[test]
        fn the_timer_rings_by_the_time_that_was_asked_for(
            steps in prop::collection::vec((0..4 * SLACK_NS, 0..9 * SLACK_NS), 1..50),
        ) {
            let mut setting = Setting::default();
            let (mut now_ns, mut rings_ns) = (0, None);
            for (passed_ns, ahead_ns) in steps {
                now_ns += passed_ns;
                if rings_ns.take_if(|rings_ns| *rings_ns <= now_ns).is_some() {
                    setting.forget();
                }
                let at_ns = now_ns + 1 + ahead_ns;
                if let Some(in_ns) = setting.change(now_ns, at_ns) {
                    prop_assert!(rings_ns.is_none_or(|rings_ns| rings_ns > at_ns + SLACK_NS));
                    prop_assert_eq!(now_ns + in_ns, at_ns);
                    rings_ns = Some(at_ns);
                }
                prop_assert!(rings_ns.is_some_and(|rings_ns| rings_ns <= at_ns + SLACK_NS));
            }
        }
    }
}
