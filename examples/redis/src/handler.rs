//! Frames to commands: what the runtime runs.

use std::net::SocketAddr;
use std::sync::Arc;

use psp_protocols::Sink;
use psp_protocols::resp::{Args, Encoder};
use psp_server::{Handler, Reply, Request, ServerHandle, WorkerId};

use crate::client::Client;
use crate::dispatch::{Outcome, dispatch};
use crate::state::ServerState;
use crate::stats::WorkerStats;

/// Runs Redis commands.
#[derive(Debug)]
pub struct RedisHandler {
    server: Arc<ServerState>,
}

/// What a worker has for itself.
#[derive(Debug)]
pub struct Worker {
    stats: Arc<WorkerStats>,
    /// Arguments of inline commands that were quoted.
    unescaped: Vec<u8>,
}

impl RedisHandler {
    /// A handler for the keys and connections of `server`.
    #[must_use]
    pub fn new(server: Arc<ServerState>) -> Self {
        Self { server }
    }
}

impl Handler for RedisHandler {
    type Worker = Worker;
    type Connection = Client;

    fn init(&self, runtime: ServerHandle) {
        if self.server.runtime.set(runtime).is_err() {
            tracing::warn!(
                "a second server runs on the same keys: INFO shows the first one's state"
            );
        }
    }

    fn init_worker(&self, _worker: WorkerId) -> Worker {
        Worker {
            stats: self.server.add_worker(),
            unescaped: Vec::new(),
        }
    }

    fn connect(&self, peer: SocketAddr) -> Client {
        self.server.connect(peer)
    }

    fn handle(&self, worker: &mut Worker, request: Request<'_, Client>, reply: &mut Reply<'_>) {
        let client = request.connection;
        let out: &mut dyn Sink = reply;
        let outcome = match Args::parse(request.payload, &mut worker.unescaped) {
            Ok(args) => dispatch(&self.server, client, &worker.stats, &args, out),
            Err(error) => {
                Encoder::new(out, client.version()).error_parts(&["ERR ", &error.reason]);
                Outcome::Close
            }
        };
        if outcome == Outcome::Close {
            reply.close();
        }
    }
}
