//! The body of a response, whose frames are timed.
//!
//! The server polls a body after the service's future has returned, on a thread of tokio. A body that computes as it
//! streams keeps that thread from others, and no policy can help. So the layer counts such frames, and names the type
//! once.

use std::ops::Deref;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use crate::placement::nanos;
use crate::timed::Account;
use crate::usage::Usage;

pin_project! {
    /// The body of a response that has passed a [`PspLayer`](crate::PspLayer).
    #[derive(Debug)]
    pub struct ResponseBody<B> {
        #[pin]
        inner: B,
        // `None` for the body of a refusal.
        account: Option<Account>,
    }
}

impl<B> ResponseBody<B> {
    pub(crate) const fn new(inner: B, account: Option<Account>) -> Self {
        Self { inner, account }
    }

    /// The service's own body.
    pub fn into_inner(self) -> B {
        self.inner
    }
}

impl<B> Deref for ResponseBody<B> {
    type Target = B;

    fn deref(&self) -> &B {
        &self.inner
    }
}

impl<B: Body> Body for ResponseBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let this = self.project();
        let Some(account) = this.account else {
            return this.inner.poll_frame(context);
        };
        // What the thread has had of the processor is asked for only where it may matter.
        let usage = account.of_type().has_slow_frames().then(Usage::now);
        let began = Instant::now();
        let polled = this.inner.poll_frame(context);
        account.polled_frame(usage, nanos(began.elapsed()));
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
