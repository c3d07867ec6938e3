//! Which thread serves each worker, which threads are spare, and how many are suspended with their tasks.
//!
//! ```text
//!   thread 1   worker 0: task A ──┬─ checkpoint: suspended ───────────────┬─ checkpoint returns: task A ──►
//!   thread 2   spare              └─ worker 0: task B ── end of task B ───┘ spare
//! ```
//!
//! A task stays on its thread, so what changes hands is the worker. A thread whose task was
//! [handed off](crate::hand_off), or had not ended when the pool was given up, is *relieved*: it serves no worker, and
//! ends with its task.

use std::sync::Arc;

use psp_policy::{RequestType, WorkerId};

use crate::pool_thread::PoolThread;

/// The shortest time between two looks at a turn that has not begun, in nanoseconds.
const LOOK_NS: u64 = 50_000;

/// A decision to have the task on a worker yield.
#[derive(Debug, Clone, Copy)]
struct Stop {
    /// The time that its turn must have had.
    quantum_ns: u64,
    /// When it was decided, or last looked at.
    seen_ns: u64,
    /// The turn has had its time, and the task was asked.
    is_asked: bool,
}

#[derive(Debug)]
struct WorkerState {
    thread: Arc<PoolThread>,
    /// The type of what it runs, and since when.
    runs: Option<(RequestType, u64)>,
    stop: Option<Stop>,
}

impl WorkerState {
    /// When the task is to be asked to yield, if it was not asked before. A turn that has not begun is looked at
    /// when it could have had its time.
    fn due_ns(&self) -> Option<u64> {
        let stop = self.stop.filter(|stop| !stop.is_asked)?;
        let due_ns = match self.runs {
            Some((_, since_ns)) => since_ns.saturating_add(stop.quantum_ns),
            None => stop.seen_ns.saturating_add(stop.quantum_ns.max(LOOK_NS)),
        };
        Some(due_ns)
    }

    /// Its turn is over.
    fn ends(&mut self) {
        self.runs = None;
        self.stop = None;
        self.thread.set_asked(false);
    }
}

/// What a task does that was asked to yield.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It yields.
    GivesWay,
    /// It would, if there were a spare thread to serve its worker.
    WantsSpare,
    /// It runs on, as there are as many suspended tasks as there may be.
    Misses,
    /// It runs on: it need not yield any more.
    RunsOn,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct WorkerThreads {
    workers: Box<[WorkerState]>,
    spares: Vec<Arc<PoolThread>>,
    suspended: usize,
    suspended_max: usize,
    relieved: usize,
    /// Stops whose turns have not had their time.
    early: usize,
}

impl WorkerThreads {
    /// So many workers, each with a thread that is to be started.
    pub(crate) fn new(workers: usize, suspended_max: usize) -> Self {
        let state = |worker| {
            let thread = Arc::new(PoolThread::default());
            thread.give_order(WorkerId(worker));
            let (runs, stop) = (None, None);
            WorkerState { thread, runs, stop }
        };
        Self {
            workers: (0..).map(state).take(workers).collect(),
            spares: Vec::new(),
            suspended: 0,
            suspended_max,
            relieved: 0,
            early: 0,
        }
    }

    fn state_of(&mut self, worker: WorkerId) -> &mut WorkerState {
        &mut self.workers[worker.index()]
    }

    /// The threads that serve workers.
    pub(crate) fn of_workers(&self) -> impl Iterator<Item = &Arc<PoolThread>> {
        self.workers.iter().map(|state| &state.thread)
    }

    /// The thread that serves a worker, or did until now.
    pub(crate) fn thread_of(&self, worker: WorkerId) -> &PoolThread {
        &self.workers[worker.index()].thread
    }

    fn serves(&self, worker: WorkerId, thread: &Arc<PoolThread>) -> bool {
        Arc::ptr_eq(&self.workers[worker.index()].thread, thread)
    }

    /// A worker begins, or goes on with, a task of this type.
    pub(crate) fn begins(&mut self, worker: WorkerId, request_type: RequestType, now_ns: u64) {
        self.state_of(worker).runs = Some((request_type, now_ns));
    }

    /// A thread polls a task no longer. Returns whether it serves the worker yet.
    pub(crate) fn ends(&mut self, worker: WorkerId, thread: &Arc<PoolThread>) -> bool {
        let serves = self.serves(worker, thread);
        match serves {
            true => self.end_turn(worker),
            false => self.relieved -= 1,
        }
        serves
    }

