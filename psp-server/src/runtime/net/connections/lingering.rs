//! Closing without losing the last reply.

use std::io::ErrorKind;
use std::net::Shutdown as Half;

use psp_protocols::Framing;

use super::memory::Memory;
use super::readiness::Condition;
use super::slot::Phase;
use super::table::Connections;
use crate::transport::input::InputBuffer;
use crate::transport::request_key::ConnectionIndex;

/// How long a closed connection is kept so that its peer can read the last reply.
const LINGER_NS: u64 = 1_000_000_000;
/// The same while the server is stopping.
const LINGER_DRAIN_NS: u64 = 200_000_000;
/// Input that a lingering connection may still send, in bytes.
const LINGER_BYTES_MAX: usize = 4 << 20;

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
        let linger_ns = if self.draining {
            LINGER_DRAIN_NS
        } else {
            LINGER_NS
        };
        slot.readiness.set(Condition::Readable, true);
        slot.phase.linger(now_ns + linger_ns, LINGER_BYTES_MAX);
        self.lingering += 1;
        self.ready.push(index);
    }

    /// Discards what the peer still sends. Unread input would cause a reset, which could overtake the last
    /// reply.
    pub(super) fn linger(&mut self, index: ConnectionIndex) {
        let Phase::Lingering {
            stream, bytes_left, ..
        } = &mut self.slots[index.get()].phase
        else {
            return;
        };
        let mut discard = self.memory.input.take();
        let done = loop {
            match stream.connection.socket.discard(&mut discard) {
                Ok(0) => break true,
                Ok(count) => {
                    *bytes_left = bytes_left.saturating_sub(count);
                    if *bytes_left == 0 {
                        break true;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => break true,
            }
        };
        self.memory.input.give(discard);
        if done {
            self.close(index);
        }
    }
}
