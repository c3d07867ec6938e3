//! Waiting for several futures at once.

use std::pin::Pin;
use std::task::{Context, Poll};

/// A future of the outputs of all `futures`, in their order: a request asks several servers, and goes on when it has
/// all answers.
///
/// ```no_run
/// # use psp_server::protocols::Sink;
/// # use psp_server::{Reply, Request};
/// # async fn ask(_: u16) -> Vec<u8> { Vec::new() }
/// fn handle(_: Request<'_, ()>, reply: &mut Reply<'_>) {
///     let asked = [7001, 7002, 7003].map(ask);
///     for answer in psp_server::wait(psp_server::task::join_all(asked)) {
///         reply.put(&answer);
///     }
/// }
/// ```
///
/// Whenever one is woken, all that are not ready are polled: this is for some dozens. A panic of one is a panic of the
/// request. [`Tasks`](super::tasks::Tasks) polls only those that were woken, and keeps panics apart.
pub fn join_all<F: Future>(futures: impl IntoIterator<Item = F>) -> JoinAll<F> {
    let parts = futures.into_iter().map(|future| Part::Pending(Box::pin(future)));
    JoinAll { parts: parts.collect() }
}

/// See [`join_all`].
#[must_use = "futures do nothing unless they are waited for"]
pub struct JoinAll<F: Future> {
    parts: Vec<Part<F>>,
}

enum Part<F: Future> {
    Pending(Pin<Box<F>>),
    Ready(F::Output),
}

// Nothing of it is pinned but what is in boxes.
impl<F: Future> Unpin for JoinAll<F> {}

impl<F: Future> std::fmt::Debug for JoinAll<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JoinAll").field("futures", &self.parts.len()).finish_non_exhaustive()
    }
}

impl<F: Future> Future for JoinAll<F> {
    type Output = Vec<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Vec<F::Output>> {
        let mut is_pending = false;
        for part in &mut self.parts {
            if let Part::Pending(future) = part {
                match future.as_mut().poll(context) {
                    Poll::Ready(output) => *part = Part::Ready(output),
                    Poll::Pending => is_pending = true,
                }
            }
        }
        if is_pending {
            return Poll::Pending;
        }
        let outputs = self.parts.drain(..).map(|part| match part {
            Part::Ready(output) => output,
            Part::Pending(_) => unreachable!("none is pending"),
        });
        Poll::Ready(outputs.collect())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::wait::sleep::sleep;
    use crate::wait::wait;

    #[test]
    fn outputs_come_in_order_of_the_futures() {
        let after = |ms: u64| async move {
            sleep(Duration::from_millis(ms)).await;
            ms
        };
        assert_eq!(wait(join_all([5, 1, 0, 3].map(after))), [5, 1, 0, 3]);
        assert!(wait(join_all(Vec::<Sleepless>::new())).is_empty());
    }

    type Sleepless = std::future::Ready<u64>;
}
