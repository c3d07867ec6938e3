//! One connection: its socket, its buffers and the handler's state.

use std::io;

use super::TlsSession;
use super::handshake::HandshakeStage;
use super::input::{BufferPool, Fill, InputBuffer};
use super::output::{Flush, OutputQueue};
use super::request_key::ConnectionIndex;
use super::socket::Socket;
use crate::peer::Peer;

/// A connection has one owner at a time: the net worker, or the worker that runs its requests. That keeps
/// replies in order without a lock.
pub(crate) struct Connection<C> {
    /// Its index in the net worker's table.
    pub(crate) index: ConnectionIndex,
    pub(crate) socket: Socket,
    /// What encrypts and decrypts, on a connection with TLS.
    pub(crate) tls: Option<Box<TlsSession>>,
    pub(crate) peer: Peer,
    /// The handler's state of the connection.
    pub(crate) state: C,
    pub(crate) input: InputBuffer,
    pub(crate) output: OutputQueue,
    /// How the last flush ended.
    pub(crate) flush: Flush,
    /// Close once the output is sent.
    pub(crate) closing: bool,
    /// The socket failed; nothing more can be sent.
    pub(crate) failed: bool,
}

/// What a connection begins with.
pub(crate) struct Accepted<C> {
    pub(crate) socket: Socket,
    pub(crate) tls: Option<Box<TlsSession>>,
    pub(crate) peer: Peer,
    pub(crate) state: C,
}

impl<C> Connection<C> {
    pub(crate) fn new(index: ConnectionIndex, accepted: Accepted<C>) -> Self {
        let Accepted {
            socket,
            tls,
            peer,
            state,
        } = accepted;
        Self {
            index,
            socket,
            tls,
            peer,
            state,
            input: InputBuffer::default(),
            output: OutputQueue::default(),
            flush: Flush::Empty,
            closing: false,
            failed: false,
        }
    }

    /// What the connection's handshake needs. `None` if requests may come in.
    pub(crate) fn handshake(&self) -> Option<HandshakeStage> {
        self.tls.as_ref()?.handshake()
    }

    /// When the connection was accepted, if its handshake still goes on.
    pub(crate) fn handshake_since_ns(&self) -> Option<u64> {
        let session = self.tls.as_ref()?;
        session.handshake().map(|_| session.started_ns())
    }

    /// One read from the socket into the input. `len_min` bytes of the next request are announced.
    ///
    /// # Errors
    /// The socket's errors, except `WouldBlock` and `Interrupted`.
    pub(crate) fn receive(&mut self, len_min: usize, pool: &mut BufferPool) -> io::Result<Fill> {
        let Self { socket, input, .. } = self;
        match &mut self.tls {
            Some(session) => session.receive(socket, input, len_min, pool),
            None => {
                input.make_room(len_min, pool);
                input.read_from(socket)
            }
        }
    }

    /// Sends output, at most `budget_bytes` of it. Returns the number of bytes sent.
    pub(crate) fn send(&mut self, budget_bytes: usize) -> usize {
        let Self { socket, output, .. } = self;
        let mut sent = 0;
        let flush = match &mut self.tls {
            Some(session) => session.send(output, socket, budget_bytes, &mut sent),
            None => {
                let before = output.len();
                let flush = output.write_to(socket, budget_bytes);
                sent = before - output.len();
                flush
            }
        };
        match flush {
            Ok(flush) => self.flush = flush,
            Err(_) => self.failed = true,
        }
        sent
    }

    /// Whether output waits to be sent.
    #[inline]
    pub(crate) fn has_unsent(&self) -> bool {
        !self.output.is_empty()
            || self
                .tls
                .as_ref()
                .is_some_and(|session| session.unsent() > 0)
    }

    /// Says behind the output that nothing more will be sent, if the peer has to be told. Returns whether this has
    /// to be sent now.
    pub(crate) fn say_goodbye(&mut self) -> bool {
        self.tls.as_mut().is_some_and(|session| session.close())
    }

    /// Takes buffers for output from `spare` if the connection has none.
    #[inline]
    pub(crate) fn lend_buffers(&mut self, spare: &mut Vec<Vec<u8>>) {
        self.output.lend_buffer(spare);
        if let Some(session) = &mut self.tls {
            session.lend_buffer(spare);
        }
    }

    /// Gives the buffers for output back once everything is sent.
    pub(crate) fn return_buffers(&mut self, spare: &mut Vec<Vec<u8>>) {
        self.output.return_buffer(spare);
        if let Some(session) = &mut self.tls {
            session.return_buffer(spare);
        }
    }

    /// Bytes of memory held for the peer.
    pub(crate) fn held_bytes(&self) -> usize {
        let session = self.tls.as_ref().map_or(0, |session| session.held_bytes());
        self.input.held_bytes() + self.output.held_bytes() + session
    }
}
