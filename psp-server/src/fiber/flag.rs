//! The flag by which a dispatcher, or the timer core, asks a worker's request to yield.
//!
//! ```text
//!   dispatcher:  begins turn 7 … asks 7            the flag holds 7 from here on
//!   worker:      … turn 7: checkpoint sees 7 ── yields
//!                … turn 8: checkpoint sees 7 ── goes on: that was meant for turn 7
//! ```
//!
//! Turns are numbered from 1 upwards, and no number is used twice. So the flag is never reset, and a request that was
//! over before it was asked to yield costs its successor nothing.
//!
//! A worker may name a turn of its own, too, so that checkpoints [look](super::TurnWatch) at it. The flag says which it
//! is, and holds the latest turn: who asks an older one changes nothing.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering};

/// See the [module](self). The number of a turn, and in the lowest bit whether it was asked to yield.
///
/// Relaxed accesses are enough: the flag guards no other data, which travels by the rings.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct PreemptFlag(AtomicU64);

const ASKED: u64 = 1;

impl PreemptFlag {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Asks the request of this turn to yield.
    pub(crate) fn ask(&self, turn: u64) {
        self.0.fetch_max(turn << 1 | ASKED, Ordering::Relaxed);
    }

    /// Names this turn, which was not asked.
    pub(crate) fn watch(&self, turn: u64) {
        self.0.fetch_max(turn << 1, Ordering::Relaxed);
    }

    /// Takes that back, unless the turn was asked meanwhile.
    pub(crate) fn unwatch(&self, turn: u64) {
        let (order, watched) = (Ordering::Relaxed, turn << 1);
        // It was asked, and stays so.
        let _ = self.0.compare_exchange(watched, 0, order, order);
    }

    /// Whether the flag names this turn: it was asked, or is watched.
    #[inline]
    pub(crate) fn names(&self, turn: u64) -> bool {
        self.0.load(Ordering::Relaxed) >> 1 == turn
    }

    /// Whether the request of this turn was asked.
    #[inline]
    pub(crate) fn asks(&self, turn: u64) -> bool {
        self.0.load(Ordering::Relaxed) == turn << 1 | ASKED
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicU64, Ordering};
    use loom::thread;

    use super::PreemptFlag;

    /// The timer core asks turn 1, which may be over, and turn 2, which the worker watches.
    #[test]
    fn a_turn_that_is_watched_and_asked_stays_asked() {
        loom::model(|| {
            let flag = Arc::new(PreemptFlag::new());
            let timer = thread::spawn({
                let flag = flag.clone();
                move || {
                    flag.ask(1);
                    flag.ask(2);
                }
            });
            flag.watch(2);
            assert!(flag.names(2), "turn 1 was asked too late");
            flag.unwatch(2);
            assert!(!flag.asks(3) && !flag.names(3));
            timer.join().unwrap();
            assert!(flag.asks(2), "the watch took it back");
        });
    }

    /// A dispatcher asks turns 1 and 3. A worker tells it, as by a ring, which turn is over.
    #[test]
    fn only_the_turn_that_was_asked_yields() {
        loom::model(|| {
            let flag = Arc::new(PreemptFlag::new());
            let over = Arc::new(AtomicU64::new(0));
            let dispatcher = thread::spawn({
                let (flag, over) = (flag.clone(), over.clone());
                move || {
                    flag.ask(1);
                    while over.load(Ordering::Acquire) < 2 {
                        thread::yield_now();
                    }
                    flag.ask(3);
                }
            });
            // Asked or not, the first turn may end by itself.
            let _ = flag.asks(1);
            assert!(!flag.asks(2), "the request to the first turn came to the second");
            over.store(2, Ordering::Release);
            while !flag.asks(3) {
                thread::yield_now();
            }
            assert!(!flag.asks(1) && !flag.asks(4));
            dispatcher.join().unwrap();
        });
    }
}
