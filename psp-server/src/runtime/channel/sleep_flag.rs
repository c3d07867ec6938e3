//! The flag between a thread that is about to sleep and threads that may have work for it.
//!
//! ```text
//!   sleeper:  announce ── fence ── look for work ── none: sleep
//!   others:   publish work ── fence ── take: was it announced? ── yes: wake it
//! ```
//!
//! The two fences order "announce, look" against "publish, look": at least one side sees the other, so no work
//! waits for a sleeper that is not woken. Checked by loom, see the tests.
//!
//! A fence costs as much as a scheduling decision. A thread that publishes work for several sleepers needs one
//! fence for all of them ([`fence_after_publishing`]). Before the fence it may wake the sleepers that it
//! already sees asleep.

#[cfg(loom)]
use loom::sync::atomic::{AtomicBool, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, Ordering, fence};

/// See the [module](self). The flag has a cache line to itself: both sides read it far more often than they
/// write it.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct SleepFlag(AtomicBool);

/// Orders all work that was published before against [`SleepFlag::take_seen`] of any flag after.
#[inline]
pub(crate) fn fence_after_publishing() {
    fence(Ordering::SeqCst);
}

impl SleepFlag {
    /// The caller sleeps unless it finds work now.
    pub(crate) fn announce(&self) {
        self.0.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// The caller is awake.
    pub(crate) fn clear(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    /// Callers have published work before. Returns whether the caller must wake the sleeper: `true` for one
    /// caller only.
    #[inline]
    pub(crate) fn take(&self) -> bool {
        fence_after_publishing();
        self.take_seen()
    }

    /// As [`take`](Self::take), but may miss a thread that is just falling asleep, unless
    /// [`fence_after_publishing`] was called since the work was published.
    #[inline]
    pub(crate) fn take_seen(&self) -> bool {
        self.0.load(Ordering::Relaxed) && self.0.swap(false, Ordering::Relaxed)
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use loom::thread;

    use super::{SleepFlag, fence_after_publishing};

    #[test]
    fn one_fence_after_all_work_was_published_is_enough() {
        loom::model(|| {
            let flags = Arc::new([SleepFlag::default(), SleepFlag::default()]);
            let work = Arc::new([AtomicBool::new(false), AtomicBool::new(false)]);
            let publisher = thread::spawn({
                let (flags, work) = (flags.clone(), work.clone());
                move || {
                    let mut woken = [0, 1].map(|index| {
                        work[index].store(true, Ordering::Release);
                        flags[index].take_seen()
                    });
                    fence_after_publishing();
                    for (woken, flag) in woken.iter_mut().zip(&*flags) {
                        let is_seen = flag.take_seen();
                        assert!(!(is_seen && *woken), "one sleeper is woken once");
                        *woken |= is_seen;
                    }
                    woken
                }
            });
            let found = [0, 1].map(|index| {
                flags[index].announce();
                work[index].load(Ordering::Acquire)
            });
            let woken = publisher.join().unwrap();
            for (found, woken) in found.into_iter().zip(woken) {
                assert!(found || woken, "work waits for a sleeper");
            }
        });
    }

    #[test]
    fn work_is_found_or_the_sleeper_is_woken() {
        loom::model(|| {
            let flag = Arc::new(SleepFlag::default());
            let work = Arc::new([AtomicBool::new(false), AtomicBool::new(false)]);
            let wakes = Arc::new(AtomicUsize::new(0));
            let workers = [0, 1].map(|index| {
                let (flag, work, wakes) = (flag.clone(), work.clone(), wakes.clone());
                thread::spawn(move || {
                    work[index].store(true, Ordering::Release);
                    if flag.take() {
                        wakes.fetch_add(1, Ordering::Relaxed);
                    }
                })
            });
            flag.announce();
            let found = [0, 1].map(|index| work[index].load(Ordering::Acquire));
            for worker in workers {
                worker.join().unwrap();
            }
            let wakes = wakes.load(Ordering::Relaxed);
            assert!(wakes <= 1, "one sleeper is woken once");
            assert!(found == [true, true] || wakes == 1, "work waits for a sleeper");
        });
    }
}
