//! Buffers, and the bytes held for all peers.

use crate::shared::Shared;
use crate::transport::connection::Connection;
use crate::transport::input::BufferPool;

/// Output buffers that are kept when no connection needs them.
const OUTPUT_BUFFERS_KEEP: usize = 256;

/// The memory of all connections.
pub(super) struct Memory {
    pub(super) input: BufferPool,
    /// Buffers for the output of connections that have requests in flight.
    pub(super) output: Vec<Vec<u8>>,
}

impl Memory {
    pub(super) fn new() -> Self {
        Self {
            input: BufferPool::new(),
            output: Vec::with_capacity(OUTPUT_BUFFERS_KEEP),
        }
    }

    /// Takes back the buffers that a connection does not need while it waits for its peer.
    pub(super) fn take_back<C>(&mut self, connection: &mut Connection<C>) {
        connection.input.return_buffer(&mut self.input);
        connection.return_buffers(&mut self.output);
    }

    /// Counts what a connection holds by now. `false` if it holds more than its share, or all connections together more
    /// than they may.
    pub(super) fn account<C>(connection: &mut Connection<C>, shared: &Shared) -> bool {
        let budget = &shared.buffers;
        if connection.reserved_bytes == 0 && connection.held_bytes() == connection.counted_bytes {
            return true;
        }
        connection.count(budget);
        let held_bytes = connection.counted_bytes;
        held_bytes <= budget.exempt_bytes() || (held_bytes <= budget.share_bytes() && budget.is_kept())
    }

    /// The connection is closed.
    pub(super) fn release<C>(connection: &Connection<C>, shared: &Shared) {
        let counted_bytes = connection.counted_bytes + connection.reserved_bytes;
        shared.buffers.give_back(counted_bytes);
    }
}
