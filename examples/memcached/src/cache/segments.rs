//! Which item of a shard is evicted next: three lists through its slots.
//!
//! ```text
//!   stored ──► hot ──used again──► warm ◄──used again── cold ──► evicted
//!               └───────otherwise──────────otherwise──────▲
//! ```
//!
//! Hot and warm have at most their share of the shard's bytes; what is beyond falls off their ends.

use super::budget::Stamp;
use super::slots::{Place, Slots};

/// No slot.
const NONE: Place = Place::MAX;

/// Most items that leave their list when one is stored or evicted.
const MOVES_MAX: usize = 4;

/// The lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Segment {
    /// Items on probation.
    #[default]
    Hot,
    /// Items that are used again and again.
    Warm,
    /// The others: where eviction looks first.
    Cold,
}

impl Segment {
    /// All lists, by index.
    pub const ALL: [Self; 3] = [Self::Hot, Self::Warm, Self::Cold];

    /// The share of bytes, in percent, that the list keeps.
    #[must_use]
    pub const fn percent_max(self) -> usize {
        match self {
            Self::Hot => 20,
            Self::Warm => 40,
            Self::Cold => 100,
        }
    }
}

/// An item's list and its neighbours there.
#[derive(Debug, Clone, Copy)]
pub(super) struct Links {
    newer: Place,
    older: Place,
    pub(super) segment: Segment,
    /// When the item came into the list.
    pub(super) since: Stamp,
}

impl Default for Links {
    fn default() -> Self {
        Self {
            newer: NONE,
            older: NONE,
            segment: Segment::Hot,
            since: Stamp::default(),
        }
    }
}

#[derive(Debug)]
struct List {
    newest: Place,
    oldest: Place,
    len: usize,
    bytes: usize,
}

impl Default for List {
    fn default() -> Self {
        Self {
            newest: NONE,
            oldest: NONE,
            len: 0,
            bytes: 0,
        }
    }
}

/// The lists of one shard.
#[derive(Debug, Default)]
pub(super) struct Segments {
    lists: [List; Segment::ALL.len()],
}

impl Segments {
    /// Adds the item at `place`, which is in no list, as the newest of `segment`.
    pub(super) fn push(&mut self, slots: &mut Slots, place: Place, segment: Segment, since: Stamp) {
        let list = &mut self.lists[segment as usize];
        let slot = slots.slot_mut(place);
        slot.links = Links {
            newer: NONE,
            older: list.newest,
            segment,
            since,
        };
        list.bytes += slot.item.as_ref().map_or(0, super::Item::memory_bytes);
        list.len += 1;
        match std::mem::replace(&mut list.newest, place) {
            NONE => list.oldest = place,
            second => slots.slot_mut(second).links.newer = place,
        }
    }

    /// Takes the item at `place` out of its list.
    pub(super) fn unlink(&mut self, slots: &mut Slots, place: Place) {
        let slot = slots.slot_mut(place);
        let Links {
            newer,
            older,
            segment,
            ..
        } = slot.links;
        let list = &mut self.lists[segment as usize];
        list.bytes -= slot.item.as_ref().map_or(0, super::Item::memory_bytes);
        list.len -= 1;
        match newer {
            NONE => list.newest = older,
            newer => slots.slot_mut(newer).links.older = older,
        }
        match older {
            NONE => list.oldest = newer,
            older => slots.slot_mut(older).links.newer = newer,
        }
    }

    /// An item of `segment` has another length now.
    pub(super) fn resized(&mut self, segment: Segment, before: usize, after: usize) {
        let list = &mut self.lists[segment as usize];
        list.bytes = list.bytes - before + after;
    }

    /// Moves items on that are too many for their list.
    pub(super) fn settle(&mut self, slots: &mut Slots, now: Stamp) {
        let bytes: usize = self.lists.iter().map(|list| list.bytes).sum();
        for segment in [Segment::Hot, Segment::Warm] {
            for _ in 0..MOVES_MAX {
                let list = &self.lists[segment as usize];
                if list.bytes <= bytes / 100 * segment.percent_max() || list.len <= 1 {
                    break;
                }
                let target = self.after(slots, list.oldest, Segment::Cold);
                self.transfer(slots, list.oldest, target, now);
            }
        }
    }

    /// The item to evict.
    pub(super) fn victim(&mut self, slots: &mut Slots, now: Stamp) -> Option<Place> {
        for _ in 0..MOVES_MAX {
            let oldest = self.lists[Segment::Cold as usize].oldest;
            if oldest == NONE || self.after(slots, oldest, Segment::Cold) == Segment::Cold {
                break;
            }
            self.transfer(slots, oldest, Segment::Warm, now);
        }
        self.oldest()
    }

    /// The oldest item of the first list that has any, in the order of eviction.
    pub(super) fn oldest(&self) -> Option<Place> {
        [Segment::Cold, Segment::Hot, Segment::Warm]
            .into_iter()
            .map(|segment| self.lists[segment as usize].oldest)
            .find(|oldest| *oldest != NONE)
    }

    /// Number and bytes of the items in each list.
    pub(super) fn sizes(&self) -> [(usize, usize); Segment::ALL.len()] {
        self.lists.each_ref().map(|list| (list.len, list.bytes))
    }

    /// Where the item at `place` belongs next: with the warm if it was used again.
    fn after(&self, slots: &Slots, place: Place, otherwise: Segment) -> Segment {
        match slots.item(place) {
            Some(item) if item.active => Segment::Warm,
            _ => otherwise,
        }
    }

    fn transfer(&mut self, slots: &mut Slots, place: Place, target: Segment, now: Stamp) {
        self.unlink(slots, place);
        if let Some(item) = &mut slots.slot_mut(place).item {
            item.active = false;
        }
        self.push(slots, place, target, now);
    }

    /// The places of one list, the newest first.
    #[cfg(test)]
    pub(super) fn places(&self, slots: &mut Slots, segment: Segment) -> Vec<Place> {
        let mut places = Vec::new();
        let mut place = self.lists[segment as usize].newest;
        while place != NONE {
            places.push(place);
            let links = slots.slot_mut(place).links;
            assert_eq!(links.segment, segment);
            place = links.older;
        }
        assert_eq!(self.lists[segment as usize].len, places.len());
        assert_eq!(
            self.lists[segment as usize].oldest,
            places.last().copied().unwrap_or(NONE)
        );
        places
    }
}
