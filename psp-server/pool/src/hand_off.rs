//! Tasks that run for too long, and the threads that take their workers' places.
//!
//! ```text
//!   thread 1   worker 0: task ───────────────┬──────────► the rest of the task, at nice 19 ──► end
//!   timer             others wait meanwhile  │ starts thread 2
//!   thread 2                                 └──────────► worker 0: the next task
//! ```

use psp_policy::{RequestType, WorkerId};

use crate::system::{self, Thread};

/// For how long a thread is a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Watch {
    pub(crate) worker: WorkerId,
    /// Of this worker's threads it is that one.
    number: u32,
}

impl Watch {
    /// That of the worker's first thread.
    pub(crate) const fn first(worker: WorkerId) -> Self {
        Self { worker, number: 0 }
    }
}

/// What the timer has to see to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overdue {
    /// A task runs for too long.
    Now(Watch),
    /// There may be one at this time.
    At(u64),
    /// There will not be one until it is woken.
    Never,
}

/// A task that is handed off.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Taken {
    /// The watch of the thread that takes the worker's place.
    pub(crate) watch: Watch,
    pub(crate) request_type: RequestType,
    /// For how long it has run.
    pub(crate) served_ns: u64,
}

#[derive(Debug, Clone, Default)]
struct Post {
    number: u32,
    thread: Option<Thread>,
    /// The type of what it runs, and since when.
    runs: Option<(RequestType, u64)>,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct HandOffs {
    /// `None` if tasks keep their workers.
    after_ns: Option<u64>,
    /// Most threads that are workers no longer.
    relieved_max: usize,
    relieved: usize,
    posts: Box<[Post]>,
    /// A thread is on its way.
    is_relieving: bool,
    timer_sleeps: bool,
}

impl HandOffs {
    pub(crate) fn new(workers: usize, after_ns: Option<u64>, relieved_max: usize) -> Self {
        Self {
            after_ns,
            relieved_max,
            relieved: 0,
            posts: vec![Post::default(); workers].into_boxed_slice(),
            is_relieving: false,
            timer_sleeps: false,
        }
    }

    /// Whether tasks are ever handed off.
    pub(crate) const fn are_wanted(&self) -> bool {
        self.after_ns.is_some()
    }

    /// A worker has this thread.
    pub(crate) fn serves(&mut self, worker: WorkerId, thread: Thread) {
        self.posts[worker.index()].thread = Some(thread);
    }

    /// A worker begins, or goes on with, a task of this type.
    pub(crate) fn begins(&mut self, worker: WorkerId, request_type: RequestType, now_ns: u64) {
        self.posts[worker.index()].runs = Some((request_type, now_ns));
    }

    /// A thread runs a task no longer. Returns whether it is the worker yet.
    pub(crate) fn ends(&mut self, watch: Watch) -> bool {
        let post = &mut self.posts[watch.worker.index()];
        let serves = post.number == watch.number;
        match serves {
            true => post.runs = None,
            false => self.relieved -= 1,
        }
        serves
    }

    const fn can_relieve(&self, others_wait: bool) -> bool {
        others_wait && self.relieved < self.relieved_max && !self.is_relieving
    }

    /// What the timer has to see to. If it is `Now` a thread has to [take](Self::take) the worker's place, or there is
    /// [none](Self::no_thread).
    pub(crate) fn overdue(&mut self, now_ns: u64, others_wait: bool) -> Overdue {
        let after_ns = self.after_ns.filter(|_| self.can_relieve(others_wait));
        let Some(after_ns) = after_ns else {
            self.timer_sleeps = true;
            return Overdue::Never;
        };
        let posts = (0..).map(WorkerId).zip(&self.posts);
        let running = posts.filter_map(|(worker, post)| {
            let (_, since_ns) = post.runs?;
            let number = post.number;
            Some((since_ns.saturating_add(after_ns), Watch { worker, number }))
        });
        match running.min_by_key(|(due_ns, _)| *due_ns) {
            Some((due_ns, watch)) if due_ns <= now_ns => {
                self.is_relieving = true;
                Overdue::Now(watch)
            }
            Some((due_ns, _)) => Overdue::At(due_ns),
            None => Overdue::At(now_ns.saturating_add(after_ns)),
        }
    }

