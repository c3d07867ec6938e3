//! Servers of psp's RPC: the layer between the envelope, which all servers share, and the methods of a
//! server.
//!
//! ```text
//!   frame ─► RpcHandler: envelope ─► Call ─► Service::call ─► payload, or Failure ─► response
//!               │ malformed                    │ checkpoint: client, deadline, yields
//!               └─► INVALID_ARGUMENT           └─► DEADLINE_EXCEEDED
//! ```
//!
//! A server with one method:
//!
//! ```
//! use psp_rpc_service::{Call, RpcHandler, Service};
//! use psp_protocols::rpc::{Failure, Rpc};
//! use psp_server::{Server, WorkerId};
//!
//! struct Greeter;
//!
//! impl Service for Greeter {
//!     type Worker = ();
//!
//!     fn init_worker(&self, _worker: WorkerId) {}
//!
//!     fn call(&self, _worker: &mut (), call: &Call<'_>, payload: &mut Vec<u8>) -> Result<(), Failure> {
//!         match call.method {
//!             "Greet" => payload.extend_from_slice(b"hello"),
//!             _ => return Err(Failure::unknown_method(call.method)),
//!         }
//!         Ok(())
//!     }
//! }
//!
//! # fn main() -> anyhow::Result<()> {
//! let server = Server::builder()
//!     .tcp("127.0.0.1:0")
//!     .framing(Rpc::default())
//!     .handler(RpcHandler(Greeter))
//!     .build()?;
//! # server.handle().shut_down();
//! psp_program::run(server)?;
//! # Ok(())
//! # }
//! ```

use std::pin::pin;
use std::time::{Duration, Instant};

use psp_protocols::rpc::{Failure, RequestRef, ResponseRef, RpcHead, Status, peek_id};
use psp_server::{Handler, Peer, Reply, Request, ServerHandle, WorkerId, checkpoint, is_abandoned, task};

/// Most bytes of the payload buffer that are kept for the next request.
const PAYLOAD_KEPT_MAX: usize = 64 << 10;
/// When a call that waits looks for the first time whether its client is still there, and the longest time between two
/// looks. Each takes a turn on the worker, so that they become rarer.
const LOOK_MIN: Duration = Duration::from_millis(10);
const LOOK_MAX: Duration = Duration::from_secs(1);

/// The methods of a server.
pub trait Service: Send + Sync + 'static {
    /// State of one context of a worker, like [`Handler::Worker`].
    type Worker: Send + 'static;

    /// Runs on the worker's thread before its first request, once for each context of the worker.
    fn init_worker(&self, worker: WorkerId) -> Self::Worker;

    /// Runs one call and appends the method's own message to `payload`, which is empty.
    ///
    /// # Errors
    /// A [`Failure`] is the response instead of the payload.
    fn call(&self, worker: &mut Self::Worker, call: &Call<'_>, payload: &mut Vec<u8>) -> Result<(), Failure>;
}

/// A call of a method.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// The method's name.
    pub method: &'a str,
    /// The method's own message.
    pub payload: &'a [u8],
    /// From then on, the client no longer needs the response.
    deadline: Option<Instant>,
    /// The server that runs the call; a call that a test makes has none.
    server: Option<&'a ServerHandle>,
}

impl<'a> Call<'a> {
    /// The call of a request that a worker begins now, after it has [`waited`](Request::waited). The deadline
    /// counts from the arrival of the request.
    #[must_use]
    pub fn begun(request: &RequestRef<'a>, waited: Duration) -> Self {
        let deadline = match request.deadline_us {
            0 => None,
            us => {
                let left = Duration::from_micros(us).saturating_sub(waited);
                // A deadline beyond the range of the clock is none.
                Instant::now().checked_add(left)
            }
        };
        Self {
            method: request.method,
            payload: request.payload,
            deadline,
            server: None,
        }
    }

