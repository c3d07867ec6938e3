//! When whoever waits for time to pass wakes to report that.

use std::time::Duration;

/// Time to the next tick if one has moved nothing.
const PAUSE: Duration = Duration::from_millis(1);

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Ticker {
    has_ticked: bool,
}

impl Ticker {
    /// How long to wait. Zero is a tick that is due.
    pub(crate) fn wait(&mut self, now_ns: u64, deadline_ns: Option<u64>) -> Duration {
        let left_ns = deadline_ns.map(|at_ns| at_ns.saturating_sub(now_ns));
        let is_due = left_ns == Some(0);
        let ticks = is_due && !self.has_ticked;
        self.has_ticked = ticks;
        match left_ns {
            None => Duration::MAX,
            // A tick that moved nothing shall not keep the thread awake.
            Some(0) if !ticks => PAUSE,
            Some(left_ns) => Duration::from_nanos(left_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tick_that_moves_nothing_is_not_repeated_at_once() {
        let mut ticker = Ticker::default();
        assert_eq!(ticker.wait(5, None), Duration::MAX);
        assert_eq!(ticker.wait(5, Some(12)), Duration::from_nanos(7));
        assert_eq!(ticker.wait(12, Some(12)), Duration::ZERO);
        assert_eq!(ticker.wait(13, Some(12)), PAUSE);
        assert_eq!(ticker.wait(14, Some(12)), Duration::ZERO);
        assert_eq!(ticker.wait(14, Some(20)), Duration::from_nanos(6));
        assert_eq!(ticker.wait(20, Some(20)), Duration::ZERO);
    }
}
