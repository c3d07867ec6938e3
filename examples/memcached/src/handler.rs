//! The handler that the runtime calls: it turns frames into requests.

use std::sync::Arc;

use psp_protocols::Sink;
use psp_protocols::memcached::is_binary;
use psp_server::{Handler, Peer, Reply, Request, ServerHandle, WorkerId};

use crate::allocator::pack_this_thread;
use crate::auth::Login;
use crate::connections::Connection;
use crate::counters::WorkerCounters;
use crate::operations::Operations;
use crate::state::ServerState;
use crate::{binary, text};

/// Runs memcached requests.
#[derive(Debug)]
pub struct MemcachedHandler {
    server: Arc<ServerState>,
}

/// The state that a request may use.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// The state that all connections share.
    pub server: &'a ServerState,
    /// The server that runs the request.
    pub runtime: &'a ServerHandle,
    /// Whether the client has shown who it is.
    pub login: &'a Login,
    /// The cache and the worker's counters.
    pub operations: Operations<'a>,
}

/// Whether the connection stays open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The connection stays open.
    Keep,
    /// The server closes the connection after the reply.
    Close,
}

/// A sink that discards replies to requests with `noreply`.
#[derive(Debug)]
pub struct Nowhere;

impl Sink for Nowhere {
    fn put(&mut self, _bytes: &[u8]) {}
}

impl MemcachedHandler {
    /// A handler for the items of `server`.
    #[must_use]
    pub fn new(server: Arc<ServerState>) -> Self {
        Self { server }
    }
}

impl Context<'_> {
    /// Stops the server.
    pub fn shut_down(&self) {
        self.runtime.shut_down();
    }
}

impl Handler for MemcachedHandler {
    type Worker = Arc<WorkerCounters>;
    type Connection = Connection;

    fn init_worker(&self, _worker: WorkerId) -> Arc<WorkerCounters> {
        pack_this_thread();
        self.server.counters.add_worker()
    }

    fn connect(&self, peer: Peer) -> Connection {
        let login = Login::new(self.server.passwords.is_some());
        let now_s = self.server.cache.now_s();
        self.server.sockets.connect(peer, login, now_s)
    }

    fn is_authenticated(&self, connection: &Connection) -> bool {
        connection.login.is_done()
    }

    fn handle(&self, worker: &mut Arc<WorkerCounters>, request: Request<'_, Connection>, reply: &mut Reply<'_>) {
        let login = &request.connection.login;
        let _running = request.connection.run(self.server.cache.now_s());
        let is_binary = is_binary(request.payload);
        if let Some(passwords) = &self.server.passwords {
            if is_binary != self.server.config.sasl {
                // The other protocol has no part in this.
                return reply.close();
            }
            if !is_binary && !login.is_done() {
                let passwords = passwords.lock();
                return login.attempt(request.payload, &passwords, worker, reply);
            }
        }
        let context = Context {
            server: &self.server,
            runtime: request.server(),
            login,
            operations: Operations {
                cache: &self.server.cache,
                counters: worker,
                item_len_max: self.server.config.item_len_max,
            },
        };
        let outcome = if is_binary {
            binary::run(context, request.payload, reply)
        } else {
            text::run(context, request.payload, reply)
        };
        if outcome == Outcome::Close {
            reply.close();
        }
    }
}