    /// The server that runs the call: its counters, its limits and its policy. `None` in a call that no server
    /// runs, as in tests.
    #[must_use]
    pub const fn server(&self) -> Option<&'a ServerHandle> {
        self.server
    }

    /// A [`checkpoint`], which lets other requests run first, and a check of the client and the deadline. Long
    /// work calls this now and then.
    ///
    /// # Errors
    /// [`Status::Cancelled`] when the client has gone, and [`Failure::deadline_exceeded`].
    pub fn checkpoint(&self) -> Result<(), Failure> {
        checkpoint();
        self.is_wanted()
    }

    /// [`psp_server::wait`]s for `future` while the client is there and the deadline has not passed. Then the future is
    /// dropped. It takes about as long to notice that the client has gone as the call has waited, and a second at most.
    ///
    /// ```
    /// # use psp_protocols::rpc::Failure;
    /// # use psp_rpc_service::Call;
    /// # async fn ask_another_server(_: &[u8]) -> Vec<u8> { Vec::new() }
    /// fn forward(call: &Call<'_>, payload: &mut Vec<u8>) -> Result<(), Failure> {
    ///     payload.extend(call.wait(ask_another_server(call.payload))?);
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// Those of [`checkpoint`](Self::checkpoint).
    pub fn wait<F: Future>(&self, future: F) -> Result<F::Output, Failure> {
        psp_server::wait(async {
            let mut future = pin!(future);
            let mut look = LOOK_MIN;
            loop {
                let time = self.time_left().map_or(look, |left| left.min(look));
                if let Ok(output) = task::timeout(time, future.as_mut()).await {
                    return Ok(output);
                }
                self.is_wanted()?;
                look = (2 * look).min(LOOK_MAX);
            }
        })
    }

    /// Checks the client and the deadline.
    fn is_wanted(&self) -> Result<(), Failure> {
        if is_abandoned() {
            return Err(Failure::new(Status::Cancelled, "the client has gone"));
        }
        self.in_time()
    }

    /// Time until the deadline: 0 once it has passed, `None` if there is none.
    #[must_use]
    pub fn time_left(&self) -> Option<Duration> {
        let left = |deadline: Instant| deadline.saturating_duration_since(Instant::now());
        self.deadline.map(left)
    }

    /// Checks the deadline.
    ///
    /// # Errors
    /// [`Failure::deadline_exceeded`] when it has passed.
    pub fn in_time(&self) -> Result<(), Failure> {
        match self.time_left() {
            Some(Duration::ZERO) => Err(Failure::deadline_exceeded()),
            _ => Ok(()),
        }
    }
}

/// The [`Handler`] of a [`Service`]. It sends one response to each request, even to a malformed one.
///
/// If the deadline has passed when the request is done, the response says so. Changes that the request
/// made remain.
#[derive(Debug)]
pub struct RpcHandler<S>(pub S);

/// State of a [context](Handler::Worker).
#[derive(Debug)]
pub struct RpcWorker<W> {
    state: W,
    payload: Vec<u8>,
}

impl<S: Service> RpcHandler<S> {
    fn run(&self, worker: &mut RpcWorker<S::Worker>, call: &Call<'_>) -> Result<(), Failure> {
        // The server refuses requests whose deadlines passed in the queue. This worker may have begun later.
        call.in_time()?;
        self.0.call(&mut worker.state, call, &mut worker.payload)?;
        call.in_time()
    }
}

impl<S: Service> Handler<RpcHead> for RpcHandler<S> {
    type Worker = RpcWorker<S::Worker>;
    type Connection = ();

    fn init_worker(&self, worker: WorkerId) -> Self::Worker {
        RpcWorker { state: self.0.init_worker(worker), payload: Vec::new() }
    }

    fn connect(&self, _peer: Peer) {}

    fn handle(&self, worker: &mut Self::Worker, request: Request<'_, (), RpcHead>, reply: &mut Reply<'_>) {
        let frame = request.payload;
        let (id, done) = match request.head.request(frame) {
            Ok(envelope) => {
                let mut call = Call::begun(&envelope, request.waited);
                call.server = Some(request.server());
                (envelope.id, self.run(worker, &call))
            }
            Err(error) => {
                let id = peek_id(frame).unwrap_or_default();
                (id, Err(Failure::invalid(error.reason)))
            }
        };
        match done {
            Ok(()) => ResponseRef::ok(id, &worker.payload).encode_frame(reply),
            Err(failure) => ResponseRef::failed(id, &failure).encode_frame(reply),
        }
        worker.payload.clear();
        worker.payload.shrink_to(PAYLOAD_KEPT_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(deadline_us: u64, waited: Duration) -> Call<'static> {
        let request = RequestRef { id: 1, method: "Get", deadline_us, payload: b"key" };
        Call::begun(&request, waited)
    }

    #[test]
    fn only_calls_with_a_deadline_run_out_of_time() {
        for never in [0, u64::MAX] {
            assert_eq!(call(never, Duration::from_secs(1_000)).in_time(), Ok(()));
        }
        let waited_for_it = call(1_000_000_000, Duration::from_secs(1_000));
        assert_eq!(waited_for_it.in_time(), Err(Failure::deadline_exceeded()));
        let call = call(1, Duration::ZERO);
        let passed = loop {
            if let Err(failure) = call.checkpoint() {
                break failure;
            }
        };
        assert_eq!(passed, Failure::deadline_exceeded());
    }

    #[test]
    fn a_call_waits_until_its_deadline_at_most() {
        let never = || std::future::pending::<()>();
        let limited = call(30_000, Duration::ZERO);
        assert_eq!(limited.wait(never()), Err(Failure::deadline_exceeded()));
        let soon = task::sleep(3 * LOOK_MIN);
        assert_eq!(call(0, Duration::ZERO).wait(soon), Ok(()));
        assert_eq!(call(60_000_000, Duration::ZERO).wait(async { 7 }), Ok(7));
    }
}
