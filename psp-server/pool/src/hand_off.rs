//! Tasks that run for too long, and the threads that take their workers' places.
//!
//! ```text
//!   thread 1   worker 0: task ───────────────┬──────────► the rest of the task ──► end
//!   timer             others wait meanwhile  │ has a spare thread, or starts one
//!   thread 2                                 └──────────► worker 0: the next task
//! ```

use psp_policy::WorkerId;

use crate::worker_threads::WorkerThreads;

/// What the timer has to see to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overdue {
    /// The task of this worker runs for too long.
    Now(WorkerId),
    /// There may be one at this time.
    At(u64),
    /// There will not be one until the timer is woken.
    Never,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct HandOffs {
    /// `None` if tasks keep their workers.
    after_ns: Option<u64>,
    /// Most tasks that run without a worker.
    relieved_max: usize,
    timer_sleeps: bool,
}

impl HandOffs {
    pub(crate) const fn new(after_ns: Option<u64>, relieved_max: usize) -> Self {
        Self { after_ns, relieved_max, timer_sleeps: false }
    }

    /// Whether tasks are ever handed off.
    pub(crate) const fn are_wanted(&self) -> bool {
        self.after_ns.is_some()
    }

    fn after_ns(&self, threads: &WorkerThreads, others_wait: bool) -> Option<u64> {
        let can_relieve = others_wait && threads.relieved() < self.relieved_max;
        self.after_ns.filter(|_| can_relieve)
    }

    /// What the timer has to see to.
    pub(crate) fn overdue(&mut self, now_ns: u64, threads: &WorkerThreads, others_wait: bool) -> Overdue {
        let Some(after_ns) = self.after_ns(threads, others_wait) else {
            self.timer_sleeps = true;
            return Overdue::Never;
        };
        let longest = threads.longest();
        let due = longest.map(|(since_ns, worker)| (since_ns.saturating_add(after_ns), worker));
        match due {
            Some((due_ns, worker)) if due_ns <= now_ns => Overdue::Now(worker),
            Some((due_ns, _)) => Overdue::At(due_ns),
            None => Overdue::At(now_ns.saturating_add(after_ns)),
        }
    }

    /// Whether the timer sleeps though it should look again. It does then.
    pub(crate) fn wakes_timer(&mut self, threads: &WorkerThreads, others_wait: bool) -> bool {
        let wakes = self.timer_sleeps && self.after_ns(threads, others_wait).is_some();
        if wakes {
            self.timer_sleeps = false;
        }
        wakes
    }
}

#[cfg(test)]
mod tests {
    use psp_policy::RequestType;

    use super::*;

    const TYPE: RequestType = RequestType::new(3);
    const WORKERS: [WorkerId; 2] = [WorkerId(0), WorkerId(1)];

    fn two_workers() -> (HandOffs, WorkerThreads) {
        (HandOffs::new(Some(1000), 1), WorkerThreads::new(2, 0))
    }

    #[test]
    fn only_a_task_that_is_late_while_others_wait_is_overdue() {
        let (mut hand_offs, mut threads) = two_workers();
        assert_eq!(hand_offs.overdue(0, &threads, false), Overdue::Never);
        assert!(!hand_offs.wakes_timer(&threads, false));
        assert!(hand_offs.wakes_timer(&threads, true));
        assert!(!hand_offs.wakes_timer(&threads, true), "it is awake");
        assert_eq!(hand_offs.overdue(0, &threads, true), Overdue::At(1000));
        threads.begins(WORKERS[0], TYPE, 300);
        threads.begins(WORKERS[1], TYPE, 200);
        assert_eq!(hand_offs.overdue(900, &threads, true), Overdue::At(1200));
        let late = Overdue::Now(WORKERS[1]);
        assert_eq!(hand_offs.overdue(1200, &threads, true), late);
    }

    #[test]
    fn only_so_many_tasks_run_without_a_worker() {
        let (mut hand_offs, mut threads) = two_workers();
        let first = threads.of_workers().next().unwrap().clone();
        threads.begins(WORKERS[0], TYPE, 0);
        let late = Overdue::Now(WORKERS[0]);
        assert_eq!(hand_offs.overdue(5000, &threads, true), late);
        assert_eq!(threads.relieves(WORKERS[0]), Some((TYPE, 0)));
        threads.begins(WORKERS[1], TYPE, 6000);
        assert_eq!(hand_offs.overdue(9000, &threads, true), Overdue::Never);
        assert!(!hand_offs.wakes_timer(&threads, true));
        threads.add_spare(std::sync::Arc::new(crate::pool_thread::PoolThread::default()));
        threads.fill(WORKERS[0]).unwrap();
        assert!(!threads.ends(WORKERS[0], &first), "it serves no worker");
        assert!(hand_offs.wakes_timer(&threads, true));
        let late = Overdue::Now(WORKERS[1]);
        assert_eq!(hand_offs.overdue(9000, &threads, true), late);
    }
}