    fn end_turn(&mut self, worker: WorkerId) {
        let state = self.state_of(worker);
        let was_early = state.due_ns().is_some();
        state.ends();
        self.early -= usize::from(was_early);
    }

    /// Tasks that run without a worker.
    pub(crate) const fn relieved(&self) -> usize {
        self.relieved
    }

    /// The worker whose task runs for the longest time, and since when.
    pub(crate) fn longest(&self) -> Option<(u64, WorkerId)> {
        let workers = (0..).map(WorkerId).zip(&self.workers);
        let since = workers.filter_map(|(worker, state)| Some((state.runs?.1, worker)));
        since.min_by_key(|(since_ns, _)| *since_ns)
    }

    /// The task on a worker shall yield once its turn has had its time.
    pub(crate) fn stop(&mut self, now_ns: u64, worker: WorkerId, quantum_ns: u64) {
        let state = self.state_of(worker);
        if state.stop.is_none() {
            state.stop = Some(Stop { quantum_ns, seen_ns: now_ns, is_asked: false });
            self.early += 1;
        }
        self.ask_due(now_ns);
    }

    /// When a task is to be asked to yield.
    pub(crate) fn due_ns(&self) -> Option<u64> {
        let due = self.workers.iter().filter_map(WorkerState::due_ns);
        due.min().filter(|_| self.early > 0)
    }

    /// Asks the tasks to yield whose turns have had their time.
    pub(crate) fn ask_due(&mut self, now_ns: u64) {
        if self.early == 0 {
            return;
        }
        for state in &mut self.workers {
            if state.due_ns().is_none_or(|due_ns| due_ns > now_ns) {
                continue;
            }
            let Some(stop) = &mut state.stop else {
                continue;
            };
            stop.seen_ns = now_ns;
            stop.is_asked = state.runs.is_some();
            self.early -= usize::from(stop.is_asked);
            state.thread.set_asked(stop.is_asked);
        }
    }

    /// What the task on a thread does that finds itself asked to yield.
    pub(crate) fn answer(&self, worker: WorkerId, thread: &Arc<PoolThread>) -> Answer {
        let is_asked = |stop: Stop| stop.is_asked;
        let state = &self.workers[worker.index()];
        if !self.serves(worker, thread) || !state.stop.is_some_and(is_asked) {
            thread.set_asked(false);
            Answer::RunsOn
        } else if self.suspended >= self.suspended_max {
            // It is asked again when there is room.
            thread.set_asked(false);
            Answer::Misses
        } else if self.spares.is_empty() {
            Answer::WantsSpare
        } else {
            Answer::GivesWay
        }
    }

    /// The task on a worker yields, with its thread. Another thread has to [fill](Self::fill) its place.
    pub(crate) fn suspends(&mut self, worker: WorkerId) {
        self.end_turn(worker);
        self.suspended += 1;
    }

    /// The task on a worker goes on without it, on its thread. Another has to [fill](Self::fill) its place. Returns the
    /// task's type, and since when it ran.
    pub(crate) fn relieves(&mut self, worker: WorkerId) -> Option<(RequestType, u64)> {
        let runs = self.state_of(worker).runs?;
        self.end_turn(worker);
        self.relieved += 1;
        Some(runs)
    }

    /// A suspended task goes on without a worker.
    pub(crate) const fn lets_go(&mut self) {
        self.suspended -= 1;
        self.relieved += 1;
    }

    /// A spare thread serves a worker from now on. It has to be rung.
    pub(crate) fn fill(&mut self, worker: WorkerId) -> Option<Arc<PoolThread>> {
        let spare = self.spares.pop()?;
        self.put(worker, &spare);
        Some(spare)
    }

    /// The thread of a suspended task serves a worker from now on, and goes on with the task. It has to be rung.
    pub(crate) fn resumes(&mut self, worker: WorkerId, thread: &Arc<PoolThread>) {
        self.suspended -= 1;
        self.put(worker, thread);
        // One of those that found no room may yield now.
        for state in &self.workers {
            let is_asked = state.stop.is_some_and(|stop| stop.is_asked);
            state.thread.set_asked(is_asked);
        }
    }

    fn put(&mut self, worker: WorkerId, thread: &Arc<PoolThread>) {
        self.state_of(worker).thread = thread.clone();
        thread.give_order(worker);
    }

    pub(crate) const fn has_spare(&self) -> bool {
        !self.spares.is_empty()
    }

    /// A thread was started to be spare.
    pub(crate) fn add_spare(&mut self, thread: Arc<PoolThread>) {
        self.spares.push(thread);
    }

