//! Which workers sleep, and who wakes them.
//!
//! ```text
//!   worker 2    announce: bit 2 ── fence ── looks everywhere once more ── nothing: sleeps
//!   worker 0    puts a request ── fence ── wake: takes bit 2 away, rings its doorbell
//! ```
//!
//! The bits are in one word for 64 workers, so a worker that begins a request reads one cache line to know that
//! no worker sleeps. Whoever takes a bit away wakes that worker, and no other thread does. The two fences are as those
//! of [`SleepFlag`](crate::runtime::channel::sleep_flag::SleepFlag): checked by loom.
//!
//! A worker that was woken for something may find something else first. Then it passes the wake on: it
//! [looks](Sleepers::was_woken) for what else waits, and wakes the next.

#[cfg(loom)]
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use psp_policy::WorkerId;
#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

const BITS: usize = u64::BITS as usize;

/// A cache line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Apart<T>(T);

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Sleepers {
    words: Box<[Apart<AtomicU64>]>,
    /// Per worker: it was woken, and has begun nothing since.
    woken: Box<[Apart<AtomicBool>]>,
}

impl Sleepers {
    /// So many workers, which are awake.
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            words: (0..workers.div_ceil(BITS)).map(|_| Apart::default()).collect(),
            woken: (0..workers).map(|_| Apart::default()).collect(),
        }
    }

    const fn place(worker: WorkerId) -> (usize, u64) {
        (worker.index() / BITS, 1 << (worker.index() % BITS))
    }

    /// `worker` sleeps unless it finds something now.
    pub(crate) fn announce(&self, worker: WorkerId) {
        let (word, bit) = Self::place(worker);
        self.words[word].0.fetch_or(bit, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// `worker` is awake.
    pub(crate) fn awake(&self, worker: WorkerId) {
        let (word, bit) = Self::place(worker);
        if self.words[word].0.load(Ordering::Relaxed) & bit != 0 {
            self.words[word].0.fetch_and(!bit, Ordering::Relaxed);
        }
    }

    /// Requests were put where others find them. Returns a worker that the caller must wake, of those that sleep and
    /// `may` take one.
    pub(crate) fn take(&self, may: impl Fn(WorkerId) -> bool) -> Option<WorkerId> {
        fence(Ordering::SeqCst);
        for (index, word) in self.words.iter().enumerate() {
            let mut left = word.0.load(Ordering::Relaxed);
            while left != 0 {
                let bit = left & left.wrapping_neg();
                left &= !bit;
                let worker = WorkerId((index * BITS) as u32 + bit.trailing_zeros());
                if may(worker) && word.0.fetch_and(!bit, Ordering::Relaxed) & bit != 0 {
                    self.woken[worker.index()].0.store(true, Ordering::Relaxed);
                    return Some(worker);
                }
            }
        }
        None
    }

    /// Whether `worker` was woken since it asked last.
    #[inline]
    pub(crate) fn was_woken(&self, worker: WorkerId) -> bool {
        let woken = &self.woken[worker.index()].0;
        woken.load(Ordering::Relaxed) && woken.swap(false, Ordering::Relaxed)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_sleeper_is_taken_once_and_knows_it() {
        let sleepers = Sleepers::new(100);
        let all = |_| true;
        assert_eq!(sleepers.take(all), None);
        for worker in [3, 70, 99].map(WorkerId) {
            sleepers.announce(worker);
        }
        assert_eq!(sleepers.take(|worker| worker.0 > 90), Some(WorkerId(99)));
        assert_eq!(sleepers.take(all), Some(WorkerId(3)));
        sleepers.awake(WorkerId(70));
        assert_eq!(sleepers.take(all), None);
        assert!(sleepers.was_woken(WorkerId(99)) && !sleepers.was_woken(WorkerId(99)));
        assert!(!sleepers.was_woken(WorkerId(70)), "it woke by itself");
    }
}
