//! Accepts connections.

use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use mio::Registry;
use psp_protocols::{Framing, Rejection};
use rustix::io::Errno;

use super::commons::Commons;
use super::connections::Connections;
use super::connections::per_address::Counted;
use super::newcomers::Newcomer;
use super::tokens::Tokens;
use crate::guarded_framing::GuardedFraming;
use crate::handler::Handler;
use crate::peer::Peer;
use crate::refusal::Refusal;
use crate::runtime::host::event_queue;
use crate::shared::Receiver;
use crate::telemetry::NetCounters;
use crate::transport::connection::Accepted;
use crate::transport::listening::Listening;
use crate::transport::socket::{ListenerSocket, Socket};
use crate::transport::{TlsConfig, TlsSession};

const ACCEPTS_PER_TURN: usize = 64;

/// The listening sockets.
pub(super) struct Acceptor<F: Framing, H: Handler<F::Head>> {
    listeners: Vec<Listener>,
    /// Connections that other ports accepted for this one.
    newcomers: Vec<Newcomer>,
    framing: Arc<GuardedFraming<F>>,
    handler: Arc<H>,
    shared: Receiver,
    commons: Arc<Commons<H::Connection, F::Head>>,
    /// There were no file descriptors for a connection since the last retry.
    exhausted: bool,
}

struct Listener {
    socket: Arc<ListenerSocket>,
    /// All ports accept its connections.
    is_shared: bool,
    tls: Option<TlsConfig>,
    /// Connections may wait to be accepted.
    readable: bool,
}

impl<F: Framing, H: Handler<F::Head>> Acceptor<F, H> {
    pub(super) fn new(
        sockets: Vec<Listening>,
        registry: &Registry,
        tokens: Tokens,
        framing: Arc<GuardedFraming<F>>,
        handler: Arc<H>,
        shared: Receiver,
        commons: Arc<Commons<H::Connection, F::Head>>,
    ) -> io::Result<Self> {
        let mut listeners = Vec::with_capacity(sockets.len());
        for (index, listening) in sockets.into_iter().enumerate() {
            let Listening { socket, is_shared, tls } = listening;
            event_queue::watch(registry, &socket, tokens.listener(index))?;
            listeners.push(Listener { socket, is_shared, tls, readable: true });
        }
        Ok(Self {
            listeners,
            newcomers: Vec::new(),
            framing,
            handler,
            shared,
            commons,
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
        for listener in self.listeners.drain(..) {
            let _ = event_queue::forget(registry, &listener.socket);
        }
        self.receive_newcomers();
        self.newcomers.clear();
    }

    /// Takes the connections that other ports accepted for this one. Returns how many there are.
    pub(super) fn receive_newcomers(&mut self) -> usize {
        let port = self.shared.port();
        self.commons.newcomers.take(port, &mut self.newcomers);
        self.newcomers.len()
    }

    /// Accepts a bounded number of connections from each listener, and those that other ports accepted for this one.
    pub(super) fn accept(
        &mut self,
        connections: &mut Connections<F, H::Connection>,
        registry: &Registry,
        tokens: Tokens,
        now_ns: u64,
    ) {
        for newcomer in std::mem::take(&mut self.newcomers) {
            self.admit(newcomer, connections, registry, tokens, now_ns);
        }
        for index in 0..self.listeners.len() {
            for _ in 0..ACCEPTS_PER_TURN {
                if !self.listeners[index].readable {
                    break;
                }
                if let Some(newcomer) = self.accept_one(index) {
                    self.admit(newcomer, connections, registry, tokens, now_ns);
                }
            }
        }
    }

    /// Accepts a connection, if one waits. Returns it unless another port gets it.
    fn accept_one(&mut self, index: usize) -> Option<Newcomer> {
        let listener = &mut self.listeners[index];
        match listener.socket.accept() {
            Ok((socket, peer)) => {
                let newcomer = Newcomer { socket, peer, listener: index };
                match listener.is_shared {
                    true => { &self.commons.newcomers }.give(self.shared.port(), newcomer).err(),
                    false => Some(newcomer),
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                listener.readable = false;
                None
            }
            Err(error) if is_exhausted(&error) => {
                if !std::mem::replace(&mut self.exhausted, true) {
                    tracing::warn!(%error, "cannot accept");
                }
                listener.readable = false;
                None
            }
            // That connection is lost; others may wait.
            Err(_) => None,
        }
    }

    /// Takes a connection in, or tells its peer why not.
    fn admit(
        &self,
        newcomer: Newcomer,
        connections: &mut Connections<F, H::Connection>,
        registry: &Registry,
        tokens: Tokens,
        now_ns: u64,
    ) {
        let Newcomer { socket, peer, listener } = newcomer;
        let Some(listener) = self.listeners.get(listener) else {
            return;
        };
        let admitted = self.make_state(peer, connections);
        match admitted.and_then(|admitted| Ok((admitted, listener.session(now_ns)?))) {
            Ok((admitted, session)) => {
                let accepted = Accepted {
                    socket,
                    session,
                    peer,
                    state: admitted.state,
                    is_authenticated: admitted.is_authenticated,
                };
                connections.accept(accepted, admitted.counted, registry, tokens, now_ns);
            }
            Err(refused) => {
                let reason = refused.count(self.shared.net());
                // With TLS, telling the reason would need a handshake.
                if let (None, Some(reason)) = (&listener.tls, reason) {
                    tell(&reason, socket, &*self.framing);
                }
            }
        }
    }

    /// Makes the handler's state of a connection, if the peer may have another one.
    fn make_state(
        &self,
        peer: Peer,
        connections: &Connections<F, H::Connection>,
    ) -> Result<Admitted<H::Connection>, Refused> {
        let (shared, handler) = (&self.shared, &*self.handler);
        let connections_max = shared.connections_max.load(Ordering::Relaxed) as u64;
        if shared.telemetry.connections_open() >= connections_max || connections.is_full() {
            return Err(Refused::ConnectionsMax);
        }
        let counted = self.commons.per_address.count(&peer);
        let counted = counted.ok_or(Refused::AddressMax)?;
        let connect = || {
            handler.accept(&peer)?;
            let state = handler.connect(peer);
            let is_authenticated = handler.is_authenticated(&state);
            Ok((state, is_authenticated))
        };
        let (state, is_authenticated) = match catch_unwind(AssertUnwindSafe(connect)) {
            Ok(connected) => connected.map_err(Refused::ByHandler)?,
            Err(_) => return Err(Refused::HandlerFailed),
        };
        Ok(Admitted { state, is_authenticated, counted })
    }
}

/// What the handler makes of a connection that it takes.
struct Admitted<C> {
    state: C,
    is_authenticated: bool,
    /// The connection counts for its address.
    counted: Counted,
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
        made.map(|session| session.ok_or(Refused::NoSession)).transpose()
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
fn tell(reason: &Rejection<'_>, mut socket: Socket, framing: &GuardedFraming<impl Framing>) {
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
