//! The future of a response.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http::Response;
use pin_project_lite::pin_project;
use psp_pool::Running;
use tokio::time::{Sleep, sleep_until};

use crate::body::ResponseBody;
use crate::refusal::{Dialect, Refusal};
use crate::timed::{Account, Timed};

pin_project! {
    #[project = Projected]
    pub(crate) enum State<F, T> {
        // Polled here.
        Inline { #[pin] future: Timed<F> },
        // Polled by workers.
        Pooled { running: Running<T> },
        // Not polled, or no longer.
        Refused { refusal: Refusal },
    }
}

pin_project! {
    /// The response of a service in a [`PspLayer`](crate::PspLayer), or one in its place. Dropped, it cancels the
    /// request.
    pub struct ResponseFuture<F, B, E> {
        #[pin]
        state: State<F, Result<Response<B>, E>>,
        terms: Terms,
        account: Account,
        // It has no answer, and nothing else was counted in its place.
        is_open: bool,
        sleep: Option<Pin<Box<Sleep>>>,
    }

    impl<F, B, E> PinnedDrop for ResponseFuture<F, B, E> {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            if *this.is_open {
                this.account.of_type().cancelled.add(1);
            }
        }
    }
}

/// What who asks has said.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    pub(crate) dialect: Dialect,
    pub(crate) deadline: Option<Instant>,
    pub(crate) retry_after: Duration,
}

impl<F, B, E> ResponseFuture<F, B, E> {
    pub(crate) const fn new(state: State<F, Result<Response<B>, E>>, terms: Terms, account: Account) -> Self {
        Self { state, terms, account, is_open: true, sleep: None }
    }
}

impl<F, B, E> Future for ResponseFuture<F, B, E>
where
    F: Future<Output = Result<Response<B>, E>>,
    B: Default,
{
    type Output = Result<Response<ResponseBody<B>>, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        // If it panics that is counted, and the end of this is not.
        *this.is_open = false;
        let polled = match this.state.as_mut().project() {
            Projected::Inline { future } => future.poll(context).map(Ok),
            Projected::Pooled { running } => {
                let polled = Pin::new(running).poll(context);
                polled.map_err(|error| Refusal::of(&error))
            }
            Projected::Refused { refusal } => Poll::Ready(Err(*refusal)),
        };
        let mut is_late = || {
            let Some(deadline) = this.terms.deadline else {
                return false;
            };
            let sleep = this.sleep.get_or_insert_with(|| Box::pin(sleep_until(deadline.into())));
            sleep.as_mut().poll(context).is_ready()
        };
        let ended = match polled {
            Poll::Ready(ended) => ended,
            Poll::Pending if is_late() => Err(Refusal::Expired),
            Poll::Pending => {
                *this.is_open = true;
                return Poll::Pending;
            }
        };
        let of_type = this.account.of_type();
        Poll::Ready(match ended {
            Ok(result) => {
                of_type.completed.add(1);
                let timed = |body| ResponseBody::new(body, Some(this.account.clone()));
                result.map(|response| response.map(timed))
            }
            Err(refusal) => {
                of_type.refused(refusal);
                // What is still to be polled ends here.
                this.state.set(State::Refused { refusal });
                let Terms { dialect, retry_after, .. } = *this.terms;
                let response = refusal.response(dialect, retry_after);
                Ok(response.map(|body| ResponseBody::new(body, None)))
            }
        })
    }
}

impl<F, B, E> std::fmt::Debug for ResponseFuture<F, B, E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ResponseFuture").field("terms", &self.terms).finish_non_exhaustive()
    }
}
