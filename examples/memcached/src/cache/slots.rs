//! Slots for items. An item keeps its slot index for as long as it lives.
//!
//! ```text
//!   index    0   1   2   3   4   5
//!          [ ■ | · | ■ | ■ | · | ■ ]    ■ points to an item's memory, · is free
//! ```
//!
//! Each item has memory of its own, which goes back to the allocator with the item. A new item takes the
//! lowest free index, so that the table gets shorter after items are gone.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::held::held_bytes;
use super::item::Item;
use super::segments::Links;

/// Bytes of an item in its slot, and of the slot in a table that has just grown.
pub(super) const SLOT_LEN: usize =
    held_bytes(size_of::<Slot>()) + 2 * size_of::<Option<Box<Slot>>>();

/// Fewest entries of a table that gets smaller.
const SHRINK_LEN_MIN: usize = 64;

/// Index of a slot within its shard.
pub(super) type SlotIndex = u32;

/// A slot: its item, and the item's neighbours in a list of the shard.
#[derive(Debug, Default)]
pub(super) struct Slot {
    pub(super) item: Option<Item>,
    pub(super) links: Links,
}

/// All slots of a shard.
#[derive(Debug, Default)]
pub(super) struct Slots {
    slots: Vec<Option<Box<Slot>>>,
    /// The free slots, and indices that were free before.
    free: BinaryHeap<Reverse<SlotIndex>>,
}

/// Whether a table of this many entries has room for so many more that it should become smaller.
pub(super) fn is_too_roomy(len: usize, capacity: usize) -> bool {
    capacity >= SHRINK_LEN_MIN && len < capacity / 4
}

impl Slots {
    /// Number of slots, including free ones. Every slot index is below it.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Stores an item in a free slot.
    pub(super) fn insert(&mut self, item: Item) -> SlotIndex {
        let slot = Some(Box::new(Slot {
            item: Some(item),
            links: Links::default(),
        }));
        while let Some(Reverse(index)) = self.free.pop() {
            if let Some(free @ None) = self.slots.get_mut(index as usize) {
                *free = slot;
                return index;
            }
        }
        let index = SlotIndex::try_from(self.len()).expect("memory ends before slot indices do");
        self.slots.push(slot);
        index
    }

    /// Takes the item out of its slot.
    pub(super) fn remove(&mut self, index: SlotIndex) -> Option<Item> {
        let item = self.slots.get_mut(index as usize)?.take()?.item;
        self.free.push(Reverse(index));
        while let Some(None) = self.slots.last() {
            self.slots.pop();
        }
        if is_too_roomy(self.slots.len(), self.slots.capacity()) {
            self.slots.shrink_to(self.slots.len() * 2);
        }
        let len = self.slots.len();
        if is_too_roomy(len, self.free.len()) {
            self.free.retain(|Reverse(index)| (*index as usize) < len);
            self.free.shrink_to_fit();
        }
        item
    }

    /// Copies the item of a slot to fresh memory. Returns the old memory, and how many bytes were copied.
    pub(super) fn relocate(&mut self, index: SlotIndex) -> Option<(Box<Slot>, usize)> {
        let slot = self.slots.get_mut(index as usize)?.as_mut()?;
        let item = slot.item.as_ref()?.relocated();
        let copied = item.memory_bytes();
        let fresh = Box::new(Slot {
            item: Some(item),
            links: slot.links,
        });
        Some((std::mem::replace(slot, fresh), copied))
    }

    pub(super) fn item(&self, index: SlotIndex) -> Option<&Item> {
        self.slots.get(index as usize)?.as_ref()?.item.as_ref()
    }

    /// A slot with an item.
    pub(super) fn slot_mut(&mut self, index: SlotIndex) -> &mut Slot {
        let slot = self.slots[index as usize].as_deref_mut();
        slot.expect("a slot that is listed has an item")
    }
}

/// A slot has no byte more than a class of the allocator.
const _: () = assert!(size_of::<Slot>() == 96);

#[cfg(test)]
mod tests {
    use psp_store::Element;

    use super::super::item::Content;
    use super::*;

    fn item(number: u32) -> Item {
        let content = Content::new(Element::from(b"value"), 1);
        Item::new(&number.to_be_bytes(), content, 0, 0)
    }

    #[test]
    fn tables_get_smaller_when_items_are_gone() {
        let mut slots = Slots::default();
        for number in 0..10_000 {
            assert_eq!(slots.insert(item(number)), number);
        }
        for index in (0..10_000).filter(|index| index % 100 != 0) {
            assert!(slots.remove(index).is_some());
        }
        // Each new item takes the lowest free slot, while the others leave.
        for index in (0..10_000).step_by(100) {
            slots.insert(item(index));
            assert!(slots.remove(index).is_some());
        }
        assert!(slots.len() <= 201, "{}", slots.len());
        assert!(slots.slots.capacity() <= 1024 && slots.free.capacity() <= 1024);
        let len = slots.len();
        let left: Vec<_> = (0..len as u32)
            .filter(|index| slots.remove(*index).is_some())
            .collect();
        assert!(left.len() <= 100 && slots.len() == 0);
        assert_eq!(slots.insert(item(0)), 0);
    }

    #[test]
    fn a_relocated_item_is_the_same() {
        let mut slots = Slots::default();
        let long = vec![7; 1000];
        let content = Content::new(Element::from(long.as_slice()), 3);
        let index = slots.insert(Item::new(b"key", content, 1, 2));
        let (old, copied) = slots.relocate(index).expect("an item");
        assert!(copied >= 1000);
        let (old, new) = (
            old.item.expect("the item"),
            slots.item(index).expect("the item"),
        );
        assert_eq!((old.key(), &old.content), (new.key(), &new.content));
        assert_ne!(old.content.value.as_ptr(), new.content.value.as_ptr());
        assert!(slots.relocate(index + 1).is_none());
    }
}