    /// Whether the timer sleeps though it should look again. It does then.
    pub(crate) const fn wakes_timer(&mut self, others_wait: bool) -> bool {
        let wakes = self.timer_sleeps && self.can_relieve(others_wait);
        if wakes {
            self.timer_sleeps = false;
        }
        wakes
    }

    /// A thread takes a worker's place. `None` if that runs another task by now, or there is no need any more.
    pub(crate) fn take(&mut self, now_ns: u64, watch: Watch, others_wait: bool) -> Option<Taken> {
        self.is_relieving = false;
        let after_ns = self.after_ns.filter(|_| self.can_relieve(others_wait))?;
        let post = &mut self.posts[watch.worker.index()];
        let (request_type, since_ns) = post.runs.filter(|_| post.number == watch.number)?;
        let served_ns = now_ns.saturating_sub(since_ns);
        if served_ns < after_ns {
            return None;
        }
        post.runs = None;
        post.number = post.number.wrapping_add(1);
        self.relieved += 1;
        // It cannot end meanwhile: it would have to say so here before.
        if let Some(thread) = post.thread.take() {
            system::lower_priority(thread);
        }
        Some(Taken {
            watch: Watch {
                number: post.number,
                ..watch
            },
            request_type,
            served_ns,
        })
    }

    /// There is no thread to take a worker's place.
    pub(crate) const fn no_thread(&mut self) {
        self.is_relieving = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPE: RequestType = RequestType::new(3);
    const WORKERS: [WorkerId; 2] = [WorkerId(0), WorkerId(1)];

    fn two_workers() -> HandOffs {
        HandOffs::new(2, Some(1000), 1)
    }

    #[test]
    fn only_a_task_that_is_late_while_others_wait_is_overdue() {
        let mut hand_offs = two_workers();
        assert_eq!(hand_offs.overdue(0, false), Overdue::Never);
        assert!(!hand_offs.wakes_timer(false));
        assert!(hand_offs.wakes_timer(true));
        assert!(!hand_offs.wakes_timer(true), "it is awake");
        assert_eq!(hand_offs.overdue(0, true), Overdue::At(1000));
        hand_offs.begins(WORKERS[0], TYPE, 300);
        hand_offs.begins(WORKERS[1], TYPE, 200);
        assert_eq!(hand_offs.overdue(900, true), Overdue::At(1200));
        let late = Overdue::Now(Watch::first(WORKERS[1]));
        assert_eq!(hand_offs.overdue(1200, true), late);
    }

    #[test]
    fn who_was_relieved_is_no_worker_and_frees_a_place_when_it_ends() {
        let mut hand_offs = two_workers();
        let first = Watch::first(WORKERS[0]);
        hand_offs.begins(WORKERS[0], TYPE, 0);
        assert_eq!(hand_offs.overdue(5000, true), Overdue::Now(first));
        assert_eq!(
            hand_offs.overdue(5000, true),
            Overdue::Never,
            "one at a time"
        );
        let taken = hand_offs.take(5001, first, true).unwrap();
        assert_eq!((taken.request_type, taken.served_ns), (TYPE, 5001));
        hand_offs.begins(WORKERS[0], TYPE, 6000);
        assert_eq!(hand_offs.overdue(9000, true), Overdue::Never, "one at most");
        assert!(!hand_offs.ends(first));
        assert_eq!(hand_offs.overdue(9000, true), Overdue::Now(taken.watch));
        assert!(hand_offs.ends(taken.watch));
    }

    #[test]
    fn a_thread_that_comes_too_late_takes_nothing() {
        let mut hand_offs = two_workers();
        let first = Watch::first(WORKERS[0]);
        hand_offs.begins(WORKERS[0], TYPE, 0);
        assert_eq!(hand_offs.overdue(1000, true), Overdue::Now(first));
        assert!(hand_offs.ends(first));
        assert!(hand_offs.take(1001, first, true).is_none(), "it has ended");
        hand_offs.begins(WORKERS[0], TYPE, 1002);
        assert!(hand_offs.take(1003, first, true).is_none(), "another runs");
        assert_eq!(hand_offs.overdue(2002, true), Overdue::Now(first));
        assert!(hand_offs.take(2003, first, false).is_none(), "nobody waits");
        assert!(hand_offs.take(2003, first, true).is_some());
    }
}
