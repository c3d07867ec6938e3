//! The session between a socket and the buffers of its connection.
//!
//! | bytes held for the peer | bound |
//! | --- | --- |
//! | of a handshake that wait for a worker | one record and [`HANDSHAKE_READ_LEN`] |
//! | of a handshake message in several records | 64 KiB (rustls) |
//! | of an incomplete record | one record |
//! | encrypted and not sent | [`SEAL_LEN`] of plaintext, and alerts |

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use rustls::{ServerConfig, ServerConnection};

use super::record;
use crate::transport::handshake::HandshakeStage;
use crate::transport::input::{BufferPool, Fill, InputBuffer};
use crate::transport::output::{CALL_BYTES_MAX, Flush, OutputQueue};
use crate::transport::spare::Receive;

/// Bytes of a handshake in one read.
const HANDSHAKE_READ_LEN: usize = 4 * 1024;
/// Plaintext that is encrypted in one go, in bytes: four records of the largest size.
const SEAL_LEN: usize = 64 * 1024;
/// About what a session holds besides its buffers, in bytes: rustls keeps a buffer of 4 KiB for records.
const SESSION_LEN: usize = 8 * 1024;

/// A server's side of TLS on one connection. It sees bytes only: sockets are whatever reads and writes.
#[derive(Debug)]
pub(crate) struct TlsSession {
    connection: ServerConnection,
    stage: Stage,
    /// When the connection was accepted.
    started_ns: u64,
    /// Bytes of the handshake for the next [`step`](Self::step).
    incoming: Vec<u8>,
    /// Records to be sent.
    outgoing: Vec<u8>,
    /// How many bytes of them are sent.
    sent: usize,
    /// The peer said that it sends no more.
    ended: bool,
}

/// How far a session is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The peer's handshake goes on.
    Handshake,
    /// A step completed the handshake. The net worker has not [opened](TlsSession::open) the session yet.
    Complete,
    /// A step found an error.
    Failed,
    /// Requests come in.
    Open,
}

/// The peer broke the protocol. An alert waits to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Broken;

impl Receive for rustls::Reader<'_> {}

impl TlsSession {
    /// The session of a connection that was accepted at `now_ns`.
    ///
    /// # Errors
    /// Those of [`ServerConnection::new`].
    pub(crate) fn new(config: Arc<ServerConfig>, now_ns: u64) -> Result<Self, rustls::Error> {
        Ok(Self {
            connection: ServerConnection::new(config)?,
            stage: Stage::Handshake,
            started_ns: now_ns,
            incoming: Vec::new(),
            outgoing: Vec::new(),
            sent: 0,
            ended: false,
        })
    }

    /// When the connection was accepted.
    pub(crate) fn started_ns(&self) -> u64 {
        self.started_ns
    }

    /// What the handshake needs. `None` once the session is open.
    pub(crate) fn handshake(&self) -> Option<HandshakeStage> {
        match self.stage {
            Stage::Handshake if record::whole_len(&self.incoming) > 0 => Some(HandshakeStage::Step),
            Stage::Handshake => Some(HandshakeStage::Receive),
            Stage::Complete => Some(HandshakeStage::Open),
            Stage::Failed => Some(HandshakeStage::Fail),
            Stage::Open => None,
        }
    }

    /// One read of bytes of the handshake, which wait for a [`step`](Self::step).
    ///
    /// # Errors
    /// The socket's errors, except `WouldBlock` and `Interrupted`.
    pub(crate) fn receive_handshake(&mut self, socket: &mut impl Read) -> io::Result<Fill> {
        let held = self.incoming.len();
        self.incoming.resize(held + HANDSHAKE_READ_LEN, 0);
        let fill = read(socket, &mut self.incoming[held..]);
        let count = match fill {
            Ok(Fill::Read { count, .. }) => count,
            _ => 0,
        };
        self.incoming.truncate(held + count);
        fill
    }

