//! The user's half of the work: request in, reply out.
//!
//! # Services of tower
//!
//! With the feature `tower` an existing `tower::Service` is a [`Handler`], its middleware included:
//! `psp_server::tower::TowerHandler` clones the service for every worker, and two closures turn frames into its
//! requests and outcomes into replies. A worker polls the response's future itself, and runs other requests while the
//! future is pending. The module says what this means for futures that wait for sockets or timers.

use std::error::Error;
use std::fmt::Display;
use std::time::Duration;

use psp_policy::{RequestType, WorkerId};

use crate::body::Body;
use crate::foreseen::Foreseen;
use crate::peer::Peer;
use crate::presence::PeerWatch;
use crate::refusal::Refusal;
use crate::reply::{Closer, Origin, Push, Reply};
use crate::shared::ServerHandle;
use crate::sync::oneshot::Receiver;

/// Runs requests. One handler serves all workers of a server.
///
/// `H` is the [head](psp_protocols::Framing::Head) of the server's framing: a handler of RESP commands is a
/// `Handler<RespHead>`.
///
/// Any `Fn(Request<'_, (), H>, &mut Reply<'_>)` is a handler without state per worker or connection. It returns
/// nothing, or a `Result<(), E>` whose error [fails](Reply::fail) the request: the peer gets the error's text in place
/// of the reply.
///
/// ```
/// # use psp_server::protocols::Sink;
/// # use psp_server::{Handler, Reply, Request};
/// fn double(request: Request<'_, ()>, reply: &mut Reply<'_>) -> Result<(), Box<dyn std::error::Error>> {
///     let number: u32 = std::str::from_utf8(request.payload)?.trim_end().parse()?;
///     reply.put(format!("{}\n", 2 * number).as_bytes());
///     Ok(())
/// }
///
/// # fn takes(_: impl Handler) {}
/// # takes(double);
/// ```
pub trait Handler<H = ()>: Send + Sync + 'static {
    /// State of one context of a worker: one request at a time touches it, so it needs no locks.
    ///
    /// A worker whose requests can be preempted, or [wait](crate::wait()), may have several
    /// [contexts](crate::Config::contexts_per_worker), because one request may begin while another of
    /// the same worker is not done. Otherwise a worker has one state.
    type Worker: Send + 'static;

    /// State of one connection. Shared, because a protocol may have several requests of one
    /// connection in flight; dropped when the connection is closed. Datagrams share one state: that of the
    /// socket or port on which they came in.
    type Connection: Send + Sync + 'static;

    /// Called once before the first request, with a handle to the server's counters and limits. Requests have it,
    /// too: [`Request::server`].
    fn init(&self, server: ServerHandle) {
        let _ = server;
    }

    /// Makes a worker's state. Called on the worker's own thread: once at its start, once for each further
    /// context, and again after a panic in `handle`. With `KernelThread` a further context is a thread. In the topology
    /// `distributed` such a thread may run requests of other workers than this one, too.
    ///
    /// A worker gets a further context when a request begins that can be preempted, or a request
    /// [waits](crate::wait()), and no other context is idle.
    fn init_worker(&self, worker: WorkerId) -> Self::Worker;

    /// Makes a worker's state, or says why it cannot. The server calls this method. Without an implementation it
    /// calls [`init_worker`](Self::init_worker).
    ///
    /// # Errors
    /// The implementation's own. At the start of a worker, an error or a panic makes
    /// [`Server::run`](crate::Server::run) return
    /// [`RunError::WorkerStart`](crate::RunError::WorkerStart). For a further context it is logged, and the
    /// worker goes on with the contexts that it has. After a panic in [`handle`](Self::handle) the worker has no
    /// state left, so the server stops with [`RunError::WorkerDied`](crate::RunError::WorkerDied).
    fn try_init_worker(&self, worker: WorkerId) -> Result<Self::Worker, Box<dyn Error + Send + Sync>> {
        Ok(self.init_worker(worker))
    }

    /// Says whether the server takes a connection, before its first request. Called on the net thread, before
    /// [`connect`](Self::connect), so it should decide at once. Without an implementation every peer is welcome.
    ///
    /// # Errors
    /// The reason, which the peer gets as [`Rejection::Refused`](psp_protocols::Rejection::Refused). Then the
    /// connection is closed.
    fn accept(&self, peer: &Peer) -> Result<(), Refusal> {
        let _ = peer;
        Ok(())
    }

    /// Called on the net thread when a connection was accepted, and at the start for each socket or port of
    /// datagrams, with its own address.
    fn connect(&self, peer: Peer) -> Self::Connection;

    /// Whether the peer of a connection has shown who it is. Without an implementation every peer has. Called when a
    /// connection was made and after its requests.
    ///
    /// A peer that has not may have lower limits
    /// ([`Framing::next_frame_unauthenticated`](psp_protocols::Framing::next_frame_unauthenticated)), and is closed
    /// after [`Config::auth_timeout_s`](crate::Config::auth_timeout_s).
    fn is_authenticated(&self, connection: &Self::Connection) -> bool {
        let _ = connection;
        true
    }

    /// Called when a run of a connection's requests has run, and before their replies are sent: what these wait for. A
    /// handler that must not say that something is done before a disk has it waits so once for all that its peer has
    /// pipelined. Other requests have the worker meanwhile. Without an implementation replies are sent at once.
    ///
    /// If the sender is dropped instead, the replies are discarded, and the connection is closed. Replies that are
    /// [deferred](crate::Reply::defer) or [flushed](crate::Reply::flush), and those to datagrams, do not wait.
    fn replies_wait_for(&self, connection: &Self::Connection) -> Option<Receiver<()>> {
        let _ = connection;
        None
    }

    /// Looks at the next requests of a connection before the first of them runs, on the worker that runs them. Without
    /// an implementation nothing happens.
    ///
    /// Called where a peer has pipelined: with two requests or more, in their order, and with
    /// [`Foreseen::COUNT_MAX`] at most. Each request still comes to [`handle`](Self::handle),
    /// unless its run ends before: then it is foreseen again, or never. What this method does must therefore change
    /// nothing that a peer could notice. It is meant for asking the processor for memory that several requests need, so
    /// that they wait for it together. Its time counts as the first request's, and the worker can neither be preempted
    /// nor wait meanwhile.
    fn foresee(&self, connection: &Self::Connection, requests: Foreseen<'_, H>) {
        let _ = (connection, requests);
    }

    /// Runs one request and writes its reply. Writing nothing sends nothing. [`Reply::fail`] refuses the request
    /// with a text for the peer.
    ///
    /// A panic costs this request alone: its reply is discarded and the peer gets
    /// [`Rejection::HandlerFailed`](psp_protocols::Rejection::HandlerFailed).
    fn handle(&self, worker: &mut Self::Worker, request: Request<'_, Self::Connection, H>, reply: &mut Reply<'_>);
}

