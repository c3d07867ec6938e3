//! A leaf: items in the order of their positions, in one allocation.
//!
//! ```text
//!   references │ length of all │ item │ item │ item │ spare │
//!                                └──── len of them ─┘         as many in all as the allocator's size has room for
//! ```
//!
//! Most insertions find a spare item, and most removals leave one. They move the items behind their place.

use triomphe::ThinArc;

use super::{consume, make_mut};
use crate::element::allocated_bytes;
use crate::entry::Entry;

/// A node holds how many of the items are in use: a look-up need not wait for the leaf's head to know where an item is.
pub(super) type Leaf = ThinArc<(), Item>;

#[derive(Clone, Default)]
pub(super) struct Item {
    pub(super) position: u64,
    /// `None` while an update has taken it, and in spare items.
    pub(super) entry: Option<Entry>,
}

/// Bytes of a leaf before its items.
const HEAD_BYTES: usize = 2 * size_of::<usize>();

/// How many items a leaf of `len` has room for: as many as fit in what the allocator gives.
pub(super) fn room(len: usize) -> usize {
    // Small leaves of unit tests have spare items as well.
    let spare = if cfg!(test) { len % 2 } else { 0 };
    (allocated_bytes(HEAD_BYTES + len * size_of::<Item>()) - HEAD_BYTES) / size_of::<Item>() + spare
}

/// The items that are in use.
pub(super) fn items(len: u32, leaf: &Leaf) -> &[Item] {
    &leaf.slice[..len as usize]
}

/// A leaf of the next `len` items.
pub(super) fn of(len: usize, items: &mut impl Iterator<Item = Item>) -> Leaf {
    let next = |place| match place < len {
        true => items.next().unwrap_or_default(),
        false => Item::default(),
    };
    ThinArc::from_header_and_iter((), (0..room(len)).map(next))
}

/// Adds an item at `place`.
pub(super) fn insert(len: &mut u32, leaf: &mut Leaf, place: usize, item: Item) {
    let before = *len as usize;
    *len += 1;
    if before < leaf.slice.len() {
        return make_mut(leaf, |items| {
            items[before] = item;
            items[place..=before].rotate_right(1);
        });
    }
    let mut item = Some(item);
    *leaf = consume(leaf, |mut items| {
        let next = |index| match index == place {
            true => item.take(),
            false => items.next(),
        };
        of(before + 1, &mut (0..=before).filter_map(next))
    });
}

/// Removes the item at `place`. Returns its entry.
pub(super) fn remove(len: &mut u32, leaf: &mut Leaf, place: usize) -> Option<Entry> {
    let before = *len as usize;
    *len -= 1;
    if leaf.slice.len() == room(before - 1) {
        return make_mut(leaf, |items| {
            items[place..before].rotate_left(1);
            items[before - 1].entry.take()
        });
    }
    let mut removed = None;
    *leaf = consume(leaf, |items| {
        let mut left = items.take(before).enumerate().filter_map(|(index, item)| {
            if index == place {
                removed = item.entry;
                return None;
            }
            Some(item)
        });
        let shorter = of(before - 1, &mut left);
        // The removed item may be the last one.
        left.for_each(drop);
        shorter
    });
    removed
}

/// About where an item of this position is, in a leaf of so many whose positions differ in `width` bits.
pub(super) fn guess(len: u32, width: u32, position: u64) -> usize {
    let offset = position & ((1 << width) - 1);
    ((u128::from(offset) * u128::from(len)) >> width) as usize
}

/// Where the first item at `position` or above is.
pub(super) fn seek(items: &[Item], guess: usize, position: u64) -> usize {
    let mut place = guess;
    while place < items.len() && items[place].position < position {
        place += 1;
    }
    while place > 0 && items[place - 1].position >= position {
        place -= 1;
    }
    place
}

pub(super) fn find(items: &[Item], guess: usize, position: u64, is_wanted: impl Fn(&Entry) -> bool) -> Option<usize> {
    let start = seek(items, guess, position);
    let mut here = items[start..].iter().take_while(|item| item.position == position);
    let place = here.position(|item| item.entry.as_ref().is_some_and(&is_wanted))?;
    Some(start + place)
}
