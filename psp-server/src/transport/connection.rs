//! One connection: its socket, its buffers and the handler's state.

use super::input::InputBuffer;
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

impl<C> Connection<C> {
    pub(crate) fn new(index: ConnectionIndex, socket: Socket, peer: Peer, state: C) -> Self {
        Self {
            index,
            socket,
            peer,
            state,
            input: InputBuffer::default(),
            output: OutputQueue::default(),
            flush: Flush::Empty,
            closing: false,
            failed: false,
        }
    }

    /// Sends output, at most `budget_bytes` of it. Returns the number of bytes sent.
    pub(crate) fn send(&mut self, budget_bytes: usize) -> usize {
        let before = self.output.len();
        match self.output.write_to(&mut self.socket, budget_bytes) {
            Ok(flush) => self.flush = flush,
            Err(_) => self.failed = true,
        }
        before - self.output.len()
    }

    /// Bytes of memory held for the peer.
    pub(crate) fn held_bytes(&self) -> usize {
        self.input.held_bytes() + self.output.held_bytes()
    }
}
