//! The eviction order of a shard: three lists through its slots.
//!
//! ```text
//!   stored ──► hot ──used again──► warm ◄──used again── cold ──► evicted
//!               └───────otherwise──────────otherwise──────▲
//! ```
//!
//! Hot and warm each have at most a share of the bytes. Items beyond it leave at the ends: when an item is stored, as
//! long as the list is long enough for its share to mean something; else when an item is evicted, which looks across
//! shards.

use super::budget::Stamp;
use super::held::SMALL_LEN_MAX;
use super::slots::{SlotIndex, Slots};

/// No slot.
const NONE: SlotIndex = SlotIndex::MAX;

/// Most items that leave a list when an item is stored.
const MOVES_MAX: usize = 4;

/// The share of warm if items have pages of their own. The longer smaller items stay, the more gaps are between them.
const WARM_PERCENT_OF_LARGE_ITEMS: usize = 60;

/// Fewest items of a list that leave it when an item is stored.
const LONG_LIST: usize = 8;

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

    /// All lists, in the order in which eviction empties them.
    pub(super) const OF_EVICTION: [Self; 3] = [Self::Cold, Self::Hot, Self::Warm];

    /// The list's maximum share of the `bytes` of so many items.
    pub(super) const fn share_of(self, bytes: usize, items: usize) -> usize {
        let percent = match self {
            Self::Warm if bytes > items * SMALL_LEN_MAX => WARM_PERCENT_OF_LARGE_ITEMS,
            _ => self.percent_max(),
        };
        bytes / 100 * percent
    }

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
    /// When the oldest item entered the list.
    oldest_since: Stamp,
    len: usize,
    bytes: usize,
}

impl Default for List {
    fn default() -> Self {
        Self {
            newest: NONE,
            oldest: NONE,
            oldest_since: Stamp::default(),
            len: 0,
            bytes: 0,
        }
    }
}

/// The lists of one shard.
#[derive(Debug, Default)]
pub(super) struct Segments {
    lists: [List; Segment::ALL.len()],
    moves: Moves,
}

/// How many items changed their place in the lists.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moves {
    /// From hot or warm to cold.
    pub to_cold: u64,
    /// From hot or cold to warm.
    pub to_warm: u64,
    /// From the end of warm to its start.
    pub within_warm: u64,
}

impl Moves {
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            to_cold: self.to_cold + other.to_cold,
            to_warm: self.to_warm + other.to_warm,
            within_warm: self.within_warm + other.within_warm,
        }
    }
}

impl Segments {
    /// Adds the item in the slot, which is in no list, as the newest of `segment`.
    pub(super) fn push(&mut self, slots: &mut Slots, index: SlotIndex, segment: Segment, since: Stamp) {
        let list = &mut self.lists[segment as usize];
        let slot = slots.slot_mut(index);
        slot.links = Links { newer: NONE, older: list.newest, segment, since };
        list.bytes += slot.item.as_ref().map_or(0, super::Item::memory_bytes);
        list.len += 1;
        match std::mem::replace(&mut list.newest, index) {
            NONE => (list.oldest, list.oldest_since) = (index, since),
            second => slots.slot_mut(second).links.newer = index,
        }
    }

    /// Removes the item in the slot from its list.
    pub(super) fn unlink(&mut self, slots: &mut Slots, index: SlotIndex) {
        let slot = slots.slot_mut(index);
        let Links { newer, older, segment, .. } = slot.links;
        let list = &mut self.lists[segment as usize];
        list.bytes -= slot.item.as_ref().map_or(0, super::Item::memory_bytes);
        list.len -= 1;
        match newer {
            NONE => list.newest = older,
            newer => {
                let links = &mut slots.slot_mut(newer).links;
                links.older = older;
                if older == NONE {
                    list.oldest_since = links.since;
                }
            }
        }
        match older {
            NONE => list.oldest = newer,
            older => slots.slot_mut(older).links.newer = newer,
        }
    }

    /// Records that the item in slot `to`, which is in a list, was in another slot.
    pub(super) fn moved(&mut self, slots: &mut Slots, to: SlotIndex) {
        let Links { newer, older, segment, .. } = slots.slot_mut(to).links;
        let list = &mut self.lists[segment as usize];
        match newer {
            NONE => list.newest = to,
            newer => slots.slot_mut(newer).links.older = to,
        }
        match older {
            NONE => list.oldest = to,
            older => slots.slot_mut(older).links.newer = to,
        }
    }

    /// Moves items out of lists that exceed their share.
    pub(super) fn move_excess_items(&mut self, slots: &mut Slots, now: Stamp) {
        let bytes: usize = self.lists.iter().map(|list| list.bytes).sum();
        let items: usize = self.lists.iter().map(|list| list.len).sum();
        for segment in [Segment::Hot, Segment::Warm] {
            for _ in 0..MOVES_MAX {
                let list = &self.lists[segment as usize];
                if list.len < LONG_LIST || list.bytes <= segment.share_of(bytes, items) {
                    break;
                }
                self.demote(slots, segment, now);
            }
        }
    }

    /// Moves the oldest item of a list on: to warm if it was used again, else to cold.
    pub(super) fn demote(&mut self, slots: &mut Slots, segment: Segment, now: Stamp) {
        if let Some(oldest) = self.oldest_of(segment) {
            let target = match is_active(slots, oldest) {
                true => Segment::Warm,
                false => Segment::Cold,
            };
            self.transfer(slots, oldest, target, now);
        }
    }

    /// Moves an item that was used again to warm. Returns whether it was.
    pub(super) fn spare(&mut self, slots: &mut Slots, index: SlotIndex, now: Stamp) -> bool {
        let is_spared = is_active(slots, index);
        if is_spared {
            self.transfer(slots, index, Segment::Warm, now);
        }
        is_spared
    }

    /// The oldest item of a list.
    pub(super) fn oldest_of(&self, segment: Segment) -> Option<SlotIndex> {
        let oldest = self.lists[segment as usize].oldest;
        (oldest != NONE).then_some(oldest)
    }

    /// When the oldest item of each list entered it; meaningless for an empty list.
    pub(super) fn oldest_since(&self) -> [Stamp; Segment::ALL.len()] {
        self.lists.each_ref().map(|list| list.oldest_since)
    }

    /// How many items changed their place so far.
    pub(super) fn moves(&self) -> Moves {
        self.moves
    }

    /// Number and bytes of the items in each list.
    pub(super) fn sizes(&self) -> [(usize, usize); Segment::ALL.len()] {
        self.lists.each_ref().map(|list| (list.len, list.bytes))
    }

    fn transfer(&mut self, slots: &mut Slots, index: SlotIndex, target: Segment, now: Stamp) {
        self.unlink(slots, index);
        let slot = slots.slot_mut(index);
        if let Some(item) = &mut slot.item {
            item.clear_active();
        }
        *match (slot.links.segment, target) {
            (Segment::Warm, Segment::Warm) => &mut self.moves.within_warm,
            (_, Segment::Warm) => &mut self.moves.to_warm,
            _ => &mut self.moves.to_cold,
        } += 1;
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
        if let Some(oldest) = indices.last() {
            let since = slots.slot_mut(*oldest).links.since;
            assert_eq!(self.lists[segment as usize].oldest_since, since);
        }
        assert_eq!(self.lists[segment as usize].oldest, indices.last().copied().unwrap_or(NONE));
        indices
    }
}

/// Whether the item in the slot was used again since it came to its list.
fn is_active(slots: &Slots, index: SlotIndex) -> bool {
    slots.item(index).is_some_and(super::Item::is_active)
}
