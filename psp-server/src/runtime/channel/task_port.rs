//! The worker's end of a channel.
//!
//! If the worker is a team of threads, the team's active thread uses the port.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ringbuf::traits::{Consumer, Producer};
use ringbuf::{CachingCons, CachingProd, HeapRb};

use super::doorbell::Doorbell;
use super::message::{Message, Report};
use super::sleep_flag::SleepFlag;
use crate::fiber::Bell;

/// How often a worker that polls looks at its ring before it reads the clock again.
const LOOKS_PER_READING: usize = 8;

/// One ring of a channel.
pub(crate) type Ring<T> = Arc<HeapRb<T>>;

/// See the [module](self).
pub(crate) struct TaskPort<T> {
    messages: CachingCons<Ring<Message<T>>>,
    reports: CachingProd<Ring<Report<T>>>,
    sleeper: Arc<SleepFlag>,
    doorbell: Arc<Doorbell>,
}

impl<T> TaskPort<T> {
    pub(crate) fn new(
        messages: CachingCons<Ring<Message<T>>>,
        reports: CachingProd<Ring<Report<T>>>,
        sleeper: Arc<SleepFlag>,
        doorbell: Arc<Doorbell>,
    ) -> Self {
        Self { messages, reports, sleeper, doorbell }
    }

    /// The next message, if there is one.
    pub(crate) fn receive(&mut self) -> Option<Message<T>> {
        self.messages.try_pop()
    }

    /// The next message. Polls for `spin` and then parks.
    pub(crate) fn next(&mut self, spin: Duration) -> Message<T> {
        loop {
            if let Some(message) = self.receive().or_else(|| self.poll(spin)) {
                return message;
            }
            self.sleeper.announce();
            let message = self.receive();
            if message.is_none() {
                // A sender that takes the announcement before the worker parks leaves a token.
                std::thread::park();
            }
            self.sleeper.clear();
            if let Some(message) = message {
                return message;
            }
        }
    }

    fn poll(&mut self, spin: Duration) -> Option<Message<T>> {
        if spin.is_zero() {
            return None;
        }
        let start = Instant::now();
        while start.elapsed() < spin {
            for _ in 0..LOOKS_PER_READING {
                std::hint::spin_loop();
                if let Some(message) = self.receive() {
                    return Some(message);
                }
            }
        }
        None
    }

    /// Ends a turn, and wakes the net worker if it sleeps.
    #[inline]
    pub(crate) fn report(&mut self, report: Report<T>) {
        let sent = self.reports.try_push(report).is_ok();
        debug_assert!(sent, "a worker has one turn at a time");
        self.doorbell.ring();
    }
}
