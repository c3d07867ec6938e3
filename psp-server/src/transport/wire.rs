//! What the bytes of a connection pass through: its socket, and with TLS the session that encrypts them.

use std::io::{self, Read};
use std::net::Shutdown;
use std::os::fd::{AsRawFd, RawFd};

use super::TlsSession;
use super::handshake::HandshakeStage;
use super::input::{BufferPool, Fill, InputBuffer};
use super::output::{Flush, OutputQueue};
use super::socket::Socket;

/// The socket of a connection. Output leaves through [`send`](Self::send) only, so with TLS none leaves in the clear.
pub(crate) struct Wire {
    socket: Socket,
    session: Option<Box<TlsSession>>,
}

/// What [`Wire::send`] did.
#[derive(Debug)]
pub(crate) struct Sent {
    /// Bytes that the socket took.
    pub(crate) bytes: usize,
    /// How it ended, or the socket's error.
    pub(crate) flush: io::Result<Flush>,
}

impl Wire {
    pub(crate) fn new(socket: Socket, session: Option<Box<TlsSession>>) -> Self {
        Self { socket, session }
    }

    /// Whether there is no socket.
    pub(crate) fn is_detached(&self) -> bool {
        matches!(self.socket, Socket::None(_))
    }

    /// What the handshake needs. `None` if requests may come in.
    #[inline]
    pub(crate) fn handshake(&self) -> Option<HandshakeStage> {
        self.session.as_ref()?.handshake()
    }

    /// When the connection was accepted, if its handshake still goes on.
    pub(crate) fn handshake_since_ns(&self) -> Option<u64> {
        let session = self.session.as_ref()?;
        session.handshake().map(|_| session.started_ns())
    }

    /// The session of a connection with TLS, and its socket.
    pub(crate) fn session(&mut self) -> Option<(&mut TlsSession, &mut impl Read)> {
        let session = self.session.as_deref_mut()?;
        Some((session, &mut self.socket))
    }

    /// One read from the socket into `input`. `len_min` bytes of the next request are announced.
    ///
    /// # Errors
    /// The socket's errors, except `WouldBlock` and `Interrupted`.
    pub(crate) fn receive(
        &mut self,
        input: &mut InputBuffer,
        len_min: usize,
        pool: &mut BufferPool,
    ) -> io::Result<Fill> {
        match &mut self.session {
            Some(session) => session.receive(&mut self.socket, input, len_min, pool),
            None => {
                input.make_room(len_min, pool);
                input.read_from(&mut self.socket)
            }
        }
    }

    /// Reads bytes that nothing needs.
    ///
    /// # Errors
    /// The socket's errors.
    pub(crate) fn discard(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.socket.read(into)
    }

    /// Sends `output`, at most `budget_bytes` of it.
    pub(crate) fn send(&mut self, output: &mut OutputQueue, budget_bytes: usize) -> Sent {
        match &mut self.session {
            Some(session) => {
                let mut bytes = 0;
                let flush = session.send(output, &mut self.socket, budget_bytes, &mut bytes);
                Sent { bytes, flush }
            }
            None => {
                let before = output.len();
                let flush = output.write_to(&mut self.socket, budget_bytes);
                let bytes = before - output.len();
                Sent { bytes, flush }
            }
        }
    }

    /// Bytes that were taken from the output and wait to be sent.
    #[inline]
    pub(crate) fn unsent(&self) -> usize {
        let session = self.session.as_ref();
        session.map_or(0, |session| session.unsent())
    }

    /// Says behind the output that nothing more will be sent, if the peer has to be told. Returns whether this has
    /// to be sent now.
    pub(crate) fn say_goodbye(&mut self) -> bool {
        let session = self.session.as_mut();
        session.is_some_and(|session| session.close())
    }

    /// Has the kernel hold `bytes_max` of output that the peer has no room for.
    pub(crate) fn hold_at_most(&self, bytes_max: u32) {
        self.socket.hold_at_most(bytes_max);
    }

    /// Bytes that the kernel holds for the peer, where it says so.
    pub(crate) fn queued_bytes(&self) -> Option<usize> {
        self.socket.queued_bytes()
    }

    /// Ends one direction, or both.
    ///
    /// # Errors
    /// The socket's errors.
    pub(crate) fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.socket.shutdown(how)
    }

    /// Takes a buffer from `spare` for encrypted output.
    pub(crate) fn lend_buffer(&mut self, spare: &mut Vec<Vec<u8>>) {
        if let Some(session) = &mut self.session {
            session.lend_buffer(spare);
        }
    }

    /// Gives the buffer back once everything is sent.
    pub(crate) fn return_buffer(&mut self, spare: &mut Vec<Vec<u8>>) {
        if let Some(session) = &mut self.session {
            session.return_buffer(spare);
        }
    }

    /// Bytes of memory held for the peer.
    pub(crate) fn held_bytes(&self) -> usize {
        let session = self.session.as_ref();
        session.map_or(0, |session| session.held_bytes())
    }
}

impl AsRawFd for Wire {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}
