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

use std::cell::Cell;
use std::time::{Duration, Instant};

/// For how long a thread of low priority keeps its core from others.
const KEPT_MAX: Duration = Duration::from_micros(100);

thread_local! {
    /// When the thread began to keep its core.
    static KEPT_SINCE: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// A checkpoint of a thread of low priority.
pub(super) fn share_core() {
    if is_due(Instant::now()) {
        std::thread::yield_now();
    }
}

/// Whether the thread has kept its core for long enough. If it has, it keeps it anew.
fn is_due(now: Instant) -> bool {
    let is_due = KEPT_SINCE
        .get()
        .is_none_or(|since| now.duration_since(since) >= KEPT_MAX);
    if is_due {
        KEPT_SINCE.set(Some(now));
    }
    is_due
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_keeps_its_core_for_a_tenth_of_a_millisecond_at_a_time() {
        let began = Instant::now();
        let due_us: Vec<u64> = (0..=250)
            .step_by(10)
            .filter(|&us| is_due(began + Duration::from_micros(us)))
            .collect();
        assert_eq!(due_us, [0, 100, 200]);
    }
}
