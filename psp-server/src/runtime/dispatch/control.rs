//! Control requests, which the net worker runs itself and no scheduler hears of.
//!
//! ```text
//!   arrived ──► at hand ──► runs ──► done
//!                  ▲         │
//!                  ├─────────┤ yielded: behind the others
//!                  └── woken ┘ waits
//! ```
//!
//! Each connection has one run in flight, so that there are no more of them than connections and datagrams. Those that
//! have begun and yielded, or wait, have a context each: as long as there are as many as may be, no others begin.

use std::collections::VecDeque;

use hashbrown::HashSet;
use psp_policy::{RequestId, RequestType, TypeTable};

/// See the [module](self).
pub(crate) struct Control {
    /// Per type slot, `UNKNOWN` last.
    is_control: Box<[bool]>,
    /// In the order in which they arrived, or may go on.
    at_hand: VecDeque<(RequestId, RequestType)>,
    /// Those that have begun and not ended.
    begun: HashSet<RequestId>,
    begun_max: usize,
}

impl Control {
    /// Up to `begun_max` of them may have begun.
    pub(crate) fn new(types: &TypeTable, begun_max: usize) -> Self {
        Self {
            is_control: { 0..=types.len() }.map(|slot| types.is_control(slot)).collect(),
            at_hand: VecDeque::new(),
            begun: HashSet::new(),
            begun_max,
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

    /// The request ended its turn, and goes on later.
    pub(crate) fn note_begun(&mut self, request: RequestId) {
        self.begun.insert(request);
    }

    /// The request has ended.
    pub(crate) fn note_ended(&mut self, request: RequestId) {
        if !self.begun.is_empty() {
            self.begun.remove(&request);
        }
    }

    /// The request that runs next.
    pub(crate) fn next(&mut self) -> Option<(RequestId, RequestType)> {
        if self.may_begin() {
            return self.at_hand.pop_front();
        }
        let begun = |(request, _): &(RequestId, RequestType)| self.begun.contains(request);
        let at = self.at_hand.iter().position(begun)?;
        self.at_hand.remove(at)
    }

    /// How many may run.
    #[inline]
    pub(crate) fn at_hand(&self) -> usize {
        if self.may_begin() {
            return self.at_hand.len();
        }
        let requests = self.at_hand.iter();
        requests.filter(|(request, _)| self.begun.contains(request)).count()
    }

    #[inline]
    fn may_begin(&self) -> bool {
        self.begun.len() < self.begun_max
    }
}

#[cfg(test)]
mod tests {
    use psp_policy::TypeSpec;

    use super::*;

    #[test]
    fn no_request_begins_while_as_many_as_may_have_begun() {
        let types = [TypeSpec::new("PING").control()].into_iter().collect();
        let mut control = Control::new(&types, 1);
        let ping = RequestType::new(0);
        let put = |control: &mut Control, id| control.put(RequestId(id), ping);
        let next = |control: &mut Control| control.next().map(|(request, _)| request.0);
        put(&mut control, 1);
        put(&mut control, 2);
        assert_eq!((control.at_hand(), next(&mut control)), (2, Some(1)));
        control.note_begun(RequestId(1));
        assert_eq!((control.at_hand(), next(&mut control)), (0, None), "it waits");
        put(&mut control, 1);
        assert_eq!((control.at_hand(), next(&mut control)), (1, Some(1)));
        control.note_ended(RequestId(1));
        assert_eq!((control.at_hand(), next(&mut control)), (1, Some(2)));
    }
}
