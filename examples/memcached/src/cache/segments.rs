//! The eviction order of a shard: three lists through its slots.
//!
//! ```text
//!   stored ──► hot ──used again──► warm ◄──used again── cold ──► evicted
//!               └───────otherwise──────────otherwise──────▲
//! ```
//!
//! Hot and warm each have at most a share of the shard's bytes. Items beyond it leave at the ends.

use super::budget::Stamp;
use super::slots::{SlotIndex, Slots};

/// No slot.
const NONE: SlotIndex = SlotIndex::MAX;

/// Most items that change their list when an item is stored or evicted.
const MOVES_MAX: usize = 4;

/// The lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Segment {
    /// Items on probation.
    #[default]
    Hot,
    /// Items that are used repeatedly.
    Warm,
    /// All other items. Eviction examines them first.
    Cold,
}

impl Segment {
    /// All lists, by index.
    pub const ALL: [Self; 3] = [Self::Hot, Self::Warm, Self::Cold];

    /// The list's maximum share of bytes, in percent.
    #[must_use]
    pub const fn percent_max(self) -> usize {
        match self {
            Self::Hot => 20,
            Self::Warm => 40,
            Self::Cold => 100,
        }
    }
}

/// An item's list and its neighbours in the list.
#[derive(Debug, Clone, Copy)]
pub(super) struct Links {
    newer: SlotIndex,
    older: SlotIndex,
    pub(super) segment: Segment,
    /// When the item entered the list.
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
    newest: SlotIndex,
    oldest: SlotIndex,
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
    /// Adds the item in the slot, which is in no list, as the newest of `segment`.
    pub(super) fn push(
        &mut self,
        slots: &mut Slots,
        index: SlotIndex,
        segment: Segment,
        since: Stamp,
    ) {
        let list = &mut self.lists[segment as usize];
        let slot = slots.slot_mut(index);
        slot.links = Links {
            newer: NONE,
            older: list.newest,
            segment,
            since,
        };
        list.bytes += slot.item.as_ref().map_or(0, super::Item::memory_bytes);
        list.len += 1;
        match std::mem::replace(&mut list.newest, index) {
            NONE => list.oldest = index,
            second => slots.slot_mut(second).links.newer = index,
        }
    }

    /// Removes the item in the slot from its list.
    pub(super) fn unlink(&mut self, slots: &mut Slots, index: SlotIndex) {
        let slot = slots.slot_mut(index);
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

    /// Records that the length of an item in `segment` has changed.
    pub(super) fn resized(&mut self, segment: Segment, before: usize, after: usize) {
        let list = &mut self.lists[segment as usize];
        list.bytes = list.bytes - before + after;
    }

    /// Moves items out of lists that exceed their share.
    pub(super) fn move_excess_items(&mut self, slots: &mut Slots, now: Stamp) {
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
    pub(super) fn victim(&mut self, slots: &mut Slots, now: Stamp) -> Option<SlotIndex> {
        for _ in 0..MOVES_MAX {
            let oldest = self.lists[Segment::Cold as usize].oldest;
            if oldest == NONE || self.after(slots, oldest, Segment::Cold) == Segment::Cold {
                break;
            }
            self.transfer(slots, oldest, Segment::Warm, now);
        }
        self.oldest()
    }

    /// The oldest item of the first non-empty list, in the order of eviction.
    pub(super) fn oldest(&self) -> Option<SlotIndex> {
        [Segment::Cold, Segment::Hot, Segment::Warm]
            .into_iter()
            .map(|segment| self.lists[segment as usize].oldest)
            .find(|oldest| *oldest != NONE)
    }

    /// Number and bytes of the items in each list.
    pub(super) fn sizes(&self) -> [(usize, usize); Segment::ALL.len()] {
        self.lists.each_ref().map(|list| (list.len, list.bytes))
    }

    /// The next list of the item in the slot: warm if the item was used again.
    fn after(&self, slots: &Slots, index: SlotIndex, otherwise: Segment) -> Segment {
        match slots.item(index) {
            Some(item) if item.active => Segment::Warm,
            _ => otherwise,
        }
    }

    fn transfer(&mut self, slots: &mut Slots, index: SlotIndex, target: Segment, now: Stamp) {
        self.unlink(slots, index);
        if let Some(item) = &mut slots.slot_mut(index).item {
            item.active = false;
        }
        self.push(slots, index, target, now);
    }

    /// The slot indices of one list, the newest item first.
    #[cfg(test)]
    pub(super) fn indices(&self, slots: &mut Slots, segment: Segment) -> Vec<SlotIndex> {
        let mut indices = Vec::new();
        let mut index = self.lists[segment as usize].newest;
        while index != NONE {
            indices.push(index);
            let links = slots.slot_mut(index).links;
            assert_eq!(links.segment, segment);
            index = links.older;
        }
        assert_eq!(self.lists[segment as usize].len, indices.len());
        assert_eq!(
            self.lists[segment as usize].oldest,
            indices.last().copied().unwrap_or(NONE)
        );
        indices
    }
}
