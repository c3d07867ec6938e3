//! The bytes of one connection: those of a socket, or of TLS on it.

use std::io::{self, ErrorKind, Read, Write};

use rustls::ClientConnection;
use socket2::Socket;

use crate::wire::Tls;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Channel {
    socket: Socket,
    session: Option<Box<ClientConnection>>,
}

impl Channel {
    /// A channel on a socket. A session shakes hands while it writes and reads.
    pub(crate) fn new(socket: Socket, tls: Option<&Tls>) -> io::Result<Self> {
        let session = tls.map(Tls::session).transpose().map_err(io::Error::other)?;
        Ok(Self { socket, session: session.map(Box::new) })
    }

    pub(crate) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Shakes hands, on a blocking socket.
    pub(crate) fn shake_hands(&mut self) -> io::Result<()> {
        while let Some(session) = self.session.as_deref_mut().filter(|session| session.is_handshaking()) {
            session.complete_io(&mut self.socket)?;
        }
        Ok(())
    }

    /// Whether bytes that were written wait for the socket.
    pub(crate) fn has_unsent(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.wants_write())
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
    /// A session fills `buffer` as far as the socket has bytes, so that none are left where epoll does not see them.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(session) = self.session.as_deref_mut() else {
            return self.socket.read(buffer);
        };
        let mut filled = 0;
        while filled < buffer.len() {
            match session.reader().read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(count) => {
                    filled += count;
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // A server may close without saying so.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => break,
                Err(error) => return Err(error),
            }
            match session.read_tls(&mut self.socket) {
                Ok(_) => {}
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
