//! When a turn began, as its worker says: words that the dispatcher looks at, no message and no wake.
//!
//! ```text
//!   dispatcher    Run ── ring ──► … the worker sleeps, wakes …        Preempt: has turn 7 had its quantum?
//!                                                                        │ reads turn (acquire), began_ns
//!   worker                              takes it up: began_ns, then turn = 7 (release)
//! ```
//!
//! A quantum that ran from the hand-over would end before the worker woke, where it is short and the
//! machine busy, and no request would get on.
//!
//! The dispatcher asks for the turn that it began last, and the worker writes another only when it was
//! sent one. So what is read beside the number of that turn belongs to it. Checked by loom.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering};

use super::scheduling::ThreadClock;

/// How long a thread is waited for that the kernel does not let run, in nanoseconds. It may well be one
/// that sleeps.
const STARVED_NS_MAX: u64 = 1_000_000;

/// See the [module](self). Written by whoever is the worker.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct TurnStart {
    /// Number of the turn that began last.
    turn: AtomicU64,
    began_ns: AtomicU64,
    /// Which thread runs it, as [`ThreadClock::to_bits`], unless the worker ran when it said so.
    thread: AtomicU64,
    /// What that thread's clock showed then.
    thread_ns: AtomicU64,
}

impl TurnStart {
    pub(crate) fn new() -> Self {
        Self {
            turn: AtomicU64::new(0),
            began_ns: AtomicU64::new(0),
            thread: AtomicU64::new(0),
            thread_ns: AtomicU64::new(0),
        }
    }

    /// The turn of this number begins, on the calling thread.
    pub(crate) fn announce(&self, turn: u64, now_ns: u64) {
        self.publish(turn, now_ns, None);
    }

    /// The turn of this number begins on a thread that the kernel has yet to let run.
    pub(super) fn announce_on(&self, turn: u64, now_ns: u64, thread: Option<ThreadClock>) {
        self.publish(turn, now_ns, thread);
    }

    fn publish(&self, turn: u64, now_ns: u64, thread: Option<ThreadClock>) {
        self.began_ns.store(now_ns, Ordering::Relaxed);
        let bits = thread.map_or(0, ThreadClock::to_bits);
        self.thread.store(bits, Ordering::Relaxed);
        if let Some(thread) = thread {
            let thread_ns = thread.now_ns().unwrap_or(0);
            self.thread_ns.store(thread_ns, Ordering::Relaxed);
        }
        self.turn.store(turn, Ordering::Release);
    }

    /// When the turn that runs began. For the worker.
    pub(crate) fn began_ns(&self) -> u64 {
        self.began_ns.load(Ordering::Relaxed)
    }

    /// How long the turn of this number, the last that was sent, has had the processor, in
    /// nanoseconds. `None` when it has not begun. For the dispatcher.
    pub(crate) fn had_ns(&self, turn: u64, now_ns: u64) -> Option<u64> {
        if self.turn.load(Ordering::Acquire) != turn {
            return None;
        }
        let passed_ns = now_ns.saturating_sub(self.began_ns());
        let thread = ThreadClock::from_bits(self.thread.load(Ordering::Relaxed));
        let Some(ran_ns) = thread.and_then(ThreadClock::now_ns) else {
            return Some(passed_ns);
        };
        let had_ns = ran_ns.saturating_sub(self.thread_ns.load(Ordering::Relaxed));
        Some(had_ns.max(passed_ns.saturating_sub(STARVED_NS_MAX)))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_turn_has_the_time_since_it_began_and_none_before() {
        let start = TurnStart::new();
        assert_eq!(start.had_ns(1, 50), None);
        start.announce(1, 100);
        assert_eq!(start.had_ns(1, 90), Some(0), "the reader's clock is older");
        assert_eq!(start.had_ns(1, 130), Some(30));
        assert_eq!(start.had_ns(2, 130), None, "the next one has not begun");
        start.announce(2, 200);
        assert_eq!((start.had_ns(2, 205), start.began_ns()), (Some(5), 200));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_thread_that_does_not_run_is_waited_for_and_not_for_ever() {
        let start = TurnStart::new();
        let (sender, receiver) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let sleeper = std::thread::spawn(move || {
            sender.send(ThreadClock::of_this_thread()).unwrap();
            let _ = ended.recv();
        });
        let thread = receiver.recv().unwrap();
        let clock = thread.unwrap();
        // It goes to sleep, and its clock stands still.
        let mut before_ns = clock.now_ns().unwrap();
        let stands = |before_ns: &mut u64| {
            std::thread::yield_now();
            let now_ns = clock.now_ns().unwrap();
            now_ns == std::mem::replace(before_ns, now_ns)
        };
        let mut still = 0;
        while still < 1_000 {
            still = if stands(&mut before_ns) { still + 1 } else { 0 };
        }
        start.announce_on(1, 0, thread);
        assert_eq!(start.had_ns(1, STARVED_NS_MAX), Some(0));
        assert_eq!(
            start.had_ns(1, 3 * STARVED_NS_MAX),
            Some(2 * STARVED_NS_MAX)
        );
        drop(end);
        sleeper.join().unwrap();
        assert_eq!(start.had_ns(1, 7), Some(7), "it is no more");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_thread_that_runs_has_had_what_its_clock_says() {
        let start = TurnStart::new();
        let thread = ThreadClock::of_this_thread();
        start.announce_on(1, 0, thread);
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while start.had_ns(1, 1) < Some(10_000) {
            assert!(std::time::Instant::now() < deadline);
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicU64, Ordering};
    use loom::thread;

    use super::TurnStart;

    /// Whoever sees a turn's number sees its time, and neither the time before nor the next one's.
    #[test]
    fn the_number_of_a_turn_comes_with_its_time() {
        loom::model(|| {
            let start = Arc::new(TurnStart::new());
            let sent = Arc::new(AtomicU64::new(1));
            let worker = {
                let (start, sent) = (start.clone(), sent.clone());
                thread::spawn(move || {
                    start.announce(1, 10);
                    while sent.load(Ordering::Acquire) < 2 {
                        thread::yield_now();
                    }
                    start.announce(2, 20);
                })
            };
            assert!(matches!(start.had_ns(1, 100), None | Some(90)));
            assert_eq!(start.had_ns(2, 100), None, "it was not sent");
            sent.store(2, Ordering::Release);
            assert!(matches!(start.had_ns(2, 100), None | Some(80)));
            worker.join().unwrap();
            assert_eq!(start.had_ns(2, 100), Some(80));
        });
    }
}
