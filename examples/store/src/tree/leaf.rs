//! Leaves of a tree: where its items are.

use std::ops::Range;
use std::slice;

use crate::element::allocated_bytes;

/// Most items of a vector. Few in unit tests, so that a few items already make deep trees.
pub(super) const LEAF_ITEMS_MAX: usize = if cfg!(test) { 4 } else { 64 };

/// A bounded sequence of items, which splits when it is full. No leaf below a branch is empty.
pub(crate) trait Leaf: Clone + Default {
    /// What is inserted.
    type New<'n>;
    /// What is removed.
    type Taken;
    /// The sort key of the items; `()` if items are addressed by index only.
    type Key: Clone;
    /// An item in its leaf.
    type Ref<'l>
    where
        Self: 'l;
    /// Walks items from either end.
    type Walk<'l>: DoubleEndedIterator<Item = Self::Ref<'l>> + ExactSizeIterator + Default
    where
        Self: 'l;

    /// Number of items.
    fn len(&self) -> usize;

    /// The key of the last item; `None` if there are no items.
    fn last_key(&self) -> Option<&Self::Key>;

    /// The items in `range`, which must lie within the leaf.
    fn range(&self, range: Range<usize>) -> Self::Walk<'_>;

    /// Inserts `item` before the item at `index`. A full leaf splits and returns its right part. An insertion at
    /// either end leaves a full leaf.
    fn insert(&mut self, index: usize, item: Self::New<'_>) -> Option<Self>;

    /// Removes and returns the item at `index`, which must lie within the leaf.
    fn remove(&mut self, index: usize) -> Self::Taken;

    /// Removes the items in `range`, which must lie within the leaf.
    fn remove_range(&mut self, range: Range<usize>);

    /// Whether one of two neighbours is small, and both fit into one leaf.
    fn can_absorb(&self, right: &Self) -> bool;

    /// Appends the items of the right neighbour, which fit.
    fn absorb(&mut self, right: Self);
}

/// An item of a vector.
pub(crate) trait Item: Clone {
    /// The sort key of the items; `()` if items are addressed by index only.
    type Key: Clone;

    /// The item's key, which must not change while the item is in a tree.
    fn key(&self) -> &Self::Key;
}

impl<T: Item> Leaf for Vec<T> {
    type New<'n> = T;
    type Taken = T;
    type Key = T::Key;
    type Ref<'l>
        = &'l T
    where
        Self: 'l;
    type Walk<'l>
        = slice::Iter<'l, T>
    where
        Self: 'l;

    fn len(&self) -> usize {
        Self::len(self)
    }

    fn last_key(&self) -> Option<&T::Key> {
        self.last().map(Item::key)
    }

    fn range(&self, range: Range<usize>) -> slice::Iter<'_, T> {
        self[range].iter()
    }

    fn insert(&mut self, index: usize, item: Self::New<'_>) -> Option<Self> {
        if self.len() < LEAF_ITEMS_MAX {
            insert_sparing(self, index, item, LEAF_ITEMS_MAX);
            return None;
        }
        let mut right = self.split_off(split_point(self.len(), index));
        self.shrink_to_fit();
        if index > self.len() || right.is_empty() {
            insert_sparing(&mut right, index - self.len(), item, LEAF_ITEMS_MAX);
        } else {
            insert_sparing(self, index, item, LEAF_ITEMS_MAX);
        }
        Some(right)
    }

    fn remove(&mut self, index: usize) -> T {
        self.remove(index)
    }

    fn remove_range(&mut self, range: Range<usize>) {
        drop(self.drain(range));
    }

    fn can_absorb(&self, right: &Self) -> bool {
        shall_merge(self.len(), right.len(), LEAF_ITEMS_MAX)
    }

    fn absorb(&mut self, right: Self) {
        self.extend(right);
    }
}

/// Inserts an item, of which there are `max` at most. A vector without room would double it, and most leaves would keep
/// half of that for ever. It grows by a quarter, and has as many items as fit in what the allocator gives for that.
pub(crate) fn insert_sparing<T>(items: &mut Vec<T>, index: usize, item: T, max: usize) {
    let len = items.len();
    if len == items.capacity() {
        let wanted = (len + len / 4).clamp(len + 1, max.max(len + 1));
        let room = allocated_bytes(wanted * size_of::<T>()) / size_of::<T>();
        items.reserve_exact(room.min(max).max(wanted) - len);
    }
    items.insert(index, item);
}

/// Where to split a full node for an insertion. An insertion at either end leaves a full node.
pub(super) fn split_point(len: usize, insertion: usize) -> usize {
    match insertion {
        0 => 0,
        at_end if at_end == len => len,
        _ => len / 2,
    }
}

/// Whether two neighbours fit into one node of at most `max`, and one of them has less than a quarter of that.
pub(crate) fn shall_merge(left: usize, right: usize, max: usize) -> bool {
    left + right <= max && left.min(right) <= max / 4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_nodes_split_in_the_middle_or_at_an_end_and_small_ones_merge() {
        assert_eq!([0, 1, 3, 4].map(|insertion| split_point(4, insertion)), [0, 2, 2, 4]);
        for (left, right, merges) in [(4, 12, true), (12, 4, true), (5, 11, false), (4, 13, false), (8, 9, false)] {
            assert_eq!(shall_merge(left, right, 16), merges, "{left} and {right}");
        }
        let leaf = |len: u32| (0..len).collect::<Vec<u32>>();
        const MAX: u32 = LEAF_ITEMS_MAX as u32;
        for (len, index, right) in
            [(MAX - 1, 1, None), (MAX, 0, Some(MAX)), (MAX, MAX, Some(1)), (MAX, 1, Some(MAX / 2))]
        {
            let split = Leaf::insert(&mut leaf(len), index as usize, 7);
            assert_eq!(split.map(|right| right.len()), right.map(|len| len as usize), "{len} and one at {index}");
        }
        assert!(leaf(1).can_absorb(&leaf(MAX - 1)) && !leaf(1).can_absorb(&leaf(MAX)));
    }

    #[test]
    fn a_vector_keeps_little_room_that_it_does_not_need() {
        let mut items = Vec::new();
        for item in 0..60_u32 {
            insert_sparing(&mut items, 0, item, 60);
            let len = items.len();
            let bytes = |items: usize| allocated_bytes(items * size_of::<u32>());
            assert!(bytes(items.capacity()) <= bytes(len + len / 4 + 1), "{len}");
        }
        assert_eq!(items.capacity(), 60);
    }
}
