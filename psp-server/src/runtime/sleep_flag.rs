//! The flag between one who is about to sleep and others who may have work for it.
//!
//! ```text
//!   sleeper:  announce ── fence ── look for work ── none: sleep
//!   others:   publish work ── fence ── take: was it announced? ── yes: wake it
//! ```
//!
//! The two fences order "announce, look" against "publish, look": at least one side sees the other,
//! so no work waits for a sleeper that nobody wakes. Checked by loom, see the tests.

#[cfg(loom)]
use loom::sync::atomic::{AtomicBool, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, Ordering, fence};

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct SleepFlag(AtomicBool);

impl SleepFlag {
    /// The caller sleeps unless it finds work now.
    pub(super) fn announce(&self) {
        self.0.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// The caller is awake.
    pub(super) fn clear(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    /// To be called after work was published: true when the sleeper must be woken, which is said to
    /// one caller only.
    pub(super) fn take(&self) -> bool {
        fence(Ordering::SeqCst);
        self.0.load(Ordering::Relaxed) && self.0.swap(false, Ordering::Relaxed)
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use loom::thread;

    use super::SleepFlag;

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
            assert!(
                found == [true, true] || wakes == 1,
                "work waits for a sleeper"
            );
        });
    }
}
