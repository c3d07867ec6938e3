//! Sleeping in a handler, while other requests may have the worker.

use std::time::{Duration, Instant};

use crate::fiber;
use crate::fiber::{checkpoint, no_preempt};

/// Sleeps for `duration`, and gives way meanwhile like a [`checkpoint`] if the server asks for it. Time between
/// the request's turns does not count: the request sleeps for `duration` in its own turns.
///
/// The server wakes a sleeping request to make it give way. On other threads, and within [`no_preempt`], this
/// is [`std::thread::sleep`], except that it uses up the thread's [`park`](std::thread::park) token.
pub fn sleep(duration: Duration) {
    let mut left = duration;
    while !left.is_zero() {
        left = left.saturating_sub(rest(left));
        checkpoint();
    }
}

/// Parks until the thread is woken, for `longest` at most, and returns for how long it did. If a [`checkpoint`]
/// is due, returns at once: the wake-up for it may have ended an earlier rest.
pub(crate) fn rest(longest: Duration) -> Duration {
    if fiber::shall_give_way() {
        return Duration::ZERO;
    }
    // A signal must not find the thread half parked.
    no_preempt(|| {
        let started = Instant::now();
        std::thread::park_timeout(longest);
        started.elapsed()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wake_does_not_end_it() {
        let started = Instant::now();
        std::thread::current().unpark();
        sleep(Duration::from_millis(2));
        assert!(started.elapsed() >= Duration::from_millis(2));
        sleep(Duration::ZERO);
    }
}
