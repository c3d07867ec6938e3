//! Requests in flight by the id in their replies.
//!
//! ```text
//!   oldest id                      next id
//!      ▼                              ▼
//!    [ 7 ] [ - ] [ 9 ] [10 ] [ - ]             -: ended
//!      ▲                  ▲
//!      slot = id modulo the number of slots; an id whose slot is taken is skipped
//! ```

/// Limits of the number of slots.
const SLOTS_MIN: usize = 1 << 10;
const SLOTS_MAX: usize = 1 << 22;

/// Ids that are tried to find a free slot.
const PROBES_MAX: u32 = 64;

/// A ring of slots, each for every n-th id. If replies repeat only low bits, ids still count on.
#[derive(Debug)]
pub(super) struct Ring<T> {
    slots: Vec<Option<(u32, T)>>,
    /// The bits of an id that replies repeat. They distinguish at least all slots.
    named: u32,
    next_id: u32,
    /// All requests with smaller ids have ended.
    oldest_id: u32,
    len: usize,
}

impl<T> Ring<T> {
    /// Room for `count` requests, or fewer if the lowest `named` bits of ids distinguish fewer.
    pub(super) fn new(count: usize, named: u32) -> Self {
        let count = count.clamp(SLOTS_MIN, SLOTS_MAX).next_power_of_two();
        let count = count.min(named as usize + 1);
        Self {
            slots: std::iter::repeat_with(|| None).take(count).collect(),
            named,
            next_id: 0,
            oldest_id: 0,
            len: 0,
        }
    }

    /// Requests in flight.
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    fn slot(&self, id: u32) -> usize {
        id as usize & (self.slots.len() - 1)
    }

    /// The next id with a free slot, if one is near.
    pub(super) fn free_id(&self) -> Option<u32> {
        let mut ids = (0..PROBES_MAX).map(|ahead| self.next_id.wrapping_add(ahead));
        ids.find(|&id| self.slots[self.slot(id)].is_none())
    }

    /// The part of `id` that replies repeat.
    pub(super) const fn name(&self, id: u32) -> u32 {
        id & self.named
    }

    /// Adds a request under an id from [`free_id`](Self::free_id).
    pub(super) fn insert(&mut self, id: u32, request: T) {
        let slot = self.slot(id);
        self.slots[slot] = Some((id, request));
        self.next_id = id.wrapping_add(1);
        self.len += 1;
    }

    /// The request in flight whose replies repeat `name`.
    pub(super) fn get_mut(&mut self, name: u32) -> Option<&mut T> {
        let (slot, named) = (self.slot(name), self.named);
        let (id, request) = self.slots[slot].as_mut()?;
        (*id & named == name).then_some(request)
    }

    /// Removes the request in flight whose replies repeat `name`.
    pub(super) fn remove(&mut self, name: u32) -> Option<T> {
        let (slot, named) = (self.slot(name), self.named);
        let (_, request) = self.slots[slot].take_if(|(id, _)| *id & named == name)?;
        self.len -= 1;
        Some(request)
    }

    /// Removes the oldest request if `wanted` accepts it.
    pub(super) fn pop_oldest_if(&mut self, wanted: impl Fn(&T) -> bool) -> Option<T> {
        while self.oldest_id != self.next_id {
            let (id, slot) = (self.oldest_id, self.slot(self.oldest_id));
            match &self.slots[slot] {
                Some((of, request)) if *of == id && !wanted(request) => return None,
                Some((of, _)) if *of == id => return self.remove(self.name(id)),
                _ => self.oldest_id = id.wrapping_add(1),
            }
        }
        None
    }

    /// All requests in flight.
    pub(super) fn into_requests(self) -> impl Iterator<Item = T> {
        self.slots.into_iter().flatten().map(|(_, request)| request)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SHORT_IDS: u32 = 0xffff;

    fn insert<T>(ring: &mut Ring<T>, request: T) -> u32 {
        let id = ring.free_id().unwrap();
        ring.insert(id, request);
        id
    }

    #[test]
    fn there_are_never_more_slots_than_names() {
        for (count, named, slots) in [
            (0, u32::MAX, SLOTS_MIN),
            (1_025, u32::MAX, 2_048),
            (usize::MAX, u32::MAX, SLOTS_MAX),
            (usize::MAX, SHORT_IDS, 65_536),
        ] {
            assert_eq!(Ring::<u8>::new(count, named).slots.len(), slots);
        }
    }

    #[test]
    fn all_slots_can_be_taken_and_no_more() {
        let mut ring = Ring::new(0, SHORT_IDS);
        for number in 0..SLOTS_MIN {
            insert(&mut ring, number);
        }
        assert_eq!((ring.free_id(), ring.len()), (None, SLOTS_MIN));
        assert_eq!(ring.remove(5), Some(5));
        assert_eq!(ring.free_id(), Some(SLOTS_MIN as u32 + 5));
        assert_eq!(ring.into_requests().count(), SLOTS_MIN - 1);
    }

    /// A lost request keeps its name until it is given up, even after other requests have used all
    /// names several times.
    #[test]
    fn names_come_round_and_a_lost_request_keeps_its_own() {
        let mut ring = Ring::new(0, SHORT_IDS);
        insert(&mut ring, "answered");
        assert_eq!(ring.remove(0), Some("answered"));
        assert_eq!(insert(&mut ring, "lost"), 1);
        for _ in 0..300_000 {
            let id = insert(&mut ring, "answered");
            assert_ne!(ring.name(id), 1);
            assert_eq!(ring.remove(ring.name(id)), Some("answered"));
            assert_eq!(ring.remove(ring.name(id)), None);
        }
        let last = insert(&mut ring, "last");
        assert!(last > 4 * SHORT_IDS);
        assert_eq!(ring.get_mut(1), Some(&mut "lost"));
        assert_eq!(ring.pop_oldest_if(|_| false), None);
        assert_eq!(ring.pop_oldest_if(|_| true), Some("lost"));
        assert_eq!(ring.pop_oldest_if(|_| true), Some("last"));
        assert_eq!((ring.pop_oldest_if(|_| true), ring.len()), (None, 0));
    }

    proptest! {
        /// Compares the ring with a list of the requests in flight, in the order of sending.
        #[test]
        fn requests_end_once_whatever_names_replies_have(
            events in prop::collection::vec((0..4_u8, any::<prop::sample::Index>()), 0..400),
        ) {
            let mut ring = Ring::new(0, SHORT_IDS);
            // Ids wrap, too.
            (ring.next_id, ring.oldest_id) = (u32::MAX - 50, u32::MAX - 50);
            let mut in_flight: Vec<u32> = Vec::new();
            for (event, which) in events {
                match event {
                    0 | 1 => {
                        let id = ring.free_id().unwrap();
                        ring.insert(id, id);
                        in_flight.push(id);
                    }
                    2 if !in_flight.is_empty() => {
                        let id = in_flight.remove(which.index(in_flight.len()));
                        prop_assert_eq!(ring.get_mut(ring.name(id)).copied(), Some(id));
                        prop_assert_eq!(ring.remove(ring.name(id)), Some(id));
                        prop_assert_eq!(ring.get_mut(ring.name(id)), None);
                    }
                    _ => {
                        let oldest = (!in_flight.is_empty()).then(|| in_flight.remove(0));
                        prop_assert_eq!(ring.pop_oldest_if(|_| true), oldest);
                    }
                }
                prop_assert_eq!(ring.len(), in_flight.len());
            }
            let mut left: Vec<_> = ring.into_requests().collect();
            left.sort_unstable();
            in_flight.sort_unstable();
            prop_assert_eq!(left, in_flight);
        }
    }
}
