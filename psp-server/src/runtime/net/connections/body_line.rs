//! The connections whose bodies wait for room in the budget.

use std::collections::VecDeque;

use crate::transport::request_key::ConnectionIndex;

/// How long the line may wait until somebody looks whether there is room: other threads give some back, and connections
/// become stale.
const LOOK_INTERVAL_NS: u64 = 10_000_000;

/// The connections whose bodies wait for room, the first to come first.
#[derive(Debug, Default)]
pub(super) struct BodyLine {
    pub(super) order: VecDeque<ConnectionIndex>,
    pub(super) looked_ns: u64,
}

impl BodyLine {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// When somebody has to look whether there is room, at the latest.
    pub(super) fn deadline_ns(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.looked_ns.saturating_add(LOOK_INTERVAL_NS))
    }
}
