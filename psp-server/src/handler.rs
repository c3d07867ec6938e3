//! The user's half of the work: request in, reply out.
//!
//! # Services of tower
//!
//! With the feature `tower` an existing `tower::Service` is a [`Handler`], its middleware included:
//! `psp_server::tower::TowerHandler` clones it for every worker, and two closures turn frames into its requests
//! and outcomes into replies. A worker polls the response's future itself and is held while that is pending, for a
//! bounded time; see the module for what this means for futures that wait for sockets or timers.

use std::net::SocketAddr;
use std::time::Duration;

use crate::policy::WorkerId;
use crate::reply::Reply;
use crate::request_type::RequestType;
use crate::server::ServerHandle;

/// Runs requests. One handler serves all workers of a server.
///
/// Any `Fn(Request<'_, ()>, &mut Reply<'_>)` is a handler without state per worker or connection.
pub trait Handler: Send + Sync + 'static {
    /// State of one context of a worker: one request at a time touches it, so it needs no locks.
    ///
    /// A worker whose requests can be preempted has several
    /// [contexts](crate::Config::contexts_per_worker), for one request may be begun while another of
    /// the same worker is not done; without preemption it has one.
    type Worker: Send + 'static;

    /// State of one connection. Shared, because a protocol may have several requests of one
    /// connection in flight; dropped when the connection is closed. Datagrams have none of their
    /// own: all of a socket's requests see the same one.
    type Connection: Send + Sync + 'static;

    /// Called once before the first request, with a handle to the server's counters and limits.
    fn init(&self, server: ServerHandle) {
        let _ = server;
    }

    /// Called on each worker's own thread before its first request, once for each of its contexts.
    fn init_worker(&self, worker: WorkerId) -> Self::Worker;

    /// Called when a connection was accepted.
    fn connect(&self, peer: SocketAddr) -> Self::Connection;

    /// Runs one request and writes its reply. Writing nothing sends nothing.
    ///
    /// A panic costs this request alone: what it wrote is discarded and the peer gets
    /// [`Rejection::HandlerFailed`](psp_protocols::Rejection::HandlerFailed).
    fn handle(
        &self,
        worker: &mut Self::Worker,
        request: Request<'_, Self::Connection>,
        reply: &mut Reply<'_>,
    );
}

/// One request as a handler sees it.
#[derive(Debug)]
pub struct Request<'a, C> {
    /// The frame, its header included.
    pub payload: &'a [u8],
    /// What the classifier said.
    pub request_type: RequestType,
    /// State of the connection it came in on.
    pub connection: &'a C,
    /// Who sent it.
    pub peer: SocketAddr,
    /// The worker that runs it.
    pub worker: WorkerId,
    /// How long it waited: from when the net worker had read and framed it until its handler began.
    pub waited: Duration,
}

impl<F> Handler for F
where
    F: Fn(Request<'_, ()>, &mut Reply<'_>) + Send + Sync + 'static,
{
    type Worker = ();
    type Connection = ();

    fn init_worker(&self, _worker: WorkerId) {}

    fn connect(&self, _peer: SocketAddr) {}

    fn handle(&self, (): &mut (), request: Request<'_, ()>, reply: &mut Reply<'_>) {
        self(request, reply);
    }
}
