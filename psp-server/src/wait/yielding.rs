//! Letting other requests have the worker once.

use std::pin::Pin;
use std::task::{Context, Poll};

/// A future that is pending once, and wakes itself. A request that waits for it lets the policy choose who has the
/// worker next; the choice may be the request itself.
///
/// Under a policy that preempts, [`checkpoint`](crate::checkpoint) does that when it is due, at the cost of a load.
pub fn yield_now() -> YieldNow {
    YieldNow { has_yielded: false }
}

/// See [`yield_now`].
#[derive(Debug)]
#[must_use = "futures do nothing unless they are waited for"]
pub struct YieldNow {
    has_yielded: bool,
}

impl Future for YieldNow {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.has_yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}
