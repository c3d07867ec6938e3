//! Threads that run what blocks in the kernel for requests on contexts, which share their worker's thread.
//!
//! ```text
//!   a request: submit ── job ──► helper threads: run it, wake the request
//!        └── waits as Blocked: others have the worker
//! ```
//!
//! A thread starts when a job finds none idle, and ends when it has been idle for long. Jobs wait for threads in the
//! order in which they came. They are no more than requests that wait.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::thread_state::no_preempt;

/// How long a helper waits for another job before it ends.
const IDLE_TIME: Duration = Duration::from_secs(10);

pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// See the [module](self).
pub(crate) struct Helpers {
    threads_max: usize,
    /// Called on each thread at its start.
    prepare: Box<dyn Fn() + Send + Sync>,
    state: Mutex<State>,
    has_job: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    /// Threads that wait for a job.
    idle: usize,
}

impl Helpers {
    /// No threads yet, and at most `threads_max`. Each calls `prepare` at its start.
    pub(crate) fn new(threads_max: usize, prepare: impl Fn() + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self {
            threads_max,
            prepare: Box::new(prepare),
            state: Mutex::default(),
            has_job: Condvar::new(),
        })
    }

    /// Has a thread run `job`, which does not panic. Gives it back if there is no thread, and the system has none.
    pub(crate) fn submit(self: &Arc<Self>, job: Job) -> Result<(), Job> {
        // A request that yields while it has the lock would be waited for.
        no_preempt(|| {
            let mut state = self.lock();
            state.jobs.push_back(job);
            if state.jobs.len() > state.idle && state.threads < self.threads_max {
                let helpers = self.clone();
                let name = format!("psp-helper-{}", state.threads);
                let started = std::thread::Builder::new().name(name).spawn(move || helpers.serve());
                match started {
                    Ok(_) => state.threads += 1,
                    Err(error) if state.threads == 0 => {
                        tracing::warn!(%error, "no thread for what blocks: it blocks its worker");
                        return state.jobs.pop_back().map_or(Ok(()), Err);
                    }
                    // The others take it in turn.
                    Err(_) => {}
                }
            }
            drop(state);
            self.has_job.notify_one();
            Ok(())
        })
    }

    fn serve(&self) {
        (self.prepare)();
        while let Some(job) = self.next() {
            job();
        }
    }

    /// The next job. `None` if there was none for long: the calling thread ends.
    fn next(&self) -> Option<Job> {
        let mut state = self.lock();
        if state.jobs.is_empty() {
            state.idle += 1;
            let waited = self.has_job.wait_timeout_while(state, IDLE_TIME, |state| state.jobs.is_empty());
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
        let job = state.jobs.pop_front();
        state.threads -= usize::from(job.is_none());
        job
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Helpers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Helpers").field("threads_max", &self.threads_max).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn jobs_run_on_as_many_threads_as_there_may_be_and_all_run() {
        let helpers = Helpers::new(2, || {});
        let (ended, ends) = channel();
        let (open, gate) = channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        for number in 0..6 {
            let (ended, gate) = (ended.clone(), gate.clone());
            let job = move || {
                gate.lock().unwrap().recv().unwrap();
                ended.send(number).unwrap();
            };
            assert!(helpers.submit(Box::new(job)).is_ok());
        }
        assert_eq!(helpers.lock().threads, 2);
        (0..6).for_each(|_| open.send(()).unwrap());
        let mut numbers: Vec<_> = (0..6).map(|_| ends.recv().unwrap()).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, [0, 1, 2, 3, 4, 5]);
        // One that is idle takes the next job.
        while helpers.lock().idle < 2 {
            std::thread::yield_now();
        }
        let job = move || ended.send(6).unwrap();
        assert!(helpers.submit(Box::new(job)).is_ok());
        assert_eq!((ends.recv(), helpers.lock().threads), (Ok(6), 2));
    }
}
