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
use crate::shared::{Receiver, Shared};
use crate::telemetry::NetCounters;
use crate::transport::connection::Accepted;
use crate::transport::listening::Listening;
use crate::transport::socket::{ListenerSocket, Socket};
use crate::transport::{TlsConfig, TlsSession};

const ACCEPTS_PER_TURN: usize = 64;

/// The listening sockets.
pub(super) struct Acceptor<F, H> {
    listeners: Vec<Listener>,
    framing: Arc<F>,
    handler: Arc<H>,
    shared: Receiver,
    /// There were no file descriptors for a connection since the last retry.
    exhausted: bool,
}

struct Listener {
    socket: ListenerSocket,
    tls: Option<TlsConfig>,
    /// Connections may wait to be accepted.
    readable: bool,
}

impl<F: Framing, H: Handler<F::Head>> Acceptor<F, H> {
    pub(super) fn new(
        sockets: Vec<Listening>,
        registry: &Registry,
        tokens: Tokens,
        framing: Arc<F>,
        handler: Arc<H>,
        shared: Receiver,
    ) -> io::Result<Self> {
        let mut listeners = Vec::with_capacity(sockets.len());
        for (index, listening) in sockets.into_iter().enumerate() {
            let Listening { mut socket, tls } = listening;
            registry.register(&mut socket, tokens.listener(index), Interest::READABLE)?;
            let readable = true;
            listeners.push(Listener {
                socket,
                tls,
                readable,
            });
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
        let net = self.shared.net();
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
                let admitted = admit(peer, connections, &*self.handler, &self.shared)
                    .and_then(|admitted| Ok((admitted, listener.session(now_ns)?)));
                match admitted {
                    Ok((admitted, session)) => {
                        let accepted = Accepted {
                            socket,
                            session,
                            peer,
                            state: admitted.state,
                            is_authenticated: admitted.is_authenticated,
                        };
                        connections.accept(accepted, registry, tokens, now_ns);
                    }
                    Err(refused) => {
                        let reason = refused.count(net);
                        // With TLS, telling the reason would need a handshake.
                        if let (None, Some(reason)) = (&listener.tls, reason) {
                            tell(&reason, socket, &*self.framing);
                        }
                    }
                }
            }
        }
    }
}

/// What the handler makes of a connection that it takes.
struct Admitted<C> {
    state: C,
    is_authenticated: bool,
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
    /// The settings of TLS make no session.
    NoSession,
}

impl Listener {
    /// The session of a connection with TLS that was accepted at `now_ns`.
    fn session(&self, now_ns: u64) -> Result<Option<Box<TlsSession>>, Refused> {
        let made = self.tls.as_ref().map(|tls| tls.session(now_ns));
        made.map(|session| session.ok_or(Refused::NoSession))
            .transpose()
    }
}

/// Makes the handler's state of a connection, if the peer may have another one.
fn admit<F: Framing, H: Handler<F::Head>>(
    peer: Peer,
    connections: &Connections<F, H::Connection>,
    handler: &H,
    shared: &Shared,
) -> Result<Admitted<H::Connection>, Refused> {
    let connections_max = shared.connections_max.load(Ordering::Relaxed) as u64;
    if shared.telemetry.connections_open() >= connections_max || connections.is_full() {
        return Err(Refused::ConnectionsMax);
    }
    if !connections.has_room_for(&peer) {
        return Err(Refused::AddressMax);
    }
    let connect = || {
        handler.accept(&peer)?;
        let state = handler.connect(peer);
        let is_authenticated = handler.is_authenticated(&state);
        Ok(Admitted {
            state,
            is_authenticated,
        })
    };
    match catch_unwind(AssertUnwindSafe(connect)) {
        Ok(connected) => connected.map_err(Refused::ByHandler),
        Err(_) => Err(Refused::HandlerFailed),
    }
}

impl Refused {
    /// Counts the connection. Returns what its peer is told.
    fn count(&self, net: &NetCounters) -> Option<Rejection<'_>> {
        net.connections_refused.add(1);
        match self {
            Self::ConnectionsMax => Some(Rejection::TooManyConnections),
            Self::AddressMax => {
                net.connections_over_address_limit.add(1);
                Some(Rejection::TooManyConnections)
            }
            Self::ByHandler(refusal) => {
                net.connections_refused_by_handler.add(1);
                Some(Rejection::Refused(refusal.reason()))
            }
            Self::HandlerFailed | Self::NoSession => None,
        }
    }
}

/// Tells the peer why it is refused, as far as its socket takes it at once, and closes the connection.
fn tell(reason: &Rejection<'_>, mut socket: Socket, framing: &impl Framing) {
    let mut text = Vec::new();
    framing.encode_rejection(reason, &[], &mut text);
    // Best effort: an empty socket buffer takes a line.
    let _ = socket.write(&text);
}

/// Whether the process or the system has no room for another connection.
fn is_exhausted(error: &io::Error) -> bool {
    let exhausted = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    Errno::from_io_error(error).is_some_and(|errno| exhausted.contains(&errno))
}
