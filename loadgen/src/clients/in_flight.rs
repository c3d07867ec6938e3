//! The requests on one connection that wait for their replies.
//!
//! ```text
//!   first_id                     next id
//!      ▼                            ▼
//!    [ 7 ] [ - ] [ 9 ] [10 ] [ - ]            -: answered out of order
//!      └ the oldest that waits
//! ```

use std::collections::VecDeque;

use crate::wire::Expected;

/// One request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pending {
    pub(crate) intended_ns: u64,
    /// Number of its command among those of the type.
    pub(crate) command: u32,
    /// Replies that are still to come.
    pub(crate) expected: Expected,
    /// Whether one of its replies was an error. The error has been recorded.
    pub(crate) has_failed: bool,
}

/// The request of a reply.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answered {
    /// A request in flight.
    Pending(u64),
    /// A request that was given up.
    Late,
    /// No request that was sent.
    Nothing,
}

/// Requests in the order of their ids, which is the order of sending. Its length is bounded by the
/// requests sent while the oldest waits, at most until its timeout.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    /// Id of the first slot. Ids begin with 1, because protobuf does not send zeros.
    first_id: u64,
    slots: VecDeque<Option<Pending>>,
    waiting: usize,
}

impl InFlight {
    /// Requests in flight.
    pub(crate) const fn len(&self) -> usize {
        self.waiting
    }

    /// The id that the next request will have.
    pub(crate) fn next_id(&self) -> u64 {
        self.first_id.max(1) + self.slots.len() as u64
    }

    /// Adds the request with [`next_id`](Self::next_id).
    pub(crate) fn push(&mut self, intended_ns: u64, command: u32, expected: Expected) {
        self.first_id = self.first_id.max(1);
        self.waiting += 1;
        self.slots.push_back(Some(Pending { intended_ns, command, expected, has_failed: false }));
    }

    /// The request of a reply that names `id`. A reply that names none is for the oldest request.
    pub(crate) fn answered(&self, id: Option<u64>) -> Answered {
        let id = match id {
            Some(id) => id,
            None if self.waiting > 0 => self.first_id,
            None => return Answered::Nothing,
        };
        if self.get(id).is_some() {
            Answered::Pending(id)
        } else if (1..self.next_id()).contains(&id) {
            Answered::Late
        } else {
            Answered::Nothing
        }
    }

    fn slot(&self, id: u64) -> Option<usize> {
        usize::try_from(id.checked_sub(self.first_id)?).ok()
    }

    fn get(&self, id: u64) -> Option<&Pending> {
        self.slots.get(self.slot(id)?)?.as_ref()
    }

    /// The request of that id, if it is in flight.
    pub(crate) fn get_mut(&mut self, id: u64) -> Option<&mut Pending> {
        let slot = self.slot(id)?;
        self.slots.get_mut(slot)?.as_mut()
    }

    /// Removes the request of that id, if it is in flight.
    pub(crate) fn remove(&mut self, id: u64) -> Option<Pending> {
        let slot = self.slot(id)?;
        let pending = self.slots.get_mut(slot)?.take()?;
        self.waiting -= 1;
        while let Some(None) = self.slots.front() {
            self.slots.pop_front();
            self.first_id += 1;
        }
        Some(pending)
    }

    /// Removes the oldest request if `wanted` accepts it.
    pub(crate) fn pop_oldest_if(&mut self, wanted: impl Fn(&Pending) -> bool) -> Option<Pending> {
        let oldest = self.slots.front()?.as_ref()?;
        if wanted(oldest) {
            self.remove(self.first_id)
        } else {
            None
        }
    }

    /// Removes all requests, the oldest first.
    pub(crate) fn drain(&mut self) -> impl DoubleEndedIterator<Item = Pending> {
        self.first_id = self.next_id();
        self.waiting = 0;
        self.slots.drain(..).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Lookup;

    const ONE: Expected = Expected { replies: 1, lookup: Lookup::None };

    fn sent(count: u64) -> InFlight {
        let mut in_flight = InFlight::default();
        for number in 1..=count {
            assert_eq!(in_flight.next_id(), number);
            in_flight.push(number * 10, 0, ONE);
        }
        in_flight
    }

    fn intended(pending: Option<Pending>) -> Option<u64> {
        pending.map(|pending| pending.intended_ns)
    }

    #[test]
    fn replies_without_ids_are_for_the_oldest() {
        let mut in_flight = sent(2);
        for number in 1..=2 {
            assert_eq!(in_flight.answered(None), Answered::Pending(number));
            assert_eq!(intended(in_flight.remove(number)), Some(number * 10));
        }
        assert_eq!(in_flight.answered(None), Answered::Nothing);
        assert_eq!(in_flight.next_id(), 3);
    }

    #[test]
    fn replies_with_ids_come_in_any_order() {
        let mut in_flight = sent(4);
        for id in [3, 1, 4] {
            assert_eq!(in_flight.answered(Some(id)), Answered::Pending(id));
            assert_eq!(intended(in_flight.remove(id)), Some(id * 10));
            assert_eq!(in_flight.answered(Some(id)), Answered::Late);
        }
        assert_eq!((in_flight.len(), in_flight.next_id()), (1, 5));
        for id in [0, 5, u64::MAX] {
            assert_eq!(in_flight.answered(Some(id)), Answered::Nothing);
        }
        in_flight.get_mut(2).unwrap().has_failed = true;
        assert!(in_flight.remove(2).unwrap().has_failed);
        assert_eq!((in_flight.len(), in_flight.next_id()), (0, 5));
        assert_eq!(in_flight.remove(2), None);
    }

    #[test]
    fn the_oldest_are_given_up_and_all_are_lost() {
        let mut in_flight = sent(5);
        in_flight.remove(2);
        let is_late = |pending: &Pending| pending.intended_ns < 35;
        assert_eq!(intended(in_flight.pop_oldest_if(is_late)), Some(10));
        assert_eq!(intended(in_flight.pop_oldest_if(is_late)), Some(30));
        assert_eq!(in_flight.pop_oldest_if(is_late), None);
        assert_eq!(in_flight.answered(Some(3)), Answered::Late);
        let lost: Vec<_> = in_flight.drain().map(|pending| pending.intended_ns).collect();
        assert_eq!(lost, [40, 50]);
        assert_eq!((in_flight.len(), in_flight.next_id()), (0, 6));
        assert_eq!(in_flight.answered(Some(5)), Answered::Late);
    }
}
