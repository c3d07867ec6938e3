//! When a turn began, as its worker announces: words that the dispatcher reads, without a message or a wake-up.
//!
//! ```text
//!   dispatcher    Run ── ring ──► … the worker sleeps, wakes …        Preempt: has turn 7 had its quantum?
//!                                                                        │ reads turn (acquire), began_ns
//!   worker                              takes it up: began_ns, then turn = 7 (release)
//! ```
//!
//! If a quantum ran from the hand-over, a short one would end on a busy machine before the worker woke, and no
//! request would make progress.
//!
//! The dispatcher asks about the turn that it sent last, and the worker announces another only when it was sent
//! one. So the words beside the number of that turn belong to it. Checked by loom.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering};

use crate::runtime::host::scheduling::ThreadClock;

/// How long the dispatcher waits for a thread that does not run, in nanoseconds. The thread may be asleep.
const STARVED_NS_MAX: u64 = 1_000_000;

/// The shortest and the longest time after which a turn that has not begun is checked again, unless its quantum is
/// longer. Each check may wake the thread that makes it, and a worker that sleeps takes 20 us and more to begin.
pub(crate) const LOOK_NS_MIN: u64 = 20_000;
pub(crate) const LOOK_NS_MAX: u64 = 1_000_000;

/// See the [module](self). The worker's active thread writes it.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct TurnStart {
    /// Number of the turn that began last.
    turn: AtomicU64,
    began_ns: AtomicU64,
    /// The thread of the turn, as [`ThreadClock::to_bits`]; 0 if it was running at the announcement.
    thread: AtomicU64,
    /// The time of that thread's clock then.
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
    pub(crate) fn announce_on(&self, turn: u64, now_ns: u64, thread: Option<ThreadClock>) {
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

    /// When the running turn began. For the worker.
    pub(crate) fn began_ns(&self) -> u64 {
        self.began_ns.load(Ordering::Relaxed)
    }

    /// How long the turn of this number, the last one sent, has had the processor, in nanoseconds. `None` if it
    /// has not begun. For the dispatcher.
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

    /// In how many nanoseconds the turn of this number, which was to yield after `quantum_ns` by a decision at
    /// `decided_ns`, may have had them. 0 if it has.
    pub(crate) fn left_ns(&self, turn: u64, quantum_ns: u64, decided_ns: u64, now_ns: u64) -> u64 {
        match self.had_ns(turn, now_ns) {
            Some(had_ns) => quantum_ns.saturating_sub(had_ns),
            None => now_ns.saturating_sub(decided_ns).clamp(LOOK_NS_MIN, LOOK_NS_MAX).max(quantum_ns),
        }
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
        // The thread goes to sleep, and its clock stands still.
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
        assert_eq!(start.had_ns(1, 3 * STARVED_NS_MAX), Some(2 * STARVED_NS_MAX));
        drop(end);
        sleeper.join().unwrap();
        // The kernel forgets a thread some time after it was joined.
        while clock.now_ns().is_some() {
            std::thread::yield_now();
        }
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

    /// A reader that sees a turn's number sees its time, and not the time of the turn before or after.
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
