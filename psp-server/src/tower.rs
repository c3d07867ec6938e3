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
//! The worker is held while a future is pending. It parks until it is woken, gives way to other requests like a
//! [`checkpoint`] if the policy asks for it, and gives up after [`pending_max`](TowerHandler::pending_max) with
//! [`Failure::Pending`]; the future is dropped then. So a service may wait for short events, such as the permit
//! of a concurrency limit.
//!
//! The worker drives no timers or sockets. Futures that wait for them need a runtime on other threads, and
//! futures of tokio need its context, too: a middleware that enters the runtime's `Handle` in `call`. Each
//! waiting request holds a worker. A service that mostly waits for other services belongs on an asynchronous
//! server; psp is for work that keeps a core busy.
//!
//! In the topology [`Inline`](crate::Topology::Inline) worker 0 is the net thread: while a future is pending
//! there, the server receives nothing.
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
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use psp_policy::WorkerId;
use tower_service::Service;

use crate::handler::{Handler, Request};
use crate::peer::Peer;
use crate::preempt::checkpoint;
use crate::reply::Reply;
use crate::sleep::rest;

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
    /// The service's future, or its readiness, was pending for longer than this.
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

    /// Sets how long a request may go on after it was first pending; 1 s by default. Time between its turns
    /// does not count.
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
    alarm: Arc<Alarm>,
    waker: Waker,
}

impl<S> fmt::Debug for ServiceWorker<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceWorker").finish_non_exhaustive()
    }
}

/// Wakes the worker. The thread's token alone is not enough: while this request has given way, another request
/// on the same thread may use the token up.
struct Alarm {
    thread: Thread,
    rang: AtomicBool,
}

impl Alarm {
    fn take(&self) -> bool {
        self.rang.swap(false, Ordering::Acquire)
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.rang.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

impl<S> ServiceWorker<S> {
    /// To be called on the thread that runs its requests.
    fn new(service: S) -> Self {
        let alarm = Arc::new(Alarm {
            thread: std::thread::current(),
            rang: AtomicBool::new(false),
        });
        Self {
            service,
            waker: Waker::from(Arc::clone(&alarm)),
            alarm,
        }
    }
}

/// Polls `future` on this thread until it is ready. `None` after it was pending for `pending_max`.
fn run<F: Future>(
    mut future: Pin<&mut F>,
    alarm: &Alarm,
    waker: &Waker,
    pending_max: Duration,
) -> Option<F::Output> {
    let mut context = Context::from_waker(waker);
    if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
        return Some(output);
    }
    let mut left = pending_max;
    while !left.is_zero() {
        let started = Instant::now();
        if !alarm.take() {
            rest(left);
        }
        // Polling once more is harmless, whatever ended the wait.
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return Some(output);
        }
        left = left.saturating_sub(started.elapsed());
        checkpoint();
    }
    None
}

impl<H, S, D, E, R, X> Handler<H> for TowerHandler<S, D, E>
where
    S: Service<R> + Clone + Send + 'static,
    D: Fn(&Request<'_, (), H>) -> Result<R, X> + Send + Sync + 'static,
    E: Fn(Result<S::Response, Failure<X, S::Error>>, &Request<'_, (), H>, &mut Reply<'_>)
        + Send
        + Sync
        + 'static,
{
    type Worker = ServiceWorker<S>;
    type Connection = ();

    fn init_worker(&self, _worker: WorkerId) -> ServiceWorker<S> {
        ServiceWorker::new(self.clone_service())
    }

    fn connect(&self, _peer: Peer) {}

    fn handle(
        &self,
        worker: &mut ServiceWorker<S>,
        request: Request<'_, (), H>,
        reply: &mut Reply<'_>,
    ) {
        let outcome = match (self.decode)(&request) {
            Ok(decoded) => self.call(worker, decoded),
            Err(reason) => Err(Failure::Request(reason)),
        };
        (self.encode)(outcome, &request, reply);
    }
}

impl<S: Clone, D, E> TowerHandler<S, D, E> {
    fn call<R, X>(
        &self,
        worker: &mut ServiceWorker<S>,
        request: R,
    ) -> Result<S::Response, Failure<X, S::Error>>
    where
        S: Service<R>,
    {
        let mut unusable = false;
        let ServiceWorker {
            service,
            alarm,
            waker,
        } = worker;
        let outcome = {
            let response = async {
                if let Err(error) = poll_fn(|context| service.poll_ready(context)).await {
                    unusable = true;
                    return Err(error);
                }
                service.call(request).await
            };
            run(pin!(response), alarm, waker, self.pending_max)
        };
        if unusable {
            worker.service = self.clone_service();
        }
        match outcome {
            Some(outcome) => outcome.map_err(Failure::Service),
            None => Err(Failure::Pending(self.pending_max)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    const SHORT: Duration = Duration::from_millis(2);
    const LONG: Duration = Duration::from_secs(30);

    fn run_here<F: Future>(future: F, pending_max: Duration) -> Option<F::Output> {
        let worker = ServiceWorker::new(());
        run(pin!(future), &worker.alarm, &worker.waker, pending_max)
    }

    #[test]
    fn a_future_that_is_ready_needs_no_time() {
        assert_eq!(run_here(ready(1), Duration::ZERO), Some(1));
    }

    #[test]
    fn a_future_that_is_never_woken_is_given_up() {
        assert_eq!(run_here(pending::<()>(), SHORT), None);
    }

    #[test]
    fn a_future_that_wakes_itself_for_ever_is_given_up() {
        let restless = poll_fn(|context| {
            context.waker().wake_by_ref();
            Poll::<()>::Pending
        });
        assert_eq!(run_here(restless, SHORT), None);
    }

    #[test]
    fn another_thread_wakes_it() {
        let mut polls = 0;
        let woken = Arc::new(AtomicBool::new(false));
        let future = poll_fn(|context| {
            polls += 1;
            if woken.load(Ordering::Acquire) {
                return Poll::Ready(());
            }
            let (waker, woken) = (context.waker().clone(), Arc::clone(&woken));
            std::thread::spawn(move || {
                woken.store(true, Ordering::Release);
                waker.wake();
            });
            Poll::Pending
        });
        assert_eq!(run_here(future, LONG), Some(()));
        assert!(polls >= 2);
    }

    /// Another waiter has used up the thread's token.
    #[test]
    fn a_wake_without_the_token_is_not_lost() {
        let mut polls = 0;
        let future = poll_fn(|context| {
            polls += 1;
            if polls > 1 {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            std::thread::park();
            Poll::Pending
        });
        let started = Instant::now();
        assert_eq!(run_here(future, LONG), Some(()));
        assert!(started.elapsed() < LONG);
    }
}
