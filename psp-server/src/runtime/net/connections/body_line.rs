//! The connections whose bodies wait for room in the budget.

use std::collections::VecDeque;

use crate::transport::budget::EXEMPT_BYTES;
use crate::transport::request_key::ConnectionIndex;

/// How long the line may wait until somebody looks whether there is room: other threads give some back, and connections
/// become stale.
const LOOK_INTERVAL_NS: u64 = 10_000_000;

/// How long a body waits. What others hold may never become free: each of them may have its 64 KiB for as long as it
/// likes.
const PATIENCE_NS: u64 = 30_000_000_000;
/// The part of the budget that the line may hold: else it would wait for what it holds itself.
const BUDGET_DIVISOR: usize = 4;

/// The connections whose bodies wait for room, the first to come first.
#[derive(Debug, Default)]
pub(super) struct BodyLine {
    /// With the times at which they came.
    order: VecDeque<(u64, ConnectionIndex)>,
    pub(super) looked_ns: u64,
}

impl BodyLine {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Whether another connection may wait. `budget_bytes` is the budget for all.
    pub(super) fn has_place(&self, budget_bytes: usize) -> bool {
        (self.order.len() + 1).saturating_mul(EXEMPT_BYTES) <= budget_bytes / BUDGET_DIVISOR
    }

    pub(super) fn push(&mut self, now_ns: u64, index: ConnectionIndex) {
        self.order.push_back((now_ns, index));
    }

    /// The first one, and whether it has waited for as long as it may.
    #[inline]
    pub(super) fn first(&self, now_ns: u64) -> Option<(ConnectionIndex, bool)> {
        let &(since_ns, index) = self.order.front()?;
        Some((index, now_ns.saturating_sub(since_ns) >= PATIENCE_NS))
    }

    pub(super) fn pop(&mut self) {
        self.order.pop_front();
    }

    /// When somebody has to look whether there is room, at the latest.
    pub(super) fn deadline_ns(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.looked_ns.saturating_add(LOOK_INTERVAL_NS))
    }
}