    /// Processes the whole records that were received, on a worker: this takes long. Part of a record stays until the
    /// rest of it has come, because only a header tells how long a record is.
    pub(crate) fn step(&mut self) {
        let mut incoming = std::mem::take(&mut self.incoming);
        // A configuration may have the application's own code, for certificates and for clients.
        let whole_len = record::whole_len(&incoming);
        let process = AssertUnwindSafe(|| {
            let (mut whole, mut part) = incoming.split_at(whole_len);
            self.process(&mut whole)?;
            // From now on all bytes go to rustls as they come.
            if self.connection.is_handshaking() {
                return Ok(whole_len);
            }
            self.process(&mut part).map(|()| incoming.len())
        });
        let processed = catch_unwind(process).unwrap_or(Err(Broken));
        incoming.drain(..processed.unwrap_or(whole_len));
        self.incoming = incoming;
        self.seal();
        self.stage = match processed {
            Err(Broken) => Stage::Failed,
            Ok(_) if self.connection.is_handshaking() => Stage::Handshake,
            Ok(_) => Stage::Complete,
        };
    }

    fn process(&mut self, ciphertext: &mut &[u8]) -> Result<(), Broken> {
        while !ciphertext.is_empty() {
            match self.process_some(ciphertext)? {
                0 => break,
                _ => continue,
            }
        }
        Ok(())
    }

    /// Processes up to 4 KiB. Returns how many bytes; 0 once the peer has said that it sends no more.
    fn process_some(&mut self, ciphertext: &mut &[u8]) -> Result<usize, Broken> {
        let count = self.connection.read_tls(ciphertext).map_err(|_| Broken)?;
        let state = self.connection.process_new_packets();
        self.ended |= state.map_err(|_| Broken)?.peer_has_closed();
        Ok(count)
    }

    /// Lets requests in after a complete handshake. Those that came with its last bytes go into `input`.
    pub(crate) fn open(&mut self, input: &mut InputBuffer, pool: &mut BufferPool) {
        debug_assert_eq!(self.stage, Stage::Complete);
        self.stage = Stage::Open;
        self.incoming = Vec::new();
        self.move_plaintext(input, 1, pool);
    }

    /// One read of records, whose plaintext goes into `input`. `len_min` bytes of the next request are announced.
    ///
    /// # Errors
    /// The socket's errors, except `WouldBlock` and `Interrupted`.
    pub(crate) fn receive(
        &mut self,
        socket: &mut impl Read,
        input: &mut InputBuffer,
        len_min: usize,
        pool: &mut BufferPool,
    ) -> io::Result<Fill> {
        if self.ended {
            return Ok(Fill::End);
        }
        let mut ciphertext = pool.take();
        let fill = read(socket, &mut ciphertext);
        let decrypted = match fill {
            Ok(Fill::Read { count, .. }) => self.decrypt(&ciphertext[..count], input, len_min, pool),
            _ => Ok(()),
        };
        pool.give(ciphertext);
        match (fill, decrypted) {
            (Ok(_), Err(Broken)) => Ok(Fill::Broken),
            // The end was read. No event says so again.
            (Ok(Fill::Read { count, .. }), Ok(())) if self.ended => Ok(Fill::Read { count, drained: false }),
            (fill, _) => fill,
        }
    }

    fn decrypt(
        &mut self,
        mut ciphertext: &[u8],
        input: &mut InputBuffer,
        len_min: usize,
        pool: &mut BufferPool,
    ) -> Result<(), Broken> {
        while !ciphertext.is_empty() && !self.ended {
            let processed = self.process_some(&mut ciphertext);
            // An alert, or the answer to a key update, if there is any.
            self.seal();
            processed?;
            self.move_plaintext(input, len_min, pool);
        }
        Ok(())
    }

    fn move_plaintext(&mut self, input: &mut InputBuffer, len_min: usize, pool: &mut BufferPool) {
        loop {
            input.make_room(len_min, pool);
            match input.read_from(&mut self.connection.reader()) {
                Ok(Fill::Read { .. }) => {}
                _ => return,
            }
        }
    }

