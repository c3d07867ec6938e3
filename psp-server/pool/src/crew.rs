//! Which thread serves each worker, which threads are spare, and how many are suspended with their tasks.
//!
//! ```text
//!   thread 1   worker 0: task A ──┬─ checkpoint: suspended ───────────────┬─ checkpoint returns: task A ──►
//!   thread 2   spare              └─ worker 0: task B ── end of task B ───┘ spare
//! ```
//!
//! A task stays on its thread, so what changes hands is the worker. A thread whose task was
//! [handed off](crate::hand_off), or had not ended when the pool was given up, is *relieved*: it serves no worker, and ends
//! with its task.

use std::sync::Arc;

use psp_policy::{RequestType, WorkerId};

use crate::carrier::Carrier;

/// The shortest time between two looks at a turn that has not begun, in nanoseconds.
const LOOK_NS: u64 = 50_000;

/// A decision to have the task on a worker give way.
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
struct Post {
    carrier: Arc<Carrier>,
    /// The type of what it runs, and since when.
    runs: Option<(RequestType, u64)>,
    stop: Option<Stop>,
}

impl Post {
    /// When the task is to be asked to give way, if it was not asked before. A turn that has not begun is looked at when
    /// it could have had its time.
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
        self.carrier.set_asked(false);
    }
}

/// What a task does that was asked to give way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It gives way.
    GivesWay,
    /// It would, if there were a spare thread to serve its worker.
    WantsSpare,
    /// It runs on, as there are as many suspended tasks as there may be.
    Misses,
    /// It runs on: it need not give way any more.
    RunsOn,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Crew {
    posts: Box<[Post]>,
    spares: Vec<Arc<Carrier>>,
    suspended: usize,
    suspended_max: usize,
    relieved: usize,
    /// Stops whose turns have not had their time.
    early: usize,
}

impl Crew {
    /// So many workers, each with a thread that is to be started.
    pub(crate) fn new(workers: usize, suspended_max: usize) -> Self {
        let post = |worker| {
            let carrier = Arc::new(Carrier::default());
            carrier.give_order(WorkerId(worker));
            let (runs, stop) = (None, None);
            Post {
                carrier,
                runs,
                stop,
            }
        };
        Self {
            posts: (0..).map(post).take(workers).collect(),
            spares: Vec::new(),
            suspended: 0,
            suspended_max,
            relieved: 0,
            early: 0,
        }
    }

    fn post(&mut self, worker: WorkerId) -> &mut Post {
        &mut self.posts[worker.index()]
    }

    /// The threads that serve workers.
    pub(crate) fn carriers(&self) -> impl Iterator<Item = &Arc<Carrier>> {
        self.posts.iter().map(|post| &post.carrier)
    }

    fn serves(&self, worker: WorkerId, carrier: &Arc<Carrier>) -> bool {
        Arc::ptr_eq(&self.posts[worker.index()].carrier, carrier)
    }

    /// A worker begins, or goes on with, a task of this type.
    pub(crate) fn begins(&mut self, worker: WorkerId, request_type: RequestType, now_ns: u64) {
        self.post(worker).runs = Some((request_type, now_ns));
    }

    /// A thread polls a task no longer. Returns whether it serves the worker yet.
    pub(crate) fn ends(&mut self, worker: WorkerId, carrier: &Arc<Carrier>) -> bool {
        let serves = self.serves(worker, carrier);
        match serves {
            true => self.end_turn(worker),
            false => self.relieved -= 1,
        }
        serves
    }

    fn end_turn(&mut self, worker: WorkerId) {
        let post = self.post(worker);
        let was_early = post.due_ns().is_some();
        post.ends();
        self.early -= usize::from(was_early);
    }

    /// Tasks that run without a worker.
    pub(crate) const fn relieved(&self) -> usize {
        self.relieved
    }

    /// The worker whose task runs for the longest time, and since when.
    pub(crate) fn longest(&self) -> Option<(u64, WorkerId)> {
        let posts = (0..).map(WorkerId).zip(&self.posts);
        let since = posts.filter_map(|(worker, post)| Some((post.runs?.1, worker)));
        since.min_by_key(|(since_ns, _)| *since_ns)
    }

