//! Slots for items, in chunks.
//!
//! ```text
//!   index    0   1   2   3   4   5   6   7     8   9 ..
//!          [ ■ | · | ■ | ■ | · | ■ | ■ | ■ ] [ ■ | · ..     ■ an item, · free
//! ```
//!
//! A new item takes the lowest free slot. If many slots are free, items move from the end to free slots, and the last
//! chunks go back to the allocator.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::item::Item;
use super::segments::Links;
use super::value::Value;

/// Slots of a chunk.
const CHUNK_LEN: usize = 8;

/// Of so many slots one may be free, beside a chunk, without items being moved.
const FREE_PARTS: usize = 8;

/// Bytes of an item's slot, and of its part of free slots and of the table of chunks.
pub(super) const SLOT_LEN: usize =
    size_of::<Slot>() + size_of::<Slot>() / FREE_PARTS + 2 * size_of::<Box<Chunk>>() / CHUNK_LEN;

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

type Chunk = [Slot; CHUNK_LEN];

/// All slots of a shard.
#[derive(Debug, Default)]
pub(super) struct Slots {
    #[expect(clippy::vec_box, reason = "a table that grows copies no slots")]
    chunks: Vec<Box<Chunk>>,
    /// Slots up to the last that has an item.
    len: usize,
    items: usize,
    /// The free slots, and indices that were free before.
    free: BinaryHeap<Reverse<SlotIndex>>,
}

/// Whether a table of this many entries has room for so many more that it should become smaller.
pub(super) fn is_too_roomy(len: usize, capacity: usize) -> bool {
    capacity >= SHRINK_LEN_MIN && len < capacity / 4
}

const fn place_of(index: SlotIndex) -> (usize, usize) {
    (index as usize / CHUNK_LEN, index as usize % CHUNK_LEN)
}

impl Slots {
    /// Number of slots, including free ones. Every index of a slot with an item is below it.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Number of items.
    pub(super) fn items(&self) -> usize {
        self.items
    }

    /// Stores an item in a free slot.
    pub(super) fn insert(&mut self, item: Item) -> SlotIndex {
        let index = self.take_free().unwrap_or_else(|| {
            if self.len == self.chunks.len() * CHUNK_LEN {
                self.chunks.push(Box::default());
            }
            self.len += 1;
            SlotIndex::try_from(self.len - 1).expect("memory ends before slot indices do")
        });
        self.items += 1;
        self.slot_mut(index).item = Some(item);
        index
    }

    /// Takes the item out of its slot.
    pub(super) fn remove(&mut self, index: SlotIndex) -> Option<Item> {
        let (chunk, place) = place_of(index);
        let item = self.chunks.get_mut(chunk)?[place].item.take()?;
        self.items -= 1;
        self.free.push(Reverse(index));
        self.trim();
        Some(item)
    }

    /// Whether so many slots are free that items should move together.
    pub(super) fn is_sparse(&self) -> bool {
        self.len - self.items >= CHUNK_LEN + self.len / FREE_PARTS
    }

    /// Moves the last item to the lowest free slot. Returns the slot in which it was, and that in which it is.
    pub(super) fn move_last(&mut self) -> Option<(SlotIndex, SlotIndex)> {
        let to = self.take_free()?;
        let from = (self.len - 1) as SlotIndex;
        *self.slot_mut(to) = std::mem::take(self.slot_mut(from));
        self.trim();
        Some((from, to))
    }

    /// Copies the item of a slot to fresh memory, and with the first of a chunk the chunk. Returns how many bytes were
    /// copied, and the old memory.
    pub(super) fn relocate(&mut self, index: SlotIndex) -> Option<(usize, Value)> {
        let (chunk, place) = place_of(index);
        let chunk = self.chunks.get_mut(chunk)?;
        if place == 0 {
            let fresh = Box::new(std::mem::take(&mut **chunk));
            *chunk = fresh;
        }
        let item = chunk[place].item.as_mut()?;
        let fresh = item.content.value.relocated();
        let old = std::mem::replace(&mut item.content.value, fresh);
        Some((item.memory_bytes(), old))
    }

    pub(super) fn item(&self, index: SlotIndex) -> Option<&Item> {
        let (chunk, place) = place_of(index);
        self.chunks.get(chunk)?[place].item.as_ref()
    }

    /// A slot below [`len`](Self::len).
    pub(super) fn slot_mut(&mut self, index: SlotIndex) -> &mut Slot {
        let (chunk, place) = place_of(index);
        &mut self.chunks[chunk][place]
    }

    /// The lowest free slot below the last item.
    fn take_free(&mut self) -> Option<SlotIndex> {
        while let Some(Reverse(index)) = self.free.pop() {
            if (index as usize) < self.len && self.item(index).is_none() {
                return Some(index);
            }
        }
        None
    }

    /// Gives back what is behind the last item.
    fn trim(&mut self) {
        while self.len > 0 && self.item((self.len - 1) as SlotIndex).is_none() {
            self.len -= 1;
        }
        self.chunks.truncate(self.len.div_ceil(CHUNK_LEN));
        if is_too_roomy(self.chunks.len(), self.chunks.capacity()) {
            self.chunks.shrink_to(self.chunks.len() * 2);
        }
        let len = self.len;
        if is_too_roomy(len, self.free.len()) {
            self.free.retain(|Reverse(index)| (*index as usize) < len);
            self.free.shrink_to_fit();
        }
    }
}

/// A slot is a line of the processor's caches, and a chunk a class of the allocator.
const _: () = assert!(size_of::<Slot>() == 64);

#[cfg(test)]
mod tests {
    use super::super::item::Content;
    use super::*;

    fn item(number: u32) -> Item {
        let key = number.to_be_bytes();
        Item::new(Content::new(Value::new(&key, [b"value"]), 1), 0, 0, number)
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
        assert!(slots.is_sparse() && slots.len() == 9901);
        while slots.is_sparse() {
            let (from, to) = slots.move_last().expect("a free slot");
            assert!(to < from && slots.item(to).is_some_and(|item| item.tag() == from));
        }
        assert!(slots.items() == 100 && slots.len() < 130, "{}", slots.len());
        assert!(slots.chunks.capacity() <= 64 && slots.free.capacity() <= 1024);
        let left = (0..slots.len() as u32).filter(|index| slots.remove(*index).is_some());
        assert_eq!(left.collect::<Vec<_>>().len(), 100);
        assert_eq!((slots.len(), slots.chunks.len()), (0, 0));
        assert_eq!(slots.insert(item(0)), 0);
    }

    #[test]
    fn a_relocated_item_is_the_same() {
        let mut slots = Slots::default();
        let content = Content::new(Value::new(b"key", [&[7; 1000]]), 3);
        let index = slots.insert(Item::new(content.clone(), 1, 2, 4));
        let (copied, old) = slots.relocate(index).expect("an item");
        assert!(copied >= 1000);
        let new = slots.item(index).expect("the item");
        assert_eq!((new.key(), &new.content.value), (&b"key"[..], &old));
        assert_ne!(old.as_ptr(), new.content.value.as_ptr());
        assert!(slots.relocate(index + 1).is_none());
    }
}
