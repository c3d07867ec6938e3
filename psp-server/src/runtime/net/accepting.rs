//! Accepts connections.

use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use mio::{Interest, Registry};
use psp_protocols::{Framing, Rejection};
use rustix::io::Errno;

use super::connections::Connections;
use super::tokens::Tokens;
use crate::handler::Handler;
use crate::peer::Peer;
use crate::refusal::Refusal;
use crate::shared::Shared;
use crate::telemetry::NetCounters;
use crate::transport::socket::{ListenerSocket, Socket};

const ACCEPTS_PER_TURN: usize = 64;

/// The listening sockets.
pub(super) struct Acceptor<F, H> {
    listeners: Vec<Listener>,
    framing: Arc<F>,
    handler: Arc<H>,
    shared: Arc<Shared>,
    /// There were no file descriptors for a connection since the last retry.
    exhausted: bool,
}

struct Listener {
    socket: ListenerSocket,
    /// Connections may wait to be accepted.
    readable: bool,
}

impl<F: Framing, H: Handler<F::Head>> Acceptor<F, H> {
    pub(super) fn new(
        sockets: Vec<ListenerSocket>,
        registry: &Registry,
        tokens: Tokens,
        framing: Arc<F>,
        handler: Arc<H>,
        shared: Arc<Shared>,
    ) -> io::Result<Self> {
        let mut listeners = Vec::with_capacity(sockets.len());
        for (index, mut socket) in sockets.into_iter().enumerate() {
            registry.register(&mut socket, tokens.listener(index), Interest::READABLE)?;
            let readable = true;
            listeners.push(Listener { socket, readable });
        }
        Ok(Self {
            listeners,
            framing,
            handler,
            shared,
            exhausted: false,
        })
    }

    /// The event queue has an event of this listener.
    pub(super) fn on_event(&mut self, index: usize) {
        if let Some(listener) = self.listeners.get_mut(index) {
            listener.readable = true;
        }
    }

    /// Whether connections may wait to be accepted.
    pub(super) fn has_readable(&self) -> bool {
        self.listeners.iter().any(|listener| listener.readable)
    }

    /// Tries all listeners again, also after the process had run out of file descriptors.
    pub(super) fn retry(&mut self) {
        self.exhausted = false;
        for listener in &mut self.listeners {
            listener.readable = true;
        }
    }

    /// Stops listening.
    pub(super) fn close(&mut self, registry: &Registry) {
        for mut listener in self.listeners.drain(..) {
            let _ = registry.deregister(&mut listener.socket);
        }
    }

    /// Accepts a bounded number of connections from each listener.
    pub(super) fn accept(
        &mut self,
        connections: &mut Connections<F, H::Connection>,
        registry: &Registry,
        tokens: Tokens,
        now_ns: u64,
    ) {
        let net = &self.shared.telemetry.net.0;
        for listener in &mut self.listeners {
            if !listener.readable {
                continue;
            }
            for _ in 0..ACCEPTS_PER_TURN {
                let (socket, peer) = match listener.socket.accept() {
                    Ok(accepted) => accepted,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        listener.readable = false;
                        break;
                    }
                    Err(error) if is_exhausted(&error) => {
                        if !std::mem::replace(&mut self.exhausted, true) {
                            tracing::warn!(%error, "cannot accept");
                        }
                        listener.readable = false;
                        break;
                    }
                    // That connection is lost; others may wait.
                    Err(_) => continue,
                };
                match admit(peer, connections, &*self.handler, &self.shared) {
                    Ok(state) => connections.accept(socket, peer, registry, tokens, state, now_ns),
                    Err(refused) => refused.tell(socket, &*self.framing, net),
                }
            }
        }
    }
}

/// Why a connection is refused before its first request.
enum Refused {
    /// There are as many connections as there may be.
    ConnectionsMax,
    /// The peer's address has as many connections as it may have.
    AddressMax,
    ByHandler(Refusal),
    /// The handler panicked.
    HandlerFailed,
}

/// Makes the handler's state of a connection, if the peer may have another one.
fn admit<F: Framing, H: Handler<F::Head>>(
    peer: Peer,
    connections: &Connections<F, H::Connection>,
    handler: &H,
    shared: &Shared,
) -> Result<H::Connection, Refused> {
    if connections.open() >= shared.connections_max.load(Ordering::Relaxed) {
        return Err(Refused::ConnectionsMax);
    }
    if !connections.has_room_for(&peer) {
        return Err(Refused::AddressMax);
    }
    let connect = || handler.accept(&peer).map(|()| handler.connect(peer));
    match catch_unwind(AssertUnwindSafe(connect)) {
        Ok(connected) => connected.map_err(Refused::ByHandler),
        Err(_) => Err(Refused::HandlerFailed),
    }
}

impl Refused {
    /// Tells the peer why, as far as its socket takes it at once, and closes the connection.
    fn tell(&self, mut socket: Socket, framing: &impl Framing, net: &NetCounters) {
        net.connections_refused.add(1);
        let rejection = match self {
            Self::ConnectionsMax => Rejection::TooManyConnections,
            Self::AddressMax => {
                net.connections_over_address_limit.add(1);
                Rejection::TooManyConnections
            }
            Self::ByHandler(refusal) => {
                net.connections_refused_by_handler.add(1);
                Rejection::Refused(refusal.reason())
            }
            Self::HandlerFailed => return,
        };
        let mut text = Vec::new();
        framing.encode_rejection(&rejection, &[], &mut text);
        // Best effort: an empty socket buffer takes a line.
        let _ = socket.write(&text);
    }
}

/// Whether the process or the system has no room for another connection.
fn is_exhausted(error: &io::Error) -> bool {
    let exhausted = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    Errno::from_io_error(error).is_some_and(|errno| exhausted.contains(&errno))
}
