//! Closing without losing the last reply.

use std::io::ErrorKind;
use std::net::Shutdown as Half;

use psp_protocols::Framing;

use super::memory::Memory;
use super::readiness::Condition;
use super::slot::Phase;
use super::table::Connections;
use crate::transport::connection::Connection;
use crate::transport::input::{BufferPool, InputBuffer};
use crate::transport::request_key::ConnectionIndex;

/// How long a closed connection is kept so that its peer can read the last reply.
const LINGER_NS: u64 = 1_000_000_000;
/// The same while the server is stopping.
const LINGER_DRAIN_NS: u64 = 200_000_000;

impl<F: Framing, C> Connections<F, C> {
    pub(super) fn start_lingering(&mut self, index: ConnectionIndex, now_ns: u64) {
        let slot = &mut self.slots[index.get()];
        let Phase::Home(stream) = &mut slot.phase else {
            return;
        };
        let connection = &mut stream.connection;
        let ended = slot.readiness.has(Condition::InputEnded);
        if ended && !self.draining || connection.socket.shutdown(Half::Write).is_err() {
            return self.close(index);
        }
        connection.input = InputBuffer::default();
        connection.return_buffers(&mut self.memory.output);
        // The connection holds next to nothing now; others get the room.
        Memory::account(connection, &self.shared);
        let linger_ns = if self.draining { LINGER_DRAIN_NS } else { LINGER_NS };
        slot.readiness.set(Condition::Readable, true);
        slot.phase.linger(now_ns + linger_ns);
        self.lingering += 1;
        self.ready.push(index);
    }

    /// Discards what the peer still sends. Unread input would cause a reset, which could overtake the last
    /// reply.
    pub(super) fn linger(&mut self, index: ConnectionIndex) {
        let slot = &mut self.slots[index.get()];
        let Phase::Lingering { stream, .. } = &mut slot.phase else {
            return;
        };
        let connection = &mut stream.connection;
        match discard(connection, &mut self.memory.input, &mut slot.discard_left) {
            Rest::More if slot.discard_left > 0 => self.ready.push(index),
            Rest::Later => {}
            Rest::More | Rest::None => self.close(index),
        }
    }

    /// Discards some input of a connection that closes once its peer has read the replies before: the peer may be one
    /// that writes all before it reads. Returns `false` if it has sent too much, and the connection is gone.
    pub(super) fn discard_meanwhile(&mut self, index: ConnectionIndex) -> bool {
        let slot = &mut self.slots[index.get()];
        let Phase::Home(stream) = &mut slot.phase else {
            return true;
        };
        if !stream.connection.closing || !slot.readiness.has(Condition::Readable) {
            return true;
        }
        let connection = &mut stream.connection;
        match discard(connection, &mut self.memory.input, &mut slot.discard_left) {
            Rest::More if slot.discard_left == 0 => {
                self.close(index);
                return false;
            }
            Rest::More => self.ready.push(index),
            Rest::Later => slot.readiness.set(Condition::Readable, false),
            Rest::None => {
                slot.readiness.set(Condition::Readable, false);
                slot.readiness.set(Condition::InputEnded, true);
            }
        }
        true
    }
}

/// What comes after input that was discarded.
enum Rest {
    /// There may be more at once.
    More,
    /// There may be more after the next event.
    Later,
    /// The input has ended.
    None,
}

/// Discards input until there is none, or as much as a buffer of the pool holds has gone. Takes it off `bytes_left`.
fn discard<C>(connection: &mut Connection<C>, pool: &mut BufferPool, bytes_left: &mut usize) -> Rest {
    let mut buffer = pool.take();
    let end = bytes_left.saturating_sub(buffer.len());
    let rest = loop {
        match connection.socket.discard(&mut buffer) {
            Ok(0) => break Rest::None,
            Ok(count) => {
                *bytes_left = bytes_left.saturating_sub(count);
                if *bytes_left <= end {
                    break Rest::More;
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => break Rest::Later,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => break Rest::None,
        }
    };
    pool.give(buffer);
    rest
}