    /// The task on a worker shall give way once its turn has had its time.
    pub(crate) fn stop(&mut self, now_ns: u64, worker: WorkerId, quantum_ns: u64) {
        let post = self.post(worker);
        if post.stop.is_none() {
            post.stop = Some(Stop {
                quantum_ns,
                seen_ns: now_ns,
                is_asked: false,
            });
            self.early += 1;
        }
        self.ask_due(now_ns);
    }

    /// When a task is to be asked to give way.
    pub(crate) fn due_ns(&self) -> Option<u64> {
        let due = self.posts.iter().filter_map(Post::due_ns);
        due.min().filter(|_| self.early > 0)
    }

    /// Asks the tasks to give way whose turns have had their time.
    pub(crate) fn ask_due(&mut self, now_ns: u64) {
        if self.early == 0 {
            return;
        }
        for post in &mut self.posts {
            if post.due_ns().is_none_or(|due_ns| due_ns > now_ns) {
                continue;
            }
            let Some(stop) = &mut post.stop else { continue };
            stop.seen_ns = now_ns;
            stop.is_asked = post.runs.is_some();
            self.early -= usize::from(stop.is_asked);
            post.carrier.set_asked(stop.is_asked);
        }
    }

    /// What the task on a thread does that finds itself asked to give way.
    pub(crate) fn answer(&self, worker: WorkerId, carrier: &Arc<Carrier>) -> Answer {
        let is_asked = |stop: Stop| stop.is_asked;
        let post = &self.posts[worker.index()];
        if !self.serves(worker, carrier) || !post.stop.is_some_and(is_asked) {
            carrier.set_asked(false);
            Answer::RunsOn
        } else if self.suspended >= self.suspended_max {
            // It is asked again when there is room.
            carrier.set_asked(false);
            Answer::Misses
        } else if self.spares.is_empty() {
            Answer::WantsSpare
        } else {
            Answer::GivesWay
        }
    }

    /// The task on a worker gives way, with its thread. Another thread has to [fill](Self::fill) its place.
    pub(crate) fn suspends(&mut self, worker: WorkerId) {
        self.end_turn(worker);
        self.suspended += 1;
    }

