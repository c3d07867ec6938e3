//! Buffers, and the bytes held for all peers.

use psp_protocols::Framing;

use super::slot::Slot;
use crate::telemetry::NetCounters;
use crate::transport::connection::Connection;
use crate::transport::input::BufferPool;

/// Output buffers that are kept when no connection needs them.
const OUTPUT_BUFFERS_KEEP: usize = 256;
/// A connection that holds no more than this is not closed for the memory that others hold.
const HELD_BYTES_EXEMPT: usize = 64 * 1024;

/// The memory of all connections.
pub(super) struct Memory {
    pub(super) input: BufferPool,
    /// Buffers for the output of connections that have requests in flight.
    pub(super) output: Vec<Vec<u8>>,
    held_bytes: usize,
    held_bytes_max: usize,
}

impl Memory {
    /// `held_bytes_max` is the limit for all connections together.
    pub(super) fn new(held_bytes_max: usize) -> Self {
        Self {
            input: BufferPool::new(),
            output: Vec::with_capacity(OUTPUT_BUFFERS_KEEP),
            held_bytes: 0,
            held_bytes_max,
        }
    }

    /// Takes back the buffers that a connection does not need while it waits for its peer.
    pub(super) fn take_back<C>(&mut self, connection: &mut Connection<C>) {
        connection.input.return_buffer(&mut self.input);
        connection.return_buffers(&mut self.output);
    }

    /// Counts what a connection holds by now. `false` if the sum is over the limit and this connection has to be
    /// closed for it.
    pub(super) fn account<F: Framing, C>(
        &mut self,
        slot: &mut Slot<F, C>,
        net: &NetCounters,
    ) -> bool {
        let stream = slot.phase.stream();
        let held_bytes = stream.map_or(0, |stream| stream.connection.held_bytes());
        if held_bytes == slot.held_bytes {
            return true;
        }
        self.held_bytes = self.held_bytes - slot.held_bytes + held_bytes;
        slot.held_bytes = held_bytes;
        let within = held_bytes <= HELD_BYTES_EXEMPT || self.held_bytes <= self.held_bytes_max;
        if !within {
            net.connections_over_budget.add(1);
        }
        net.buffered_bytes.set(self.held_bytes as u64);
        within
    }

    /// A connection that held `held_bytes` was closed.
    pub(super) fn release(&mut self, held_bytes: usize, net: &NetCounters) {
        self.held_bytes -= held_bytes;
        net.buffered_bytes.set(self.held_bytes as u64);
    }
}
