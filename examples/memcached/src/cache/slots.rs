//! Slots for items. An item keeps its slot index for as long as it lives.
//!
//! ```text
//!   page 0: [ slot 0 .. 31 ]  page 1: [ slot 32 .. 63 ]  ...     free slots are a list
//! ```
//!
//! Pages never move, so growing takes no longer with many items than with few.

use super::item::Item;
use super::segments::Links;

const PAGE_SLOTS: usize = 32;

/// Bytes of an item in its page.
pub(super) const SLOT_LEN: usize = size_of::<Slot>();

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
    pages: Vec<Vec<Slot>>,
    free: Vec<SlotIndex>,
    len: usize,
}

impl Slots {
    /// Number of slots, including free ones. Every slot index is below it.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Stores an item in a free slot.
    pub(super) fn insert(&mut self, item: Item) -> SlotIndex {
        if let Some(index) = self.free.pop() {
            self.slot_mut(index).item = Some(item);
            return index;
        }
        if self.len.is_multiple_of(PAGE_SLOTS) {
            self.pages.push(Vec::with_capacity(PAGE_SLOTS));
        }
        let index = SlotIndex::try_from(self.len).expect("memory ends before slot indices do");
        if let Some(page) = self.pages.last_mut() {
            page.push(Slot {
                item: Some(item),
                links: Links::default(),
            });
        }
        self.len += 1;
        index
    }

    /// Takes the item out of its slot.
    pub(super) fn remove(&mut self, index: SlotIndex) -> Option<Item> {
        let item = self.slot_mut(index).item.take()?;
        self.free.push(index);
        Some(item)
    }

    pub(super) fn item(&self, index: SlotIndex) -> Option<&Item> {
        self.slot(index).item.as_ref()
    }

    pub(super) fn links(&self, index: SlotIndex) -> Links {
        self.slot(index).links
    }

    fn slot(&self, index: SlotIndex) -> &Slot {
        &self.pages[index as usize / PAGE_SLOTS][index as usize % PAGE_SLOTS]
    }

    pub(super) fn slot_mut(&mut self, index: SlotIndex) -> &mut Slot {
        &mut self.pages[index as usize / PAGE_SLOTS][index as usize % PAGE_SLOTS]
    }
}
