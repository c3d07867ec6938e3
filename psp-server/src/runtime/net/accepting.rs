//! Accepts connections.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use mio::{Interest, Registry};
use psp_protocols::{Framing, Rejection};
use rustix::io::Errno;

use super::connections::Connections;
use super::tokens::Tokens;
use crate::handler::Handler;
use crate::shared::Shared;
use crate::transport::TlsConfig;
use crate::transport::listening::Listening;
use crate::transport::socket::ListenerSocket;

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
        shared: Arc<Shared>,
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
                if connections.open() >= self.shared.connections_max.load(Ordering::Relaxed) {
                    net.connections_refused.add(1);
                    if listener.tls.is_some() {
                        // The reason would need a handshake.
                        continue;
                    }
                    let mut text = Vec::new();
                    let rejection = Rejection::TooManyConnections;
                    self.framing.encode_rejection(&rejection, &[], &mut text);
                    // Best effort: an empty socket buffer takes a line.
                    let _ = io::Write::write(&mut { socket }, &text);
                    continue;
                }
                let connect = AssertUnwindSafe(|| self.handler.connect(peer));
                let Ok(state) = catch_unwind(connect) else {
                    net.connections_refused.add(1);
                    continue;
                };
                let session = listener.tls.as_ref().map(|tls| tls.session(now_ns));
                if matches!(session, Some(None)) {
                    net.connections_refused.add(1);
                    continue;
                }
                let session = session.flatten();
                connections.accept(socket, session, peer, registry, tokens, state, now_ns);
            }
        }
    }
}

/// Whether the process or the system has no room for another connection.
fn is_exhausted(error: &io::Error) -> bool {
    let exhausted = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    Errno::from_io_error(error).is_some_and(|errno| exhausted.contains(&errno))
}
