//! The flag by which a dispatcher asks a worker's request to give way.
//!
//! ```text
//!   dispatcher:  begins turn 7 … asks 7            the flag holds 7 from here on
//!   worker:      … turn 7: checkpoint sees 7 ── yields
//!                … turn 8: checkpoint sees 7 ── goes on: that was meant for turn 7
//! ```
//!
//! Turns are numbered from 1, and no number is used twice. So the flag is never reset, and a request that was
//! over before it was asked to give way costs its successor nothing.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering};

/// See the [module](self). The dispatcher is the only writer, or on a thread that is its own dispatcher that thread.
///
/// Relaxed accesses are enough: the flag guards no other data, which travels by the rings.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct PreemptFlag(AtomicU64);

impl PreemptFlag {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Asks the request of this turn to give way.
    pub(crate) fn ask(&self, turn: u64) {
        self.0.store(turn, Ordering::Relaxed);
    }

    /// Whether the request of this turn was asked.
    #[inline]
    pub(crate) fn names(&self, turn: u64) -> bool {
        self.0.load(Ordering::Relaxed) == turn
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicU64, Ordering};
    use loom::thread;

    use super::PreemptFlag;

    /// A dispatcher asks turns 1 and 3. A worker tells it, as by a ring, which turn is over.
    #[test]
    fn only_the_turn_that_was_asked_gives_way() {
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
            let _ = flag.names(1);
            assert!(
                !flag.names(2),
                "the request to the first turn came to the second"
            );
            over.store(2, Ordering::Release);
            while !flag.names(3) {
                thread::yield_now();
            }
            assert!(!flag.names(1) && !flag.names(4));
            dispatcher.join().unwrap();
        });
    }
}