    /// The task on a worker goes on without it, on its thread. Another has to [fill](Self::fill) its place. Returns the
    /// task's type, and since when it ran.
    pub(crate) fn relieves(&mut self, worker: WorkerId) -> Option<(RequestType, u64)> {
        let runs = self.post(worker).runs?;
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
    pub(crate) fn fill(&mut self, worker: WorkerId) -> Option<Arc<Carrier>> {
        let spare = self.spares.pop()?;
        self.put(worker, &spare);
        Some(spare)
    }

    /// The thread of a suspended task serves a worker from now on, and goes on with the task. It has to be rung.
    pub(crate) fn resumes(&mut self, worker: WorkerId, carrier: &Arc<Carrier>) {
        self.suspended -= 1;
        self.put(worker, carrier);
        // One of those that found no room may give way now.
        for post in &self.posts {
            let is_asked = post.stop.is_some_and(|stop| stop.is_asked);
            post.carrier.set_asked(is_asked);
        }
    }

    fn put(&mut self, worker: WorkerId, carrier: &Arc<Carrier>) {
        self.post(worker).carrier = carrier.clone();
        carrier.give_order(worker);
    }

    pub(crate) const fn has_spare(&self) -> bool {
        !self.spares.is_empty()
    }

    /// A thread was started to be spare.
    pub(crate) fn add_spare(&mut self, carrier: Arc<Carrier>) {
        self.spares.push(carrier);
    }

    /// A thread that serves no worker any more would be spare. Returns whether it is: of those that wait there are as many
    /// as workers at most.
    pub(crate) fn keeps(&mut self, carrier: &Arc<Carrier>) -> bool {
        let keeps = self.spares.len() < self.posts.len();
        if keeps {
            self.spares.push(carrier.clone());
        }
        keeps
    }

    /// Spare threads, which are no more: the pool has ended.
    pub(crate) fn take_spares(&mut self) -> impl Iterator<Item = Arc<Carrier>> {
        self.spares.drain(..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPE: RequestType = RequestType::new(3);
    const WORKERS: [WorkerId; 2] = [WorkerId(0), WorkerId(1)];

    fn crew(suspended_max: usize) -> (Crew, [Arc<Carrier>; 2]) {
        let crew = Crew::new(2, suspended_max);
        let carriers: Vec<_> = crew.carriers().cloned().collect();
        (crew, carriers.try_into().unwrap())
    }

    fn spare(crew: &mut Crew) -> Arc<Carrier> {
        let spare = Arc::new(Carrier::default());
        crew.add_spare(spare.clone());
        spare
    }

    #[test]
    fn a_turn_is_asked_when_it_has_had_its_quantum_and_not_before_it_begins() {
        let (mut crew, [first, _]) = crew(1);
        crew.stop(1_000, WORKERS[0], 100_000);
        assert_eq!(crew.due_ns(), Some(101_000));
        crew.ask_due(101_000);
        assert!(!first.is_asked(), "it has not begun");
        assert_eq!(crew.due_ns(), Some(201_000));
        crew.begins(WORKERS[0], TYPE, 150_000);
        assert_eq!(crew.due_ns(), Some(250_000));
        crew.ask_due(249_999);
        assert!(!first.is_asked());
        crew.ask_due(250_000);
        assert!(first.is_asked());
        assert_eq!(crew.due_ns(), None);
        assert!(crew.ends(WORKERS[0], &first));
        assert!(!first.is_asked());
        assert_eq!(crew.answer(WORKERS[0], &first), Answer::RunsOn);
    }

    #[test]
    fn a_worker_goes_from_thread_to_thread_and_back() {
        let (mut crew, [first, second]) = crew(1);
        for worker in WORKERS {
            crew.begins(worker, TYPE, 0);
            crew.stop(10, worker, 10);
        }
        assert_eq!(crew.answer(WORKERS[0], &first), Answer::WantsSpare);
        let spare = spare(&mut crew);
        assert_eq!(crew.answer(WORKERS[0], &first), Answer::GivesWay);
        crew.suspends(WORKERS[0]);
        assert!(Arc::ptr_eq(&crew.fill(WORKERS[0]).unwrap(), &spare));
        assert_eq!(spare.take_order(), Some(WORKERS[0]));
        assert_eq!(spare.take_order(), None);
        assert_eq!(crew.answer(WORKERS[1], &second), Answer::Misses);
        assert!(!second.is_asked());
        // What the first one does from now on is not the worker's.
        assert_eq!(crew.answer(WORKERS[0], &first), Answer::RunsOn);
        first.take_order();
        crew.resumes(WORKERS[0], &first);
        assert_eq!(first.take_order(), Some(WORKERS[0]));
        assert!(second.is_asked(), "there is room");
        assert!(!first.is_asked());
        assert!(crew.keeps(&spare));
        assert_eq!(crew.answer(WORKERS[1], &second), Answer::GivesWay);
    }

    #[test]
    fn no_more_threads_are_kept_than_there_are_workers() {
        let (mut crew, [first, second]) = crew(4);
        spare(&mut crew);
        assert!(crew.keeps(&first));
        assert!(!crew.keeps(&second));
        assert_eq!(crew.take_spares().count(), 2);
        assert!(!crew.has_spare());
    }

    #[test]
    fn who_was_relieved_serves_no_worker() {
        let (mut crew, [first, _]) = crew(1);
        assert_eq!(crew.relieves(WORKERS[0]), None, "it runs nothing");
        crew.begins(WORKERS[0], TYPE, 5);
        crew.stop(20, WORKERS[0], 10);
        assert!(first.is_asked());
        spare(&mut crew);
        assert_eq!(crew.relieves(WORKERS[0]), Some((TYPE, 5)));
        assert!(!first.is_asked(), "it need not give way any more");
        crew.fill(WORKERS[0]).unwrap();
        assert_eq!(crew.relieved(), 1);
        assert!(!crew.ends(WORKERS[0], &first));
        assert_eq!(crew.relieved(), 0);
    }
}
