//! A service in a layer.

use std::task::{Context, Poll};
use std::time::Instant;

use http::{Request, Response};
use tower_layer::Layer;
use tower_service::Service;
use tracing::instrument::{Instrument, WithSubscriber};

use crate::body::ResponseBody;
use crate::carried::{Carried, Carry};
use crate::classify::Classify;
use crate::deadline;
use crate::layer::PspLayer;
use crate::placement::Place;
use crate::refusal::{Dialect, Refusal};
use crate::response::{ResponseFuture, State, Terms};
use crate::timed::{Account, Timed};
use crate::usage::Usage;

/// A service whose requests are polled where they arrive or by a pool. Made by [`PspLayer`].
///
/// It is as ready as its inner service: a full pool answers, and does not make who calls wait.
pub struct PspService<S, C> {
    inner: S,
    layer: PspLayer<C>,
}

impl<S, C> Layer<S> for PspLayer<C> {
    type Service = PspService<S, C>;

    fn layer(&self, inner: S) -> PspService<S, C> {
        let layer = self.clone();
        PspService { inner, layer }
    }
}

impl<S, C, A, B> Service<Request<A>> for PspService<S, C>
where
    S: Service<Request<A>, Response = Response<B>, Future: Send, Error: Send + 'static> + Clone + Send + 'static,
    C: Classify<Request<A>>,
    A: Send + 'static,
    B: Default + Send + 'static,
{
    type Response = Response<ResponseBody<B>>;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future, B, S::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let PspLayer { pool, classifier, types, settings } = &self.layer;
        let request_type = classifier.classify(&request);
        let account = Account {
            types: types.clone(),
            slot: pool.types().slot(request_type),
            thresholds: settings.thresholds,
        };
        let of_type = account.of_type();
        of_type.named(|| classifier.type_name(request_type));
        let place = of_type.placement.place();
        of_type.arrived(place);
        let headers = request.headers();
        let timeout = deadline::timeout(headers, settings.deadline_header.as_ref());
        let terms = Terms {
            dialect: Dialect::of(headers),
            deadline: timeout.and_then(|timeout| Instant::now().checked_add(timeout)),
            retry_after: settings.retry_after,
        };
        if timeout.is_some_and(|timeout| timeout.is_zero()) {
            let refusal = Refusal::Expired;
            return ResponseFuture::new(State::Refused { refusal }, terms, account);
        }
        let state = match place {
            Place::Inline => {
                let (mut served_ns, usage) = (0, Usage::now());
                let future = account.time(usage, &mut served_ns, || self.inner.call(request));
                let future = Timed::inline(future, account.clone(), served_ns, usage);
                State::Inline { future }
            }
            Place::Pool => {
                // The one that is ready is used, and a clone becomes ready for the next request.
                let next = self.inner.clone();
                let mut ready = std::mem::replace(&mut self.inner, next);
                let task = async move { ready.call(request).await };
                let around = settings.carry.as_ref().map(Carry::capture);
                let task = Timed::pooled(Carried::new(task, around), account.clone());
                let task = task.in_current_span().with_current_subscriber();
                let running = match terms.deadline {
                    Some(deadline) => pool.spawn_by(request_type, deadline, task),
                    None => pool.spawn(request_type, task),
                };
                State::Pooled { running }
            }
        };
        ResponseFuture::new(state, terms, account)
    }
}

impl<S: Clone, C> Clone for PspService<S, C> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), layer: self.layer.clone() }
    }
}

impl<S, C> std::fmt::Debug for PspService<S, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PspService").finish_non_exhaustive()
    }
}
