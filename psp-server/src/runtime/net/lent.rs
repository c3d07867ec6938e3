//! The tasks that workers hold.

use psp_policy::WorkerId;

use crate::runtime::channel::message::Report;

/// See the [module](self).
pub(super) struct Lent {
    count: usize,
    /// Per worker: those that run or wait for their turn, and do not wait for anything else.
    runnable: Vec<i32>,
}

impl Lent {
    /// So many workers, which hold none.
    pub(super) fn new(workers: usize) -> Self {
        Self { count: 0, runnable: vec![0; workers] }
    }

    /// How many there are.
    #[inline]
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Whether the worker at `index` holds one that runs, or waits for its turn.
    pub(super) fn has_runnable(&self, index: usize) -> bool {
        self.runnable[index] > 0
    }

    /// A turn begins on `worker`, which did not hold the task before if that `is_new`.
    #[inline]
    pub(super) fn begins(&mut self, worker: WorkerId, is_new: bool) {
        self.count += usize::from(is_new);
        self.runnable[worker.index()] += i32::from(is_new);
    }

    /// One that `worker` holds was woken.
    pub(super) fn woken(&mut self, worker: WorkerId) {
        self.runnable[worker.index()] += 1;
    }

    /// A turn on `worker` has ended.
    #[inline]
    pub(super) fn ended<T>(&mut self, worker: WorkerId, report: &Report<T>) {
        let is_completed = matches!(report, Report::Completed(_));
        self.count -= usize::from(is_completed);
        let is_runnable = !is_completed && !matches!(report, Report::Blocked { .. });
        self.runnable[worker.index()] -= i32::from(!is_runnable);
    }

    /// No worker holds a task that `worker` held, until another turn of it begins.
    pub(super) fn gives_up(&mut self, worker: WorkerId) {
        self.count -= 1;
        self.runnable[worker.index()] -= 1;
    }
}
