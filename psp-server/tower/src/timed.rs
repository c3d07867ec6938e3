//! A request's future, whose polls are timed.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use pin_project_lite::pin_project;

use crate::placement::{Thresholds, nanos};
use crate::types::{Type, Types};
use crate::usage::Usage;

/// Whose time it is.
#[derive(Debug, Clone)]
pub(crate) struct Account {
    pub(crate) types: Arc<Types>,
    pub(crate) slot: usize,
    pub(crate) thresholds: Thresholds,
}

impl Account {
    pub(crate) fn of_type(&self) -> &Type {
        self.types.at(self.slot)
    }

    /// Times one step of a request that begins with `usage`, and adds it to `served_ns`.
    pub(crate) fn time<T>(&self, usage: Usage, served_ns: &mut u64, step: impl FnOnce() -> T) -> T {
        let panics = Panics(self.of_type());
        let (began, suspended) = (Instant::now(), psp_pool::suspended());
        let stepped = step();
        let suspended = psp_pool::suspended() - suspended;
        let mut step_ns = nanos(began.elapsed().saturating_sub(suspended));
        std::mem::forget(panics);
        if self.thresholds.may_be_long(step_ns) {
            step_ns = usage.without_others(step_ns);
        }
        *served_ns = served_ns.saturating_add(step_ns);
        self.of_type().placement.polled(step_ns, self.thresholds);
        stepped
    }

    /// One poll of a response's body took so long on the clock. Its thread had `usage` before, if that was asked for.
    pub(crate) fn polled_frame(&self, usage: Option<Usage>, wall_ns: u64) {
        let long_ns = self.thresholds.long_poll_ns;
        if wall_ns <= long_ns {
            return;
        }
        let frame_ns = usage.map_or(wall_ns, |usage| usage.without_others(wall_ns));
        if frame_ns > long_ns && self.of_type().slow_frame(usage.is_some()) {
            self.types.warn_of_body(self.slot, frame_ns);
        }
    }

    /// A request has ended after so much time.
    fn served(&self, served_ns: u64) {
        let spread = self.of_type().served(served_ns, self.thresholds);
        if let Some(spread) = spread {
            self.types.warn(self.slot, spread);
        }
    }
}

/// Counts a panic.
struct Panics<'a>(&'a Type);

impl Drop for Panics<'_> {
    fn drop(&mut self) {
        self.0.panicked.add(1);
    }
}

pin_project! {
    /// See the [module](self).
    #[derive(Debug)]
    pub(crate) struct Timed<F> {
        #[pin]
        future: F,
        account: Account,
        served_ns: u64,
        // As the request's call began: the first poll follows, as a rule, and need not ask again.
        usage: Option<Usage>,
        // When a pooled request arrived, until it begins.
        arrived: Option<Instant>,
        has_ended: bool,
    }

    impl<F> PinnedDrop for Timed<F> {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            if !*this.has_ended {
                this.account.of_type().abandoned_ns.add(*this.served_ns);
            }
        }
    }
}

impl<F> Timed<F> {
    /// A request that is polled where it arrived. Some of its time has passed already, since there was `usage`.
    pub(crate) const fn inline(future: F, account: Account, served_ns: u64, usage: Usage) -> Self {
        Self {
            future,
            account,
            served_ns,
            usage: Some(usage),
            arrived: None,
            has_ended: false,
        }
    }

    /// A request that arrives now, and waits for a worker.
    pub(crate) fn pooled(future: F, account: Account) -> Self {
        Self {
            future,
            account,
            served_ns: 0,
            usage: None,
            arrived: Some(Instant::now()),
            has_ended: false,
        }
    }
}

impl<F: Future> Future for Timed<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        if let Some(arrived) = this.arrived.take() {
            this.account.of_type().waited(nanos(arrived.elapsed()));
        }
        let usage = this.usage.take().unwrap_or_else(Usage::now);
        let polled = this.account.time(usage, this.served_ns, || this.future.poll(context));
        if polled.is_ready() {
            *this.has_ended = !psp_pool::is_cancelled();
            this.account.served(*this.served_ns);
        }
        polled
    }
}
