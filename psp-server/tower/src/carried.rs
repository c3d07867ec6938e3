//! What a caller's task has around its polls, carried to the workers of a pool.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

/// Makes one poll of a pooled request, with something around it.
pub(crate) type Around = Box<dyn FnMut(&mut dyn FnMut()) + Send>;

/// Makes an [`Around`] of what is there at the call.
#[derive(Clone)]
pub(crate) struct Carry(Arc<dyn Fn() -> Around + Send + Sync>);

impl Carry {
    pub(crate) fn new<A>(capture: impl Fn() -> A + Send + Sync + 'static) -> Self
    where
        A: FnMut(&mut dyn FnMut()) + Send + 'static,
    {
        Self(Arc::new(move || Box::new(capture())))
    }

    pub(crate) fn capture(&self) -> Around {
        (self.0)()
    }
}

impl std::fmt::Debug for Carry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Carry")
    }
}

pin_project! {
    /// See the [module](self).
    pub(crate) struct Carried<F> {
        #[pin]
        future: F,
        around: Option<Around>,
    }
}

impl<F> Carried<F> {
    pub(crate) const fn new(future: F, around: Option<Around>) -> Self {
        Self { future, around }
    }
}

impl<F: Future> Future for Carried<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let mut this = self.project();
        let Some(around) = this.around else {
            return this.future.poll(context);
        };
        let mut polled = None;
        around(&mut || {
            if polled.as_ref().is_none_or(Poll::is_pending) {
                polled = Some(this.future.as_mut().poll(context));
            }
        });
        // A poll that was left out is made all the same, or the request would never go on.
        polled.unwrap_or_else(|| this.future.poll(context))
    }
}
