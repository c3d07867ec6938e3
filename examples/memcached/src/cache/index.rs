//! The index of a shard: a table from the tags of keys to slots.
//!
//! ```text
//!   tag ──► home      0    1    2    3    4    5
//!                   [ · | t:5 | t:0 | · | t:7 | · ]     t: low bits of the tag, then the slot's index
//! ```
//!
//! An entry is in the first free place from its home on. It has as many bits of the tag as the index leaves, so that
//! few other items are looked at.

use super::held::held_bytes;
use super::item::Item;
use super::slots::{SlotIndex, Slots, is_too_roomy};

/// Bytes of an item's part of a table that has just grown.
pub(super) const ENTRY_LEN: usize = 2 * size_of::<u32>();

/// A place that ends the search for an entry.
const EMPTY: u32 = u32::MAX;

/// A place whose entry was removed. Its index is that of no item.
const REMOVED: u32 = u32::MAX - 1;

/// The table.
#[derive(Debug, Default)]
pub(super) struct Index {
    entries: Box<[u32]>,
    /// Bits of an entry that are the index of a slot.
    index_bits: u32,
    /// Places that are not empty.
    used: usize,
}

impl Index {
    /// The slot of the item with this tag that `is_wanted`.
    pub(super) fn find(&self, slots: &Slots, tag: u32, is_wanted: impl Fn(&Item) -> bool) -> Option<SlotIndex> {
        let own = self.entry(tag, 0);
        let found = self.places(tag).find_map(|place| {
            let entry = self.entries[place];
            if entry == EMPTY {
                return Some(None);
            }
            // Of a mere tag the index is 0.
            let index = entry ^ own;
            let is_found =
                index <= self.index_max() && slots.item(index).is_some_and(|item| item.tag() == tag && is_wanted(item));
            is_found.then_some(Some(index))
        });
        found.flatten()
    }

    /// Adds the item in the slot.
    pub(super) fn insert(&mut self, slots: &Slots, index: SlotIndex) {
        if self.used >= self.entries.len() / 4 * 3 || index > self.index_max() {
            self.rebuild(slots);
        } else {
            self.put(slots, index);
        }
    }

    /// Removes the item in the slot.
    pub(super) fn remove(&mut self, slots: &Slots, index: SlotIndex) {
        self.replace(slots, index, index, |_| REMOVED);
    }

    /// Records that the item in slot `to` was in slot `from`.
    pub(super) fn moved(&mut self, slots: &Slots, from: SlotIndex, to: SlotIndex) {
        self.replace(slots, from, to, |tag| tag | to);
    }

    /// Makes the table smaller if few items are left.
    pub(super) fn shrink(&mut self, slots: &Slots) {
        if is_too_roomy(slots.items(), self.entries.len()) {
            self.rebuild(slots);
        }
    }

    /// Replaces the entry with index `old` of the item in slot `now`. `new` gets the bits of the tag.
    fn replace(&mut self, slots: &Slots, old: SlotIndex, now: SlotIndex, new: impl Fn(u32) -> u32) {
        let Some(tag) = slots.item(now).map(Item::tag) else {
            return;
        };
        let entry = self.entry(tag, old);
        let place = self.places(tag).find(|place| self.entries[*place] == entry);
        if let Some(place) = place {
            self.entries[place] = new(self.entry(tag, 0));
        }
    }

    /// Makes a table of the items that there are, with room for a third more.
    fn rebuild(&mut self, slots: &Slots) {
        let len = held_bytes((slots.items() + 2) * 9 / 5 * size_of::<u32>()) / size_of::<u32>();
        self.entries = vec![EMPTY; len].into();
        self.index_bits = usize::BITS - (slots.len() * 2 + 64).leading_zeros();
        self.used = 0;
        for index in 0..slots.len() as SlotIndex {
            self.put(slots, index);
        }
    }

    fn put(&mut self, slots: &Slots, index: SlotIndex) {
        let Some(tag) = slots.item(index).map(Item::tag) else {
            return;
        };
        let is_free = |place: &usize| matches!(self.entries[*place], EMPTY | REMOVED);
        if let Some(place) = self.places(tag).find(is_free) {
            self.used += usize::from(self.entries[place] == EMPTY);
            self.entries[place] = self.entry(tag, index);
        }
    }

    /// All places, in the order in which an entry with this tag takes them.
    fn places(&self, tag: u32) -> impl Iterator<Item = usize> + use<> {
        let len = self.entries.len();
        let home = ((u64::from(tag) * len as u64) >> u32::BITS) as usize;
        (home..len).chain(0..home)
    }

    fn entry(&self, tag: u32, index: SlotIndex) -> u32 {
        tag << self.index_bits | index
    }

    /// The highest index that an entry can have: not one of [`EMPTY`] or [`REMOVED`].
    fn index_max(&self) -> SlotIndex {
        (1_u32 << self.index_bits).saturating_sub(3)
    }
}

#[cfg(test)]
mod tests {
    use super::super::item::Content;
    use super::super::value::Value;
    use super::*;

    #[test]
    fn items_are_found_however_many_come_and_go() {
        let (mut slots, mut index) = (Slots::default(), Index::default());
        // A tag for each 8 keys, and all low bits the same.
        let tag = |key: u32| (key / 8).wrapping_mul(0x9e37_0000) | 0xffff;
        for key in 0..20_000_u32 {
            let name = key.to_be_bytes();
            let content = Content::new(Value::new(&name, []), 0);
            let slot = slots.insert(Item::new(content, 0, 0, tag(key)));
            index.insert(&slots, slot);
            let find = |key: u32| {
                let name = key.to_be_bytes();
                index.find(&slots, tag(key), |item| item.key() == name)
            };
            assert_eq!(find(key), Some(slot));
            assert_eq!(find(key + 1), None);
            let old = key / 3 * 2;
            if let Some(slot) = find(old) {
                index.remove(&slots, slot);
                slots.remove(slot);
                index.shrink(&slots);
                assert_eq!(
                    index.find(&slots, tag(old), |item| item.tag() == tag(old) && item.key() == old.to_be_bytes()),
                    None
                );
            }
        }
        let entries = index.entries.len();
        assert!(entries > slots.items() && entries < slots.items() * 2 + 64);
    }
}
