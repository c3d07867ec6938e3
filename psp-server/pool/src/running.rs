//! The result of a task.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use async_task::FallibleTask;

use crate::error::PoolError;
use crate::job::{Fate, Job};
use crate::shared::Shared;

/// A task that was submitted: a future of its result. Dropped, it cancels the task. A task that runs goes on to its
/// next point of waiting; one that has not begun never begins, and is dropped at once.
///
/// Awaiting it panics if the task has panicked.
#[must_use = "a task is cancelled when this is dropped; see `Running::detach`"]
pub struct Running<T> {
    /// `None` once the task is detached.
    task: Option<FallibleTask<T, Arc<Job>>>,
    job: Arc<Job>,
    shared: Arc<Shared>,
}

impl<T> Running<T> {
    pub(crate) const fn new(task: FallibleTask<T, Arc<Job>>, job: Arc<Job>, shared: Arc<Shared>) -> Self {
        let task = Some(task);
        Self { task, job, shared }
    }

    /// As this, for a task that has to begin by `at`: if its turn comes later it does not run, and the result is
    /// [`PoolError::Expired`]. Of several such times, and its type's [`max_wait`](crate::TypeSpec::max_wait), the
    /// earliest holds.
    pub fn deadline(self, at: Instant) -> Self {
        self.job.begin_by(self.shared.ns_at(at));
        self
    }

    /// Lets the task run to its end, whether or not anybody waits for that. One that no waker can wake any more is
    /// there until the pool gives it up.
    pub fn detach(mut self) {
        if let Some(task) = self.task.take() {
            task.detach();
        }
    }

    fn error(&self) -> PoolError {
        match self.job.fate() {
            Fate::Busy => PoolError::Busy {
                type_name: self.shared.type_name(self.job.request_type).to_owned(),
            },
            Fate::Expired => PoolError::Expired,
            Fate::Open | Fate::Closed | Fate::Cancelled => PoolError::Closed,
        }
    }
}

impl<T> Future for Running<T> {
    type Output = Result<T, PoolError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(task) = &mut self.task else {
            return Poll::Ready(Err(self.error()));
        };
        let output = ready!(Pin::new(task).poll(context));
        Poll::Ready(output.ok_or_else(|| self.error()))
    }
}

impl<T> Drop for Running<T> {
    fn drop(&mut self) {
        if self.task.is_some() && !self.job.is_over() {
            self.shared.change(|state, left| state.withdraw(&self.job, left));
        }
    }
}

impl<T> std::fmt::Debug for Running<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running").field("job", &self.job).finish_non_exhaustive()
    }
}
