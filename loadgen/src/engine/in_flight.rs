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
    /// The replies that are still to come.
    pub(crate) expected: Expected,
    /// Whether one of its replies was an error, and so was recorded.
    pub(crate) has_failed: bool,
}

/// What a reply answers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answered {
    /// A request that waits for it.
    Pending(u64),
    /// One that was given up.
    Late,
    /// None that was sent.
    Nothing,
}

/// Requests in the order of their ids, which is that of sending. Its length is bounded by what is
/// sent while the oldest waits, at most until its timeout.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    /// Id of the first place. Ids begin with 1: protobuf does not send zeros.
    first_id: u64,
    places: VecDeque<Option<Pending>>,
    waiting: usize,
}

impl InFlight {
    /// Requests that wait.
    pub(crate) const fn len(&self) -> usize {
        self.waiting
    }

    /// The id that the next request will have.
    pub(crate) fn next_id(&self) -> u64 {
        self.first_id.max(1) + self.places.len() as u64
    }

    /// Adds the request with [`next_id`](Self::next_id).
    pub(crate) fn push(&mut self, intended_ns: u64, expected: Expected) {
        self.first_id = self.first_id.max(1);
        self.waiting += 1;
        self.places.push_back(Some(Pending {
            intended_ns,
            expected,
            has_failed: false,
        }));
    }

    /// What a reply answers that names `id`, or that names none and so is for the oldest.
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

    fn place(&self, id: u64) -> Option<usize> {
        usize::try_from(id.checked_sub(self.first_id)?).ok()
    }

    fn get(&self, id: u64) -> Option<&Pending> {
        self.places.get(self.place(id)?)?.as_ref()
    }

    /// The request of that id, if it waits.
    pub(crate) fn get_mut(&mut self, id: u64) -> Option<&mut Pending> {
        let place = self.place(id)?;
        self.places.get_mut(place)?.as_mut()
    }

    /// Takes the request of that id out, if it waits.
    pub(crate) fn remove(&mut self, id: u64) -> Option<Pending> {
        let place = self.place(id)?;
        let pending = self.places.get_mut(place)?.take()?;
        self.waiting -= 1;
        while let Some(None) = self.places.front() {
            self.places.pop_front();
            self.first_id += 1;
        }
        Some(pending)
    }

    /// Takes the oldest out if `wanted`.
    pub(crate) fn pop_oldest_if(&mut self, wanted: impl Fn(&Pending) -> bool) -> Option<Pending> {
        let oldest = self.places.front()?.as_ref()?;
        if wanted(oldest) {
            self.remove(self.first_id)
        } else {
            None
        }
    }

    /// Takes all out, the oldest first.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Pending> {
        self.first_id = self.next_id();
        self.waiting = 0;
        self.places.drain(..).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Lookup;

    const ONE: Expected = Expected {
        replies: 1,
        lookup: Lookup::None,
    };

    fn sent(count: u64) -> InFlight {
        let mut in_flight = InFlight::default();
        for number in 1..=count {
            assert_eq!(in_flight.next_id(), number);
            in_flight.push(number * 10, ONE);
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
        let lost: Vec<_> = in_flight
            .drain()
            .map(|pending| pending.intended_ns)
            .collect();
        assert_eq!(lost, [40, 50]);
        assert_eq!((in_flight.len(), in_flight.next_id()), (0, 6));
        assert_eq!(in_flight.answered(Some(5)), Answered::Late);
    }
}
