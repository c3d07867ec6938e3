//! The connections whose peers may read later, in the order in which they are looked at.

use std::collections::VecDeque;

use crate::transport::request_key::ConnectionIndex;

/// A socket with so much unread input may have no room for more: its peer cannot write on.
pub(super) const FULL_BYTES: usize = 48 * 1024;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Watched {
    /// With the times at which they are looked at.
    line: VecDeque<(u64, ConnectionIndex)>,
    peeked: Vec<u8>,
}

impl Watched {
    pub(super) fn len(&self) -> usize {
        self.line.len()
    }

    pub(super) fn push(&mut self, at_ns: u64, index: ConnectionIndex) {
        self.line.push_back((at_ns, index));
    }

    /// When the first one is due.
    #[inline]
    pub(super) fn next_ns(&self) -> Option<u64> {
        self.line.front().map(|&(at_ns, _)| at_ns)
    }

    /// The next one that is due.
    #[inline]
    pub(super) fn pop_due(&mut self, now_ns: u64) -> Option<ConnectionIndex> {
        let &(_, index) = self.line.front().filter(|(at_ns, _)| *at_ns <= now_ns)?;
        self.line.pop_front();
        Some(index)
    }

    /// Room for what is in a socket.
    pub(super) fn room(&mut self) -> &mut [u8] {
        self.peeked.resize(FULL_BYTES, 0);
        &mut self.peeked
    }
}
