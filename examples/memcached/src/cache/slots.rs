//! Places for items, which keep their number for as long as the item lives.
//!
//! ```text
//!   page 0: [ slot 0 .. 31 ]  page 1: [ slot 32 .. 63 ]  ...     free slots are a list
//! ```
//!
//! Pages are never moved, so that growing takes no longer with many items than with few.

use super::item::Item;
use super::segments::Links;

const PAGE_SLOTS: usize = 32;

/// Bytes that each item takes in a page.
pub(super) const SLOT_LEN: usize = size_of::<Slot>();

/// Number of a slot within its shard.
pub(super) type Place = u32;

/// A place with its item and its neighbours in a list of the shard.
#[derive(Debug, Default)]
pub(super) struct Slot {
    pub(super) item: Option<Item>,
    pub(super) links: Links,
}

/// All slots of a shard.
#[derive(Debug, Default)]
pub(super) struct Slots {
    pages: Vec<Vec<Slot>>,
    free: Vec<Place>,
    len: usize,
}

impl Slots {
    /// Number of slots, free ones included: every place is below it.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Stores an item at a place of its own.
    pub(super) fn insert(&mut self, item: Item) -> Place {
        if let Some(place) = self.free.pop() {
            self.slot_mut(place).item = Some(item);
            return place;
        }
        if self.len.is_multiple_of(PAGE_SLOTS) {
            self.pages.push(Vec::with_capacity(PAGE_SLOTS));
        }
        let place = Place::try_from(self.len).expect("memory ends before places do");
        if let Some(page) = self.pages.last_mut() {
            page.push(Slot {
                item: Some(item),
                links: Links::default(),
            });
        }
        self.len += 1;
        place
    }

    /// Takes the item out of its place.
    pub(super) fn remove(&mut self, place: Place) -> Option<Item> {
        let item = self.slot_mut(place).item.take()?;
        self.free.push(place);
        Some(item)
    }

    pub(super) fn item(&self, place: Place) -> Option<&Item> {
        self.slot(place).item.as_ref()
    }

    pub(super) fn links(&self, place: Place) -> Links {
        self.slot(place).links
    }

    fn slot(&self, place: Place) -> &Slot {
        &self.pages[place as usize / PAGE_SLOTS][place as usize % PAGE_SLOTS]
    }

    pub(super) fn slot_mut(&mut self, place: Place) -> &mut Slot {
        &mut self.pages[place as usize / PAGE_SLOTS][place as usize % PAGE_SLOTS]
    }
}