    /// A thread that serves no worker any more would be spare. Returns whether it is: of those that wait there are as
    /// many as workers at most.
    pub(crate) fn keeps(&mut self, thread: &Arc<PoolThread>) -> bool {
        let keeps = self.spares.len() < self.workers.len();
        if keeps {
            self.spares.push(thread.clone());
        }
        keeps
    }

    /// Spare threads, which are no more: the pool has ended.
    pub(crate) fn take_spares(&mut self) -> impl Iterator<Item = Arc<PoolThread>> {
        self.spares.drain(..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPE: RequestType = RequestType::new(3);
    const WORKERS: [WorkerId; 2] = [WorkerId(0), WorkerId(1)];

    fn threads(suspended_max: usize) -> (WorkerThreads, [Arc<PoolThread>; 2]) {
        let threads = WorkerThreads::new(2, suspended_max);
        let of_workers: Vec<_> = threads.of_workers().cloned().collect();
        (threads, of_workers.try_into().unwrap())
    }

    fn spare(threads: &mut WorkerThreads) -> Arc<PoolThread> {
        let spare = Arc::new(PoolThread::default());
        threads.add_spare(spare.clone());
        spare
    }

    #[test]
    fn a_turn_is_asked_when_it_has_had_its_quantum_and_not_before_it_begins() {
        let (mut threads, [first, _]) = threads(1);
        threads.stop(1_000, WORKERS[0], 100_000);
        assert_eq!(threads.due_ns(), Some(101_000));
        threads.ask_due(101_000);
        assert!(!first.is_asked(), "it has not begun");
        assert_eq!(threads.due_ns(), Some(201_000));
        threads.begins(WORKERS[0], TYPE, 150_000);
        assert_eq!(threads.due_ns(), Some(250_000));
        threads.ask_due(249_999);
        assert!(!first.is_asked());
        threads.ask_due(250_000);
        assert!(first.is_asked());
        assert_eq!(threads.due_ns(), None);
        assert!(threads.ends(WORKERS[0], &first));
        assert!(!first.is_asked());
        assert_eq!(threads.answer(WORKERS[0], &first), Answer::RunsOn);
    }

    #[test]
    fn a_worker_goes_from_thread_to_thread_and_back() {
        let (mut threads, [first, second]) = threads(1);
        for worker in WORKERS {
            threads.begins(worker, TYPE, 0);
            threads.stop(10, worker, 10);
        }
        assert_eq!(threads.answer(WORKERS[0], &first), Answer::WantsSpare);
        let spare = spare(&mut threads);
        assert_eq!(threads.answer(WORKERS[0], &first), Answer::GivesWay);
        threads.suspends(WORKERS[0]);
        assert!(Arc::ptr_eq(&threads.fill(WORKERS[0]).unwrap(), &spare));
        assert_eq!(spare.take_order(), Some(WORKERS[0]));
        assert_eq!(spare.take_order(), None);
        assert_eq!(threads.answer(WORKERS[1], &second), Answer::Misses);
        assert!(!second.is_asked());
        // What the first one does from now on is not the worker's.
        assert_eq!(threads.answer(WORKERS[0], &first), Answer::RunsOn);
        first.take_order();
        threads.resumes(WORKERS[0], &first);
        assert_eq!(first.take_order(), Some(WORKERS[0]));
        assert!(second.is_asked(), "there is room");
        assert!(!first.is_asked());
        assert!(threads.keeps(&spare));
        assert_eq!(threads.answer(WORKERS[1], &second), Answer::GivesWay);
    }

    #[test]
    fn no_more_threads_are_kept_than_there_are_workers() {
        let (mut threads, [first, second]) = threads(4);
        spare(&mut threads);
        assert!(threads.keeps(&first));
        assert!(!threads.keeps(&second));
        assert_eq!(threads.take_spares().count(), 2);
        assert!(!threads.has_spare());
    }

    #[test]
    fn who_was_relieved_serves_no_worker() {
        let (mut threads, [first, _]) = threads(1);
        assert_eq!(threads.relieves(WORKERS[0]), None, "it runs nothing");
        threads.begins(WORKERS[0], TYPE, 5);
        threads.stop(20, WORKERS[0], 10);
        assert!(first.is_asked());
        spare(&mut threads);
        assert_eq!(threads.relieves(WORKERS[0]), Some((TYPE, 5)));
        assert!(!first.is_asked(), "it need not yield any more");
        threads.fill(WORKERS[0]).unwrap();
        assert_eq!(threads.relieved(), 1);
        assert!(!threads.ends(WORKERS[0], &first));
        assert_eq!(threads.relieved(), 0);
    }
}
