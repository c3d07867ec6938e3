//! Sleeping in a handler without keeping the worker from others.

use std::time::{Duration, Instant};

use crate::fiber;
use crate::preempt::{checkpoint, no_preempt};

/// Sleeps for `duration`, and gives way meanwhile like a [`checkpoint`] when the server asks for it.
/// Time that the request was away for does not count: it has slept for `duration` in its own turns.
///
/// A worker that is asked to give way is woken for it. On other threads, and within [`no_preempt`],
/// this is [`std::thread::sleep`], but for using up the thread's [`park`](std::thread::park) token.
pub fn sleep(duration: Duration) {
    let mut left = duration;
    while !left.is_zero() {
        left = left.saturating_sub(rest(left));
        checkpoint();
    }
}

/// Parks until the thread is woken, for `longest` at most, and returns for how long it did. Not at all
/// where a [`checkpoint`] is due: who asked for it has woken the thread already, and that may have ended
/// an earlier rest.
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
