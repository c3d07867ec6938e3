//! Tasks that run for too long, and the threads that take their workers' places.
//!
//! ```text
//!   thread 1   worker 0: task ───────────────┬──────────► the rest of the task ──► end
//!   timer             others wait meanwhile  │ has a spare thread, or starts one
//!   thread 2                                 └──────────► worker 0: the next task
//! ```

use psp_policy::WorkerId;

use crate::lengths::Lengths;
use crate::waiting::Waiting;
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

/// When a task runs for too long while others wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    /// After twice [what a task takes](Lengths::short_ns) of the shortest type that waits, and [`AFTER_NS_MIN`], unless
    /// the policy has tasks yield.
    ByLength,
    /// After so many nanoseconds.
    Ns(u64),
    /// Tasks keep their workers.
    Never,
}

/// What a thread is worth that is woken, and perhaps started, in nanoseconds.
const AFTER_NS_MIN: u64 = 1_000_000;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct HandOffs {
    after: After,
    /// Per type slot.
    lengths: Box<[Lengths]>,
    /// The policy has tasks yield at checkpoints.
    policy_preempts: bool,
    /// Most tasks that run without a worker.
    relieved_max: usize,
    timer_sleeps: bool,
}

impl HandOffs {
    pub(crate) fn new(after: After, relieved_max: usize, slots: usize) -> Self {
        Self {
            after,
            lengths: vec![Lengths::default(); slots].into(),
            policy_preempts: false,
            relieved_max,
            timer_sleeps: false,
        }
    }

    /// Whether tasks are handed off under some policy.
    pub(crate) fn may_be_wanted(&self) -> bool {
        self.after != After::Never && self.relieved_max > 0
    }

    /// Whether tasks are handed off under the policy in force.
    fn are_wanted(&self) -> bool {
        let are_wanted = match self.after {
            After::ByLength => !self.policy_preempts,
            After::Ns(_) => true,
            After::Never => false,
        };
        are_wanted && self.relieved_max > 0
    }

    /// Another policy is in force, which has tasks yield or not.
    pub(crate) const fn set_policy_preempts(&mut self, policy_preempts: bool) {
        self.policy_preempts = policy_preempts;
    }

    fn can_relieve(&self, threads: &WorkerThreads) -> bool {
        self.are_wanted() && threads.relieved() < self.relieved_max
    }

    /// A task of the type at `slot` has ended.
    pub(crate) fn ended(&mut self, slot: usize, service_ns: u64) {
        self.lengths[slot].add(service_ns);
    }

    /// For how long a task may run.
    fn after_ns(&self, waiting: &Waiting) -> u64 {
        let shortest_ns = || waiting.slots().map(|slot| self.lengths[slot].short_ns()).min();
        match self.after {
            After::ByLength => shortest_ns().map_or(u64::MAX, |ns| ns.saturating_mul(2).max(AFTER_NS_MIN)),
            After::Ns(after_ns) => after_ns,
            After::Never => u64::MAX,
        }
    }

    /// For how long a task may run while these wait; `None` if it keeps its worker.
    fn time_ns(&self, threads: &WorkerThreads, waiting: &Waiting) -> Option<u64> {
        let can_relieve = waiting.any() && self.can_relieve(threads);
        can_relieve.then(|| self.after_ns(waiting))
    }

    /// When the longest task has run for too long.
    pub(crate) fn due_ns(&self, threads: &WorkerThreads, waiting: &Waiting) -> Option<u64> {
        let time_ns = self.time_ns(threads, waiting)?;
        let (since_ns, _) = threads.longest()?;
        Some(since_ns.saturating_add(time_ns))
    }

    /// What the timer has to see to.
    pub(crate) fn overdue(&mut self, now_ns: u64, threads: &WorkerThreads, waiting: &Waiting) -> Overdue {
        let Some(time_ns) = self.time_ns(threads, waiting) else {
            self.timer_sleeps = true;
            return Overdue::Never;
        };
        match threads.longest() {
            Some((since_ns, worker)) => match since_ns.saturating_add(time_ns) {
                due_ns if due_ns <= now_ns => Overdue::Now(worker),
                due_ns => Overdue::At(due_ns),
            },
            None => Overdue::At(now_ns.saturating_add(time_ns)),
        }
    }

