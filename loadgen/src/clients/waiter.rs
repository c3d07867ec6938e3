//! Waits for sockets, and for send times to the microsecond.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use crate::record::RunClock;
use crate::schedule::Waiting;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

/// Sockets that one wait can report.
const EVENTS_MAX: usize = 256;

/// Longest single sleep. A thread notices `stop` within this time.
const SLEEP_NS_MAX: u64 = 50_000_000;

/// An epoll instance with timeouts in nanoseconds.
#[derive(Debug)]
pub(crate) struct Waiter {
    epoll: OwnedFd,
    spin_ns: u64,
}

impl Waiter {
    pub(crate) fn new(waiting: Waiting) -> std::io::Result<Self> {
        let spin_ns = match waiting {
            Waiting::BusyPoll => u64::MAX,
            Waiting::SleepThenSpin(spin) => u64::try_from(spin.as_nanos()).unwrap_or(u64::MAX),
        };
        Ok(Self { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?, spin_ns })
    }

    /// The epoll instance of the sockets.
    pub(crate) fn epoll(&self) -> &OwnedFd {
        &self.epoll
    }

    /// Waits until a socket is ready or until `deadline_ns`. Spins if the deadline or the last send
    /// at `sent_ns` is close.
    pub(crate) fn wait(
        &self,
        events: &mut Events,
        clock: &RunClock,
        deadline_ns: u64,
        sent_ns: Option<u64>,
    ) -> std::io::Result<()> {
        let started_ns = clock.now_ns();
        let deadline_ns = deadline_ns.min(started_ns.saturating_add(SLEEP_NS_MAX));
        let spin_until_ns = sent_ns.map_or(0, |sent_ns| sent_ns.saturating_add(self.spin_ns));
        let sleep_until_ns = deadline_ns.saturating_sub(self.spin_ns);
        let mut now_ns = started_ns;
        loop {
            let sleep_ns = if now_ns < spin_until_ns {
                0
            } else {
                sleep_until_ns.saturating_sub(now_ns)
            };
            self.poll(events, sleep_ns)?;
            now_ns = clock.now_ns();
            if !events.ready.is_empty() || now_ns >= deadline_ns {
                return Ok(());
            }
        }
    }

    fn poll(&self, events: &mut Events, sleep_ns: u64) -> std::io::Result<()> {
        let timeout = Timespec::try_from(Duration::from_nanos(sleep_ns)).expect("sleeps are bounded by SLEEP_NS_MAX");
        events.ready.clear();
        let spare = rustix::buffer::spare_capacity(&mut events.ready);
        match epoll::wait(self.epoll.as_fd(), spare, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// The sockets that a wait found ready.
pub(crate) struct Events {
    ready: Vec<epoll::Event>,
}

impl Events {
    pub(crate) fn new() -> Self {
        Self { ready: Vec::with_capacity(EVENTS_MAX) }
    }

    /// The registration data of the ready sockets.
    pub(crate) fn data(&self) -> impl Iterator<Item = u64> {
        self.ready.iter().map(|event| event.data.u64())
    }
}