/// One request as a handler sees it.
#[derive(Debug)]
pub struct Request<'a, C, H = ()> {
    /// The frame, its header included.
    pub payload: &'a [u8],
    /// By which the handler keeps a long part of the payload without a copy.
    pub body: Body<'a>,
    /// The head of the request from the framing, such as its command and the offsets of its arguments.
    pub head: &'a H,
    /// The classifier's answer.
    pub request_type: RequestType,
    /// State of the connection on which the request came in.
    pub connection: &'a C,
    /// The sender.
    pub peer: Peer,
    /// The worker that runs the request.
    pub worker: WorkerId,
    /// How long the request waited: from when the net worker had read and framed it until its handler began.
    pub waited: Duration,
    /// The peer of a connection; `None` for a datagram.
    pub(crate) watch: Option<PeerWatch<'a>>,
    pub(crate) origin: Origin<'a>,
    pub(crate) server: &'a ServerHandle,
}

impl<'a, C, H> Request<'a, C, H> {
    /// The server that runs the request: its counters, its limits and its policy. Clone the handle to keep it.
    #[must_use]
    pub const fn server(&self) -> &'a ServerHandle {
        self.server
    }

    /// What sends messages to this connection at any time, from any thread. `None` for a datagram.
    #[must_use]
    pub fn pusher(&self) -> Option<Push> {
        self.origin.pusher()
    }

    /// What closes this connection at any time, from any thread. `None` for a datagram.
    #[must_use]
    pub fn closer(&self) -> Option<Closer> {
        self.origin.pusher().map(|push| push.closer())
    }

    /// Whether no client waits for the reply any more: [`is_abandoned`](crate::is_abandoned), for this request and
    /// on any thread. A handler may ask at any time, and stop halfway: its reply is not sent.
    #[inline]
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        self.watch.is_some_and(|watch| watch.is_gone())
    }
}

/// What a closure that is a [`Handler`] may return: nothing, or a `Result<(), E>` with an error that has a text.
pub trait Outcome: sealed::Outcome {}

impl Outcome for () {}

impl<E: Display> Outcome for Result<(), E> {}

mod sealed {
    use std::fmt::Display;

    use crate::reply::Reply;

    /// Seals the trait of the same name.
    pub trait Outcome {
        /// Fails `reply` if this is an error.
        fn write_to(self, reply: &mut Reply<'_>);
    }

    impl Outcome for () {
        fn write_to(self, _reply: &mut Reply<'_>) {}
    }

    impl<E: Display> Outcome for Result<(), E> {
        fn write_to(self, reply: &mut Reply<'_>) {
            if let Err(error) = self {
                reply.fail(error);
            }
        }
    }
}

impl<H, F, O> Handler<H> for F
where
    F: Fn(Request<'_, (), H>, &mut Reply<'_>) -> O + Send + Sync + 'static,
    O: Outcome,
{
    type Worker = ();
    type Connection = ();

    fn init_worker(&self, _worker: WorkerId) {}

    fn connect(&self, _peer: Peer) {}

    fn handle(&self, (): &mut (), request: Request<'_, (), H>, reply: &mut Reply<'_>) {
        self(request, reply).write_to(reply);
    }
}
