//! Log of connections that are closed for what is held for them.

use crate::peer::Peer;

/// Says which connections are closed for what is held for them: of one in a second at most.
#[derive(Debug, Default)]
pub(super) struct ClosedLog {
    next_ns: u64,
    /// Those that it was silent about.
    unsaid: u64,
}

impl ClosedLog {
    pub(super) fn say(&mut self, peer: Peer, held_bytes: usize, limit_bytes: usize, why: &str, now_ns: u64) {
        const INTERVAL_NS: u64 = 1_000_000_000;
        if now_ns < self.next_ns {
            self.unsaid += 1;
            return;
        }
        self.next_ns = now_ns + INTERVAL_NS;
        let unsaid = std::mem::take(&mut self.unsaid);
        tracing::warn!(%peer, held_bytes, limit_bytes, unsaid, "connection closed: {why}");
    }
}