    /// Whether the timer sleeps though it should look again. It does then.
    pub(crate) fn wakes_timer(&mut self, threads: &WorkerThreads, others_wait: bool) -> bool {
        let wakes = self.timer_sleeps && others_wait && self.can_relieve(threads);
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
        (HandOffs::new(After::Ns(1000), 1, 1), WorkerThreads::new(2, 0))
    }

    /// A task waits of the only type.
    fn some() -> Waiting {
        let mut waiting = Waiting::new(1);
        waiting.comes(0);
        waiting
    }

    #[test]
    fn only_a_task_that_is_late_while_others_wait_is_overdue() {
        let (mut hand_offs, mut threads) = two_workers();
        assert_eq!(hand_offs.overdue(0, &threads, &Waiting::new(1)), Overdue::Never);
        assert!(!hand_offs.wakes_timer(&threads, false));
        assert!(hand_offs.wakes_timer(&threads, true));
        assert!(!hand_offs.wakes_timer(&threads, true), "it is awake");
        assert_eq!(hand_offs.overdue(0, &threads, &some()), Overdue::At(1000));
        threads.begins(WORKERS[0], TYPE, 300);
        threads.begins(WORKERS[1], TYPE, 200);
        assert_eq!(hand_offs.overdue(900, &threads, &some()), Overdue::At(1200));
        let late = Overdue::Now(WORKERS[1]);
        assert_eq!(hand_offs.overdue(1200, &threads, &some()), late);
    }

    #[test]
    fn only_so_many_tasks_run_without_a_worker() {
        let (mut hand_offs, mut threads) = two_workers();
        let first = threads.of_workers().next().unwrap().clone();
        threads.begins(WORKERS[0], TYPE, 0);
        let late = Overdue::Now(WORKERS[0]);
        assert_eq!(hand_offs.overdue(5000, &threads, &some()), late);
        assert_eq!(threads.relieves(WORKERS[0]), Some((TYPE, 0)));
        threads.begins(WORKERS[1], TYPE, 6000);
        assert_eq!(hand_offs.overdue(9000, &threads, &some()), Overdue::Never);
        assert!(!hand_offs.wakes_timer(&threads, true));
        threads.add_spare(std::sync::Arc::new(crate::pool_thread::PoolThread::default()));
        threads.fill(WORKERS[0]).unwrap();
        assert!(!threads.ends(WORKERS[0], &first), "it serves no worker");
        assert!(hand_offs.wakes_timer(&threads, true));
        let late = Overdue::Now(WORKERS[1]);
        assert_eq!(hand_offs.overdue(9000, &threads, &some()), late);
    }

    #[test]
    fn by_length_a_task_may_run_twice_as_long_as_the_shortest_that_waits() {
        let mut threads = WorkerThreads::new(2, 0);
        threads.begins(WORKERS[0], TYPE, 0);
        threads.begins(WORKERS[1], TYPE, 500);
        for (ended_ns, due_ns) in [(0, AFTER_NS_MIN), (AFTER_NS_MIN / 4, AFTER_NS_MIN), (3_000_000, 6_000_000)] {
            let mut hand_offs = HandOffs::new(After::ByLength, 1, 1);
            hand_offs.ended(0, ended_ns);
            assert_eq!(hand_offs.overdue(due_ns - 1, &threads, &some()), Overdue::At(due_ns));
            assert_eq!(hand_offs.overdue(due_ns, &threads, &some()), Overdue::Now(WORKERS[0]));
            hand_offs.set_policy_preempts(true);
            assert_eq!(hand_offs.overdue(u64::MAX, &threads, &some()), Overdue::Never);
        }
        for mut never in [HandOffs::new(After::Never, 1, 1), HandOffs::new(After::ByLength, 0, 1)] {
            assert!(!never.may_be_wanted());
            assert_eq!(never.overdue(u64::MAX, &threads, &some()), Overdue::Never);
        }
    }
}
