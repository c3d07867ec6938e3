//! What a thread of low priority does at checkpoints: it lets other threads have its core.
//!
//! ```text
//!   worker (nice 19): handler ── checkpoint ── 100 us since the last time? ── sched_yield ── handler goes on
//!                                                                                 │
//!   core:                                                                         └─► threads that wait for it
//! ```
//!
//! A thread of low priority should run only while no other thread wants its core. The kernel sees to that when a thread
//! wakes beside it, but not when both wait at once. A client that has just used its share stands behind the worker then,
//! and the worker runs until the first tick after its slice. With 250 ticks a second, a client's thread waited for 3.7 ms
//! beside an idle core.
//!
//! A thread that computes without end would take its whole slice at each such step, even one of SCHED_IDLE. So after a
//! step that took long, the thread keeps its core for as long itself.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// For how long a thread of low priority keeps its core from others, if these leave it soon.
const KEPT_MIN: Duration = Duration::from_micros(100);
/// The same if they do not: the time between two ticks of the kernel.
const KEPT_MAX: Duration = Duration::from_millis(4);

thread_local! {
    static KEEPING: Cell<Keeping> = const { Cell::new(Keeping::new()) };
}

/// For how long a thread has kept its core, and may.
#[derive(Debug, Clone, Copy)]
struct Keeping {
    since: Option<Instant>,
    kept: Duration,
}

impl Keeping {
    const fn new() -> Self {
        Self {
            since: None,
            kept: KEPT_MIN,
        }
    }

    /// Whether others shall have the core.
    fn is_due(&self, now: Instant) -> bool {
        self.since
            .is_none_or(|since| now.duration_since(since) >= self.kept)
    }

    /// Others had the core from `left` on, and the thread has it back.
    fn begin(left: Instant, now: Instant) -> Self {
        Self {
            since: Some(now),
            kept: now.duration_since(left).clamp(KEPT_MIN, KEPT_MAX),
        }
    }
}

/// A checkpoint of a thread of low priority.
pub(super) fn share_core() {
    let now = Instant::now();
    if KEEPING.get().is_due(now) {
        std::thread::yield_now();
        KEEPING.set(Keeping::begin(now, Instant::now()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When a thread leaves its core to others that take it for so long, in microseconds, in the first milliseconds.
    fn leaves_at_us(away_us: u64) -> Vec<u64> {
        let began = Instant::now();
        let at = |us| began + Duration::from_micros(us);
        let mut keeping = Keeping::new();
        let (mut now_us, mut left_us) = (0, Vec::new());
        while now_us < 20_000 {
            if keeping.is_due(at(now_us)) {
                left_us.push(now_us);
                keeping = Keeping::begin(at(now_us), at(now_us + away_us));
                now_us += away_us;
            }
            now_us += 10;
        }
        left_us
    }

    #[test]
    fn a_thread_keeps_its_core_for_a_tenth_of_a_millisecond_at_a_time() {
        assert_eq!(leaves_at_us(20)[..3], [0, 120, 240]);
    }

    #[test]
    fn a_thread_keeps_its_core_for_as_long_as_others_do() {
        assert_eq!(leaves_at_us(3_000), [0, 6_000, 12_000, 18_000]);
        assert_eq!(leaves_at_us(10_000), [0, 14_000]);
    }
}
