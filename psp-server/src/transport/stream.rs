//! One TCP connection.

use std::net::SocketAddr;

use mio::net::TcpStream;
use smallvec::SmallVec;

use super::input::InputBuffer;
use super::output::{Flush, OutputQueue};
use crate::policy::Sample;
use crate::request_type::RequestType;

/// Requests that travel together at the most.
pub(crate) const RUN_LEN_MAX: usize = 64;

/// A connection and all that is in flight on it. It has one owner at a time: the net worker, or
/// the worker that runs its requests. That keeps replies in order without a lock.
pub(crate) struct Stream<C> {
    /// Its place in the net worker's table.
    pub(crate) slot: u32,
    pub(crate) socket: TcpStream,
    pub(crate) peer: SocketAddr,
    /// The handler's state of the connection.
    pub(crate) state: C,
    pub(crate) input: InputBuffer,
    pub(crate) output: OutputQueue,
    /// The requests at the start of `input` that are to be run. Empty: send output only.
    pub(crate) run: SmallVec<[Frame; 8]>,
    /// How many requests of the run are done.
    pub(crate) done: usize,
    /// Bytes after the run that belong to its last request and are dropped unseen.
    pub(crate) discard_after_run: u64,
    /// What the worker measured.
    pub(crate) samples: SmallVec<[Sample; 4]>,
    /// How the last flush ended.
    pub(crate) flush: Flush,
    /// Close once the output is sent.
    pub(crate) closing: bool,
    /// The socket failed; nothing more can be sent.
    pub(crate) failed: bool,
}

/// One request of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame {
    pub(crate) len: usize,
    pub(crate) request_type: RequestType,
    pub(crate) arrived_ns: u64,
}

impl<C> Stream<C> {
    pub(crate) fn new(slot: u32, socket: TcpStream, peer: SocketAddr, state: C) -> Self {
        Self {
            slot,
            socket,
            peer,
            state,
            input: InputBuffer::default(),
            output: OutputQueue::default(),
            run: SmallVec::new(),
            done: 0,
            discard_after_run: 0,
            samples: SmallVec::new(),
            flush: Flush::Empty,
            closing: false,
            failed: false,
        }
    }

    /// Sends output, at most `budget_bytes` of it, and says how many bytes went.
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
