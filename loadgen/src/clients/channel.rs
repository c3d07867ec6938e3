//! The bytes of one connection: those of a socket, or of TLS on it.

use std::io::{self, ErrorKind, Read, Write};
use std::time::{Duration, Instant};

use rustls::ClientConnection;
use socket2::Socket;

use crate::wire::Tls;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Channel {
    socket: Socket,
    session: Option<Box<ClientConnection>>,
    is_blocking: bool,
    /// The session has bytes that were not read, of which epoll knows nothing.
    has_unread: bool,
}

/// What a server has not done that does not speak TLS, or that waits.
const NO_HANDSHAKE: &str = "no TLS handshake in time";

impl Channel {
    /// A channel on a socket that blocks, or not. A session shakes hands while it writes and reads.
    pub(crate) fn new(socket: Socket, tls: Option<&Tls>, is_blocking: bool) -> io::Result<Self> {
        let session = tls.map(Tls::session).transpose().map_err(io::Error::other)?;
        Ok(Self {
            socket,
            session: session.map(Box::new),
            is_blocking,
            has_unread: false,
        })
    }

    /// Neither reads nor writes wait from now on.
    pub(crate) fn stop_blocking(&mut self) -> io::Result<()> {
        self.is_blocking = false;
        self.socket.set_nonblocking(true)
    }

    pub(crate) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Shakes hands, on a blocking socket, within `timeout`.
    pub(crate) fn shake_hands(&mut self, timeout: Duration) -> io::Result<()> {
        let late = || io::Error::new(ErrorKind::TimedOut, NO_HANDSHAKE);
        let deadline = Instant::now() + timeout;
        while let Some(session) = self.session.as_deref_mut().filter(|session| session.is_handshaking()) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(late());
            }
            self.socket.set_read_timeout(Some(left))?;
            match session.complete_io(&mut self.socket) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Err(late()),
                done => done?,
            };
        }
        self.socket.set_read_timeout(None)
    }

    /// Whether there are bytes to read of which epoll tells nothing.
    pub(crate) fn has_unread(&self) -> bool {
        self.has_unread
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        self.session.is_some()
    }

    /// Whether bytes that were written wait for the socket.
    pub(crate) fn has_unsent(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.wants_write())
    }

    /// Whether it goes on when the socket takes more. `is_written` says whether the channel has taken all. A session
    /// that takes no more has to read before.
    pub(crate) fn waits_for_write(&mut self, is_written: bool) -> io::Result<bool> {
        if self.session.is_none() {
            return Ok(!is_written);
        }
        match self.flush() {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => Ok(self.has_unsent()),
        }
    }
}

/// Sends what a session has for the socket.
fn send(session: &mut ClientConnection, socket: &mut Socket) -> io::Result<()> {
    while session.wants_write() {
        session.write_tls(socket)?;
    }
    Ok(())
}

impl Write for Channel {
    /// A session that takes nothing waits for the socket.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(session) = self.session.as_deref_mut() else {
            return self.socket.write(bytes);
        };
        send(session, &mut self.socket)?;
        let count = session.writer().write(bytes)?;
        match send(session, &mut self.socket) {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ if count == 0 && !bytes.is_empty() => Err(ErrorKind::WouldBlock.into()),
            _ => Ok(count),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.session.as_deref_mut() {
            None => self.socket.flush(),
            Some(session) => send(session, &mut self.socket),
        }
    }
}

impl Read for Channel {
    /// Where reads do not block, a session fills `buffer` as far as the socket has bytes.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(session) = self.session.as_deref_mut() else {
            return self.socket.read(buffer);
        };
        let mut filled = 0;
        self.has_unread = true;
        while filled < buffer.len() {
            match session.reader().read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(count) => {
                    filled += count;
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.has_unread = false,
                // A server may close without saying so.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => break,
                Err(error) => return Err(error),
            }
            if filled > 0 && self.is_blocking {
                break;
            }
            match session.read_tls(&mut self.socket) {
                Ok(_) => self.has_unread = true,
                Err(_) if filled > 0 => break,
                Err(error) => return Err(error),
            }
            let processed = session.process_new_packets();
            match send(session, &mut self.socket) {
                Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
                _ => {}
            }
            processed.map_err(io::Error::other)?;
        }
        Ok(filled)
    }
}
