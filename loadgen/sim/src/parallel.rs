//! Runs independent jobs on several threads.

use std::num::NonZeroUsize;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Cores that this process may use.
#[must_use]
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// Calls `work` for each of `jobs` on at most `threads` threads. Returns the results in the order
/// of the jobs. A thread that finishes a job takes the next one in order.
///
/// # Panics
///
/// When `work` panics.
pub fn map<Job: Sync, Out: Send + Sync>(jobs: &[Job], threads: usize, work: impl Fn(&Job) -> Out + Sync) -> Vec<Out> {
    let slots: Vec<OnceLock<Out>> = jobs.iter().map(|_| OnceLock::new()).collect();
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..threads.clamp(1, jobs.len().max(1)) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let (Some(job), Some(slot)) = (jobs.get(index), slots.get(index)) else {
                        break;
                    };
                    slot.get_or_init(|| work(job));
                }
            });
        }
    });
    let done = |slot: OnceLock<Out>| slot.into_inner().expect("every job was taken once");
    slots.into_iter().map(done).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn results_are_in_the_order_of_the_jobs() {
        let jobs: Vec<u64> = (0..1_000).collect();
        let doubled: Vec<u64> = jobs.iter().map(|job| job * 2).collect();
        for threads in [0, 1, 3, 5_000] {
            assert_eq!(map(&jobs, threads, |job| job * 2), doubled);
        }
        assert!(map(&[], 4, |job: &u64| *job).is_empty());
    }

    #[test]
    fn jobs_run_at_the_same_time() {
        // The barrier opens only when four jobs wait at it.
        let barrier = Barrier::new(4);
        let leaders = map(&[(); 4], 4, |()| barrier.wait().is_leader());
        assert_eq!(leaders.iter().filter(|leader| **leader).count(), 1);
    }
}
