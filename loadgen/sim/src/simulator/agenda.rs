//! When each server has its next event and its next tick.

use psp_policy::WorkerId;
use psp_policy::internal::WorkerTimes;

/// See the [module](self). Of equal times, that of the server with the lower number.
pub(super) struct Agenda {
    events: WorkerTimes,
    ticks: WorkerTimes,
}

impl Agenda {
    /// Nothing to do for any of `servers` servers.
    pub(super) fn new(servers: usize) -> Self {
        Self {
            events: WorkerTimes::new(servers),
            ticks: WorkerTimes::new(servers),
        }
    }

    /// Sets the next event of a server, which may be never, and its next tick.
    #[inline]
    pub(super) fn set(&mut self, server: usize, event_ns: u64, tick_ns: u64) {
        let server = WorkerId(server as u32);
        self.events.set(server, event_ns);
        self.ticks.set(server, tick_ns);
    }

    /// The next event and its server; the end of time if there is none.
    #[inline]
    pub(super) fn next_event(&self) -> (u64, usize) {
        earliest(&self.events)
    }

    /// The next tick and its server.
    #[inline]
    pub(super) fn next_tick(&self) -> (u64, usize) {
        earliest(&self.ticks)
    }
}

#[inline]
fn earliest(times: &WorkerTimes) -> (u64, usize) {
    let earliest = times.earliest();
    earliest.map_or((u64::MAX, 0), |(at_ns, server)| (at_ns, server.index()))
}
