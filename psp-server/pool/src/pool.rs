//! Takes tasks, changes the policy, ends.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use async_task::Runnable;
use psp_policy::{Policy, RequestType, TypeTable};

use crate::error::PolicyRefused;
use crate::job::{Job, Within};
use crate::running::Running;
use crate::shared::{Shared, Surroundings, Threads};
use crate::snapshot::Snapshot;
use crate::state::State;
use crate::{timer, worker};

/// Ends the pool when no handle is left to submit tasks any more.
struct Owner(Arc<Shared>);

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.change(|state, _| state.close());
    }
}

/// A pool of threads that runs tasks by their types. Cheap to clone. When the last clone is dropped the pool ends its
/// tasks, and then its threads; [`close`](Self::close) waits for that.
#[derive(Clone)]
pub struct Pool {
    owner: Arc<Owner>,
}

/// How a pool has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct DrainReport {
    /// Tasks that had not ended by then. Those that a worker was polling, or that had yielded at a checkpoint, go on
    /// until they return, or wait; then they are dropped as the others are.
    pub abandoned: usize,
}

impl Pool {
    pub(crate) fn start(
        state: State,
        policy: &Policy,
        types: Arc<TypeTable>,
        threads: Threads,
        surroundings: Option<Surroundings>,
    ) -> io::Result<Self> {
        let started: Vec<_> = state.threads().cloned().collect();
        let workers = started.len();
        let shared = Arc::new(Shared::new(state, types, workers, threads, surroundings));
        // Dropped early, it ends the workers that there are.
        let owner = Arc::new(Owner(shared.clone()));
        for thread in started {
            worker::start(&shared, thread)?;
        }
        timer::start_for(&shared, policy)?;
        Ok(Self { owner })
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.owner.0
    }

    /// Has a worker call `work`, which does not wait for other tasks.
    pub fn run<T: Send + 'static>(
        &self,
        request_type: RequestType,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Running<T> {
        self.spawn(request_type, async move { work() })
    }

    /// Has workers poll `future` until it is ready. It has no worker while it is pending.
    pub fn spawn<F>(&self, request_type: RequestType, future: F) -> Running<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        self.submit(Job::new(request_type), future)
    }

    /// As [`spawn`](Self::spawn), of a task that has to begin by `at`. Unlike [`Running::deadline`] this is known to
    /// the policy.
    pub fn spawn_by<F>(&self, request_type: RequestType, at: Instant, future: F) -> Running<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let job = Job::new(request_type);
        job.begin_by(self.shared().ns_at(at));
        self.submit(job, future)
    }

    fn submit<F>(&self, job: Job, future: F) -> Running<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let job = Arc::new(job);
        let within = Within(job.clone());
        let future = async move {
            let _within = within;
            future.await
        };
        let shared = self.shared().clone();
        let schedule = move |task: Runnable<Arc<Job>>| {
            let now_ns = shared.now_ns();
            shared.change(|state, left| state.ready(now_ns, task, left));
        };
        let task = async_task::Builder::new().propagate_panic(true);
        let (task, output) = task.metadata(job.clone()).spawn(|_| future, schedule);
        let running = Running::new(output.fallible(), job, self.shared().clone());
        task.schedule();
        running
    }

    /// The types of tasks.
    #[must_use]
    pub fn types(&self) -> &TypeTable {
        self.shared().types()
    }

    /// What the pool has done until now.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.shared().lock().snapshot()
    }

    /// Puts another policy in force, which takes over what waits and runs.
    ///
    /// # Errors
    /// When the policy does not fit, or one of the two does not [hand over](psp_policy::Scheduler::handover); when it
    /// preempts tasks, and the system has no thread for that.
    pub fn set_policy(&self, policy: &Policy) -> Result<(), PolicyRefused> {
        let shared = self.shared();
        timer::start_for(shared, policy)?;
        let now_ns = shared.now_ns();
        match shared.change(|state, left| state.set_policy(now_ns, policy, left))? {
            true => Ok(()),
            false => Err(PolicyRefused::NoHandover),
        }
    }

    /// Takes no tasks from now on, and waits until all have ended, for `timeout` at most. Then those that are left are
    /// given up: they are dropped, and who awaits them gets [`PoolError::Closed`](crate::PoolError::Closed).
    ///
    /// This blocks the thread. Within a runtime whose timers or sockets the tasks need, see
    /// [`close_until`](Self::close_until).
    pub fn close(&self, timeout: Duration) -> DrainReport {
        let shared = self.shared();
        shared.change(|state, _| state.close());
        self.closed(shared.wait_for_threads(timeout))
    }

    /// As [`close`](Self::close), without blocking the thread: waits until `enough` is ready at most, such as
    /// `tokio::time::sleep(Duration::from_secs(5))`.
    pub async fn close_until(&self, enough: impl Future) -> DrainReport {
        let shared = self.shared();
        shared.change(|state, _| state.close());
        let mut enough = pin!(enough);
        let have_ended = poll_fn(|context| {
            let have_ended = shared.poll_threads(context).map(|()| true);
            match have_ended {
                Poll::Pending => enough.as_mut().poll(context).map(|_| false),
                ready => ready,
            }
        });
        self.closed(have_ended.await)
    }

    /// Gives up what is left.
    fn closed(&self, have_ended: bool) -> DrainReport {
        let abandoned = match have_ended {
            true => 0,
            false => self.shared().change(State::give_up),
        };
        DrainReport { abandoned }
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").finish_non_exhaustive()
    }
}
