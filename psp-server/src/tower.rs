//! A [`tower_service::Service`] as a [`Handler`]. Feature `tower`, off by default.
//!
//! ```text
//!   frame ── decode ──► request ──► poll_ready, call ──► future ──► outcome ── encode ──► reply
//!            (yours)                the worker's own     polled here         (yours)
//!                                   clone of the service
//! ```
//!
//! Each context of a worker has a clone of the service, made on the worker's thread. The worker polls the
//! response's future on that thread until it is ready: no executor runs beside the worker, nothing is boxed,
//! and only the service allocates.
//!
//! # Services that wait
//!
//! A future that is pending [waits](crate::wait()): other requests have the worker until it is woken. It is given up
//! after [`pending_max`](TowerHandler::pending_max) with [`Failure::Pending`], and dropped then.
//!
//! Futures that wait for timers or sockets need their runtime on other threads. With the feature `tokio`,
//! `ServerBuilder::tokio` has each poll enter one of tokio's.
//!
//! # Failures
//!
//! A failure costs its request alone. An error of the service reaches `encode`. If `poll_ready` fails, another
//! clone replaces the service, as the trait's contract asks. A panic is answered like that of any handler, and
//! the worker goes on with another clone.
//!
//! # Example
//!
//! ```no_run
//! use psp_server::protocols::Sink;
//! use psp_server::protocols::psp_header::{HEADER_LEN, PspFraming};
//! use psp_server::tower::{Failure, TowerHandler};
//! use psp_server::{Reply, Request, Server};
//! use tower::{ServiceBuilder, service_fn};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let reverse = service_fn(async |mut bytes: Vec<u8>| {
//!     bytes.reverse();
//!     Ok::<_, std::io::Error>(bytes)
//! });
//! let service = ServiceBuilder::new().concurrency_limit(4).service(reverse);
//! let handler = TowerHandler::new(
//!     service,
//!     |request: &Request<'_, ()>| Ok::<_, std::convert::Infallible>(request.payload[HEADER_LEN..].to_vec()),
//!     |outcome, request: &Request<'_, ()>, reply: &mut Reply<'_>| {
//!         reply.put(&request.payload[..HEADER_LEN]);
//!         match outcome {
//!             Ok(bytes) => reply.put(&bytes),
//!             Err(Failure::Service(error)) => reply.put(error.to_string().as_bytes()),
//!             Err(failure) => reply.put(failure.to_string().as_bytes()),
//!         }
//!     },
//! );
//! Server::builder()
//!     .udp("127.0.0.1:7000")
//!     .framing(PspFraming::default())
//!     .handler(handler)
//!     .build()?
//!     .run()?;
//! # Ok(())
//! # }
//! ```

use std::fmt;
use std::future::poll_fn;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use psp_policy::WorkerId;
use tower_service::Service;

use crate::handler::{Handler, Request};
use crate::peer::Peer;
use crate::reply::Reply;
use crate::wait::sleep::{Elapsed, timeout};
use crate::wait::wait;

/// How long a request may be pending unless [`TowerHandler::pending_max`] says otherwise.
const PENDING_MAX: Duration = Duration::from_secs(1);

/// Runs a service as a handler. See the [module](self).
pub struct TowerHandler<S, D, E> {
    /// The original of the workers' clones. Services need not be `Sync`.
    service: Mutex<S>,
    decode: D,
    encode: E,
    pending_max: Duration,
}

/// Why a request has no response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Failure<X, E> {
    /// The frame is not a request of the service; has the decoder's error.
    #[error("not a request: {0}")]
    Request(X),
    /// The service failed, in `poll_ready` or in its future.
    #[error("{0}")]
    Service(E),
    /// The service's future, or its readiness, took longer than this.
    #[error("the service was pending for more than {0:?}")]
    Pending(Duration),
}

impl<S, D, E> TowerHandler<S, D, E> {
    /// A handler that runs `service`.
    ///
    /// `decode` turns a frame into the service's request, or returns an error. `encode` writes the reply to the
    /// outcome.
    pub fn new<H, R, X>(service: S, decode: D, encode: E) -> Self
    where
        S: Service<R>,
        D: Fn(&Request<'_, (), H>) -> Result<R, X>,
        E: Fn(Result<S::Response, Failure<X, S::Error>>, &Request<'_, (), H>, &mut Reply<'_>),
    {
        Self {
            service: Mutex::new(service),
            decode,
            encode,
            pending_max: PENDING_MAX,
        }
    }

    /// Sets how long a request's future may take; 1 s by default.
    #[must_use]
    pub fn pending_max(mut self, pending_max: Duration) -> Self {
        self.pending_max = pending_max;
        self
    }
}

impl<S: Clone, D, E> TowerHandler<S, D, E> {
    fn clone_service(&self) -> S {
        // A clone that panicked has not changed the original.
        let service = self.service.lock().unwrap_or_else(PoisonError::into_inner);
        service.clone()
    }
}

impl<S, D, E> fmt::Debug for TowerHandler<S, D, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TowerHandler")
            .field("pending_max", &self.pending_max)
            .finish_non_exhaustive()
    }
}

/// The service in one context of a worker.
pub struct ServiceWorker<S> {
    service: S,
}

impl<S> fmt::Debug for ServiceWorker<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceWorker").finish_non_exhaustive()
    }
}

impl<H, S, D, E, R, X> Handler<H> for TowerHandler<S, D, E>
where
    S: Service<R> + Clone + Send + 'static,
    D: Fn(&Request<'_, (), H>) -> Result<R, X> + Send + Sync + 'static,
    E: Fn(Result<S::Response, Failure<X, S::Error>>, &Request<'_, (), H>, &mut Reply<'_>) + Send + Sync + 'static,
{
    type Worker = ServiceWorker<S>;
    type Connection = ();

    fn init_worker(&self, _worker: WorkerId) -> ServiceWorker<S> {
        ServiceWorker { service: self.clone_service() }
    }

    fn connect(&self, _peer: Peer) {}

    fn handle(&self, worker: &mut ServiceWorker<S>, request: Request<'_, (), H>, reply: &mut Reply<'_>) {
        let outcome = match (self.decode)(&request) {
            Ok(decoded) => self.call(worker, decoded),
            Err(reason) => Err(Failure::Request(reason)),
        };
        (self.encode)(outcome, &request, reply);
    }
}

impl<S: Clone, D, E> TowerHandler<S, D, E> {
    fn call<R, X>(&self, worker: &mut ServiceWorker<S>, request: R) -> Result<S::Response, Failure<X, S::Error>>
    where
        S: Service<R>,
    {
        let mut unusable = false;
        let service = &mut worker.service;
        let response = async {
            if let Err(error) = poll_fn(|context| service.poll_ready(context)).await {
                unusable = true;
                return Err(error);
            }
            service.call(request).await
        };
        let outcome = wait(timeout(self.pending_max, response));
        if unusable {
            worker.service = self.clone_service();
        }
        match outcome {
            Ok(outcome) => outcome.map_err(Failure::Service),
            Err(Elapsed { .. }) => Err(Failure::Pending(self.pending_max)),
        }
    }
}
