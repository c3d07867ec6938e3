//! Where tasks yield to others.

use std::time::Duration;

use crate::here::Here;
use crate::job::Fate;
use crate::state::{Polled, Way};
use crate::worker;

/// Lets another task have the worker, if the pool's policy asked for that. A task that runs for long calls this every
/// microsecond or so, in a closure of [`Pool::run`](crate::Pool::run) or in a poll of
/// [`Pool::spawn`](crate::Pool::spawn).
///
/// The task waits here, on its own thread and with its own thread-local variables, while another thread serves the
/// worker. When its turn has come again, at any worker, this returns. Code that is no task of a pool may call it: it
/// does nothing on other threads, while the thread panics, in a task that was
/// [handed off](crate::Builder::hand_off_after), and while as many tasks are suspended as
/// [there may be](crate::Builder::contexts_per_worker).
///
/// A task holds no lock here that another task might want: that would keep a worker waiting, and perhaps all of them.
///
/// If the policy has not asked, a call costs a look at a thread-local variable and a load. Still, a call per element
/// keeps the compiler from vectorising a loop, so call it once for some 64 elements.
///
/// ```
/// # use psp_pool::{Pool, RequestType};
/// # use psp_pool::policy::Policy;
/// let pool = Pool::builder().policy(Policy::mq().quantum_us(200)).build()?;
/// let numbers: Vec<u64> = (0..100_000).collect();
/// let sum = pool.run(RequestType::UNKNOWN, move || {
///     let mut sum = 0;
///     for chunk in numbers.chunks(64) {
///         sum += chunk.iter().sum::<u64>();
///         psp_pool::checkpoint();
///     }
///     sum
/// });
/// # assert_eq!(futures_lite::future::block_on(sum)?, 4_999_950_000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[inline]
pub fn checkpoint() {
    if Here::is_asked() {
        let _ = Here::with(yield_now);
    }
}

/// For how long tasks of the calling thread have been suspended at checkpoints, in sum; 0 on a thread of no pool. Code
/// that times a task by the clock asks before and after, and subtracts the difference.
#[must_use]
pub fn suspended() -> Duration {
    let suspended_ns = Here::with(|here| here.suspended_ns.get());
    Duration::from_nanos(suspended_ns.unwrap_or(0))
}

/// Whether no caller waits for the result of the calling task any more: its [`Running`](crate::Running) was dropped, or
/// the pool gave it up. A closure that runs for long asks this beside its checkpoints, and returns early: a task that
/// is cancelled ends by itself only where it waits. `false` on a thread of no pool.
///
/// ```
/// # use psp_pool::{Pool, RequestType};
/// # let pool = Pool::builder().build()?;
/// let rows = pool.run(RequestType::UNKNOWN, || {
///     let mut sum = 0_u64;
///     for row in 0..1_000_000 {
///         if row % 1024 == 0 {
///             psp_pool::checkpoint();
///             if psp_pool::is_cancelled() {
///                 break;
///             }
///         }
///         sum += row;
///     }
///     sum
/// });
/// # drop(rows);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn is_cancelled() -> bool {
    let is_cancelled = |here: &Here| {
        let job = here.job.borrow();
        job.as_ref().is_some_and(|job| matches!(job.fate(), Fate::Cancelled | Fate::Closed))
    };
    Here::with(is_cancelled).unwrap_or(false)
}

#[cold]
fn yield_now(here: &Here) {
    let (Some(shared), Some(polled)) = (here.shared.upgrade(), here.polled.get()) else {
        return;
    };
    if std::thread::panicking() {
        return;
    }
    let Here { thread, worker, .. } = here;
    let gave_ns = loop {
        let now_ns = shared.now_ns();
        let way = shared.change(|state, left| state.yield_at_checkpoint(now_ns, worker.get(), thread, polled, left));
        match way {
            Way::Given => break now_ns,
            Way::Kept => return,
            Way::NeedsSpare => {
                if worker::start_spare(&shared).is_err() {
                    thread.set_asked(false);
                    shared.lock().misses(polled.request_type);
                    return;
                }
            }
        }
    };
    // Without an order the pool was given up, and the task goes on alone.
    let order = shared.wait_for_order(thread);
    let since_ns = shared.now_ns();
    let suspended_ns = here.suspended_ns.get() + since_ns.saturating_sub(gave_ns);
    here.suspended_ns.set(suspended_ns);
    here.polled.set(Some(Polled { since_ns, ..polled }));
    if let Some(order) = order {
        worker.set(order);
        { shared.lock() }.begins(order, polled.request_type, since_ns);
    }
}
