//! Control requests, which the net worker runs itself and no scheduler hears of.
//!
//! ```text
//!   arrived ──► at hand ──► runs ──► done
//!                  ▲         │
//!                  ├─────────┤ gave way: behind the others
//!                  └── woken ┘ waits
//! ```
//!
//! Each connection has one run in flight, so that there are no more of them than connections and datagrams.

use std::collections::VecDeque;

use psp_policy::{RequestId, RequestType, TypeTable};

/// See the [module](self).
pub(crate) struct Control {
    /// Per type slot, `UNKNOWN` last.
    is_control: Box<[bool]>,
    /// In the order in which they arrived, or may go on.
    at_hand: VecDeque<(RequestId, RequestType)>,
}

impl Control {
    pub(crate) fn new(types: &TypeTable) -> Self {
        Self {
            is_control: { 0..=types.len() }
                .map(|slot| types.is_control(slot))
                .collect(),
            at_hand: VecDeque::new(),
        }
    }

    /// Whether requests of the type at `slot` are control requests.
    #[inline]
    pub(crate) fn has(&self, slot: usize) -> bool {
        self.is_control[slot]
    }

    /// A request may run.
    pub(crate) fn put(&mut self, request: RequestId, request_type: RequestType) {
        self.at_hand.push_back((request, request_type));
    }

    /// The request that runs next.
    pub(crate) fn next(&mut self) -> Option<(RequestId, RequestType)> {
        self.at_hand.pop_front()
    }

    /// How many may run.
    #[inline]
    pub(crate) fn at_hand(&self) -> usize {
        self.at_hand.len()
    }
}
