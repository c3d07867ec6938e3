//! A future that is ready after a time, and giving up another one after a time.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::fiber::{self, TimerKey, Timers};

/// Returns the output of `future`, or [`Elapsed`] if it is not ready within `duration` of the call. Then the future is
/// dropped.
///
/// ```no_run
/// # use std::time::Duration;
/// # use psp_server::{Reply, Request};
/// # async fn ask_another_server() {}
/// fn handle(_: Request<'_, ()>, reply: &mut Reply<'_>) {
///     let asked = psp_server::task::timeout(Duration::from_millis(20), ask_another_server());
///     if psp_server::wait(asked).is_err() {
///         reply.fail("the other server does not answer");
///     }
/// }
/// ```
///
/// # Errors
/// [`Elapsed`].
pub async fn timeout<F: Future>(duration: Duration, future: F) -> Result<F::Output, Elapsed> {
    let mut future = pin!(future);
    let mut sleep = pin!(sleep(duration));
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Ok(output)),
        Poll::Pending => sleep.as_mut().poll(context).map(|()| Err(Elapsed(()))),
    })
    .await
}

/// A future was not ready in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the time is over")]
pub struct Elapsed(());

/// A future that is ready when `duration` has passed since it was first polled. For use with others:
/// [`psp_server::sleep`](crate::sleep) is all that a handler needs to sleep.
pub const fn sleep(duration: Duration) -> Sleep {
    Sleep { duration, set: None }
}

/// See [`sleep`].
#[derive(Debug)]
#[must_use = "futures do nothing unless they are waited for"]
pub struct Sleep {
    duration: Duration,
    set: Option<SetTimer>,
}

/// A timer that was set. It is removed when this is dropped.
#[derive(Debug)]
struct SetTimer {
    timers: Arc<Timers>,
    key: TimerKey,
}

impl Drop for SetTimer {
    fn drop(&mut self) {
        self.timers.remove(self.key);
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        if let Some(SetTimer { timers, key }) = &this.set {
            return match timers.replace(*key, context.waker()) {
                true => Poll::Pending,
                false => Poll::Ready(()),
            };
        }
        if this.duration.is_zero() {
            return Poll::Ready(());
        }
        let timers = fiber::timers();
        let duration_ns = u64::try_from(this.duration.as_nanos()).unwrap_or(u64::MAX);
        // The last instant of the clock is for no timer.
        let at_ns = timers.now_ns().saturating_add(duration_ns).min(u64::MAX - 1);
        let key = timers.set(at_ns, context.waker().clone());
        this.set = Some(SetTimer { timers, key });
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::task::Waker;
    use std::time::Instant;

    use super::*;
    use crate::wait::wait;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn times_pass_outside_of_servers_too() {
        let started = Instant::now();
        wait(sleep(Duration::from_millis(3)));
        assert!(started.elapsed() >= Duration::from_millis(3));
        wait(sleep(Duration::ZERO));
        let short = timeout(Duration::from_millis(2), pending::<()>());
        assert_eq!(wait(short), Err(Elapsed(())));
        assert_eq!(wait(timeout(LONG, async { 7 })), Ok(7));
        assert_eq!(wait(timeout(Duration::ZERO, pending::<()>())), Err(Elapsed(())));
        let mut given_up = Box::pin(timeout(LONG, pending::<()>()));
        let mut context = Context::from_waker(Waker::noop());
        assert!(given_up.as_mut().poll(&mut context).is_pending());
        drop(given_up);
        // Other tests, which run at the same time, have timers that are due soon.
        while fiber::timers().first_ns().is_some() {
            assert!(started.elapsed() < LONG / 2, "none is left");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
