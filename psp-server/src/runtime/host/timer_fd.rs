//! The system's timer, to the microsecond, as a descriptor.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

use super::shared_alarm::Countdown;

/// Readable from when the timer rings until it is cleared or started again. Never read.
#[derive(Debug)]
pub(crate) struct TimerFd(OwnedFd);

impl TimerFd {
    /// A timer that does not run.
    pub(crate) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        Ok(Self(timerfd_create(TimerfdClockId::Monotonic, flags)?))
    }

    /// 0 stops the timer.
    fn set(&self, in_ns: u64) -> io::Result<()> {
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

impl Countdown for TimerFd {
    fn start(&self, in_ns: u64) -> io::Result<()> {
        self.set(in_ns)
    }

    fn clear(&self) {
        // Setting it forgets that it rang.
        if let Err(error) = self.set(0) {
            tracing::debug!(%error, "cannot clear a timer");
        }
    }
}

impl AsFd for TimerFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for TimerFd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::TimerFd;
    use crate::runtime::host::shared_alarm::SharedAlarm;

    #[test]
    fn the_timer_is_readable_from_when_it_rings_until_it_is_cleared() {
        let alarm = SharedAlarm::new(TimerFd::new().unwrap());
        let is_readable = |timeout_s| {
            let tv_nsec = 0;
            let timeout = Timespec { tv_sec: timeout_s, tv_nsec };
            let mut fds = [PollFd::new(alarm.countdown(), PollFlags::IN)];
            poll(&mut fds, Some(&timeout)).unwrap() > 0
        };
        assert!(!is_readable(0));
        for _ in 0..3 {
            alarm.set(0, 1_000);
            assert!(is_readable(30) && is_readable(0));
            alarm.rang();
            assert!(!is_readable(0));
        }
        alarm.set(0, 3_600_000_000_000);
        assert!(!is_readable(0));
    }
}