    /// Sends records, and encrypts `output` as they leave. Stops when both are empty, when `budget_bytes` are sent,
    /// or when the socket would block. Adds what it sent to `sent`.
    ///
    /// # Errors
    /// The socket's errors, except `WouldBlock` and `Interrupted`.
    pub(crate) fn send(
        &mut self,
        output: &mut OutputQueue,
        socket: &mut impl Write,
        budget_bytes: usize,
        sent: &mut usize,
    ) -> io::Result<Flush> {
        loop {
            while self.unsent() > 0 {
                if *sent >= budget_bytes {
                    return Ok(Flush::Budget);
                }
                let end = self.outgoing.len().min(self.sent + CALL_BYTES_MAX);
                match socket.write(&self.outgoing[self.sent..end]) {
                    Ok(0) => return Err(ErrorKind::WriteZero.into()),
                    Ok(count) => {
                        self.sent += count;
                        *sent += count;
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        return Ok(Flush::Blocked);
                    }
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
            self.outgoing.clear();
            self.sent = 0;
            if output.is_empty() {
                return Ok(Flush::Empty);
            }
            output.write_to(&mut Sealer(self), SEAL_LEN)?;
        }
    }

    /// Bytes of records that wait to be sent.
    pub(crate) fn unsent(&self) -> usize {
        self.outgoing.len() - self.sent
    }

    /// Says that nothing more will be sent (`close_notify`). Returns whether this has to be sent now: a session
    /// says so once, and not behind an alert.
    pub(crate) fn close(&mut self) -> bool {
        let before = self.unsent();
        self.connection.send_close_notify();
        self.seal();
        self.unsent() > before
    }

    /// Moves the records that rustls has made behind those that wait to be sent.
    fn seal(&mut self) {
        while self.connection.wants_write() {
            let moved = self.connection.write_tls(&mut self.outgoing);
            debug_assert!(moved.is_ok_and(|count| count > 0), "memory takes all");
        }
    }

    /// Bytes of memory held for the peer.
    pub(crate) fn held_bytes(&self) -> usize {
        SESSION_LEN + self.incoming.capacity() + self.outgoing.capacity()
    }

    /// Takes a buffer from `spare` for records to be sent.
    pub(crate) fn lend_buffer(&mut self, spare: &mut Vec<Vec<u8>>) {
        if self.outgoing.capacity() == 0
            && let Some(buffer) = spare.pop()
        {
            self.outgoing = buffer;
        }
    }

    /// Gives the buffer back once everything is sent.
    pub(crate) fn return_buffer(&mut self, spare: &mut Vec<Vec<u8>>) {
        if self.unsent() == 0 && self.outgoing.capacity() > 0 {
            let mut buffer = std::mem::take(&mut self.outgoing);
            self.sent = 0;
            buffer.clear();
            if spare.len() < spare.capacity() && buffer.capacity() <= 2 * SEAL_LEN {
                spare.push(buffer);
            }
        }
    }
}

/// One read into `room`.
fn read(socket: &mut impl Read, room: &mut [u8]) -> io::Result<Fill> {
    loop {
        return match socket.read(room) {
            Ok(0) => Ok(Fill::End),
            Ok(count) => Ok(Fill::Read { count, drained: count < room.len() }),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(Fill::Blocked),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => Err(error),
        };
    }
}

/// Takes plaintext of replies, and leaves its records in the session.
struct Sealer<'a>(&'a mut TlsSession);

impl Write for Sealer<'_> {
    fn write(&mut self, plaintext: &[u8]) -> io::Result<usize> {
        let taken = self.0.connection.writer().write(plaintext);
        self.0.seal();
        taken
    }

    fn write_vectored(&mut self, plaintext: &[IoSlice<'_>]) -> io::Result<usize> {
        let taken = self.0.connection.writer().write_vectored(plaintext);
        self.0.seal();
        taken
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
