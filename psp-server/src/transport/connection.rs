//! One connection: its socket, its buffers and the handler's state.

use std::os::fd::AsRawFd;

use super::input::InputBuffer;
use super::output::{Flush, OutputQueue};
use super::request_key::ConnectionIndex;
use super::socket::Socket;
use crate::peer::Peer;
use crate::presence::{PeerWatch, Presence};

/// A connection has one owner at a time: the net worker, or the worker that runs its requests. That keeps
/// replies in order without a lock.
pub(crate) struct Connection<C> {
    /// Its index in the net worker's table.
    pub(crate) index: ConnectionIndex,
    pub(crate) socket: Socket,
    pub(crate) peer: Peer,
    /// Whether the peer is still there.
    pub(crate) presence: Presence,
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
            presence: Presence::default(),
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

    fn watch(&self) -> PeerWatch<'_> {
        PeerWatch {
            presence: &self.presence,
            socket: self.socket.as_raw_fd(),
        }
    }

    /// Whether the peer is known to be gone. Only the connection's owner may ask.
    #[inline]
    pub(crate) fn is_abandoned(&self) -> bool {
        self.watch().is_gone()
    }

    /// Whether the socket has input that was not read.
    pub(crate) fn has_unread(&self) -> bool {
        self.watch().has_unread()
    }

    /// Bytes of memory held for the peer.
    pub(crate) fn held_bytes(&self) -> usize {
        self.input.held_bytes() + self.output.held_bytes()
    }
}
