//! Calls that block in the kernel, while other requests have the worker.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::thread;

use super::wait;
use crate::fiber::{self, Aside};

/// Runs `work`, which blocks its thread in the kernel, and returns what it returns: an `fsync`, a read of a file, a
/// call of a C library. Other requests have the worker meanwhile, as in a [`wait`](crate::wait()).
///
/// With [`KernelThread`](crate::PreemptPolicy::KernelThread) the request's own thread runs `work`, and the team's next
/// thread is the worker before `work` begins. With other mechanisms one of the server's helper threads runs it, of
/// which there are [`blocking_threads_max`](crate::Config::blocking_threads_max); beyond that, calls wait their turn.
/// Where the worker cannot be given away, and outside of servers, `work` runs where it is called.
///
/// A panic of `work` is a panic of the request. `work` cannot [`wait`](crate::wait()) itself: it parks its thread.
///
/// ```no_run
/// # use std::{fs::File, sync::Arc};
/// # use psp_server::{Reply, Request, blocking};
/// fn save(log: &Arc<File>, reply: &mut Reply<'_>) {
///     let log = log.clone();
///     if let Err(error) = blocking(move || log.sync_data()) {
///         reply.fail(error);
///     }
/// }
/// ```
pub fn blocking<T, F>(work: F) -> T
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let ended = match fiber::aside() {
        Aside::Here => return work(),
        Aside::OwnThread(waiting) => {
            let (mut work, mut ended) = (Some(work), None);
            let mut run = || {
                let work = work.take();
                ended = work.map(|work| catch_unwind(AssertUnwindSafe(work)));
            };
            if !fiber::without_worker(waiting, &mut run) {
                run();
            }
            ended.expect("the work has run")
        }
        Aside::Helpers(helpers) => {
            let end = Arc::new(Mutex::new(End { result: None, waker: None }));
            let at = end.clone();
            let job = move || put(&at, catch_unwind(AssertUnwindSafe(work)));
            if let Err(job) = helpers.submit(Box::new(job)) {
                job();
            }
            wait(std::future::poll_fn(|context| {
                fiber::no_preempt(|| {
                    let mut end = lock(&end);
                    if let Some(result) = end.result.take() {
                        return Poll::Ready(result);
                    }
                    end.waker = Some(context.waker().clone());
                    Poll::Pending
                })
            }))
        }
    };
    ended.unwrap_or_else(|payload| resume_unwind(payload))
}

/// How the work ended, and who waits for that.
struct End<T> {
    result: Option<thread::Result<T>>,
    waker: Option<Waker>,
}

fn put<T>(end: &Mutex<End<T>>, result: thread::Result<T>) {
    let waker = {
        let mut end = lock(end);
        end.result = Some(result);
        end.waker.take()
    };
    if let Some(waker) = waker {
        waker.wake();
    }
}

fn lock<T>(end: &Mutex<End<T>>) -> MutexGuard<'_, End<T>> {
    end.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outside_of_servers_work_runs_where_it_is_called() {
        let here = thread::current().id();
        assert_eq!(blocking(|| thread::current().id()), here);
        assert!(catch_unwind(|| blocking(|| panic!("the test asked for it"))).is_err());
    }
}
