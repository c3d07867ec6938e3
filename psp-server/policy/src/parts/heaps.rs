//! Priority queues of requests that share one pool of entries: the lowest rank first.
//!
//! Pairing heaps (Fredman, Sedgewick, Sleator and Tarjan 1986): a request goes in with one
//! comparison, however many there are, and comes out with about log n.
//!
//! ```text
//!   root ──► 3            each entry knows its first child and its next sibling
//!            └ 9 ─ 5 ─ 4
//!                  └ 8
//! ```

use crate::parts::waiting::Waiting;

/// No entry.
const NIL: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct Entry {
    item: Waiting,
    child: u32,
    /// Next sibling; of a free entry, the next free one.
    next: u32,
}

/// One of the heaps of a [`Heaps`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Heap {
    root: u32,
    len: usize,
}

impl Heap {
    /// A heap without requests.
    pub(crate) const EMPTY: Self = Self { root: NIL, len: 0 };

    /// How many requests it has.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }
}

/// The entries of all heaps.
#[derive(Debug)]
pub(crate) struct Heaps {
    entries: Vec<Entry>,
    free: u32,
}

impl Heaps {
    /// Memory for `entries` requests; beyond that it grows on demand.
    pub(crate) fn with_capacity(entries: usize) -> Self {
        Self { entries: Vec::with_capacity(entries), free: NIL }
    }

    /// Adds a request.
    pub(crate) fn push(&mut self, heap: &mut Heap, item: Waiting) {
        let entry = self.take_entry(item);
        heap.root = self.meld(heap.root, entry);
        heap.len += 1;
    }

    /// Takes the request with the lowest rank.
    pub(crate) fn pop(&mut self, heap: &mut Heap) -> Option<Waiting> {
        let root = heap.root;
        let Entry { item, child, .. } = *self.entries.get(root as usize)?;
        heap.root = self.meld_siblings(child);
        heap.len -= 1;
        self.entries[root as usize].next = self.free;
        self.free = root;
        Some(item)
    }

    /// The request with the lowest rank, left in place.
    pub(crate) fn first(&self, heap: &Heap) -> Option<&Waiting> {
        self.entries.get(heap.root as usize).map(|entry| &entry.item)
    }

    /// All requests, in no order.
    pub(crate) fn iter(&self, heap: &Heap) -> impl Iterator<Item = &Waiting> {
        let mut todo = vec![heap.root];
        std::iter::from_fn(move || {
            loop {
                let entry = self.entries.get(todo.pop()? as usize);
                if let Some(entry) = entry {
                    todo.extend([entry.next, entry.child]);
                    return Some(&entry.item);
                }
            }
        })
    }

    /// The root of two heaps together. Neither root has siblings, and the result has none.
    fn meld(&mut self, one: u32, other: u32) -> u32 {
        let rank = |root: u32| self.entries.get(root as usize).map(|entry| entry.item.rank);
        let (Some(a), Some(b)) = (rank(one), rank(other)) else {
            return if one == NIL { other } else { one };
        };
        let (parent, child) = if a <= b { (one, other) } else { (other, one) };
        self.entries[child as usize].next = self.entries[parent as usize].child;
        self.entries[parent as usize].child = child;
        parent
    }

    /// The root of a list of siblings together: they meld in pairs, and the pairs from the last to the first.
    fn meld_siblings(&mut self, first: u32) -> u32 {
        let (mut next, mut pairs) = (first, NIL);
        while next != NIL {
            let one = self.without_siblings(&mut next);
            let other = self.without_siblings(&mut next);
            let pair = self.meld(one, other);
            self.entries[pair as usize].next = pairs;
            pairs = pair;
        }
        let mut root = NIL;
        while pairs != NIL {
            let pair = self.without_siblings(&mut pairs);
            root = self.meld(root, pair);
        }
        root
    }

    /// Takes the first of a list of siblings, if there is any.
    fn without_siblings(&mut self, first: &mut u32) -> u32 {
        let taken = *first;
        if let Some(entry) = self.entries.get_mut(taken as usize) {
            *first = std::mem::replace(&mut entry.next, NIL);
        }
        taken
    }

    /// Index of an entry that holds `item` and has neither children nor siblings.
    fn take_entry(&mut self, item: Waiting) -> u32 {
        let entry = Entry { item, child: NIL, next: NIL };
        if self.free == NIL {
            let index = u32::try_from(self.entries.len()).expect("ids are 32 bits wide");
            assert!(index != NIL, "more items than there are ids");
            self.entries.push(entry);
            index
        } else {
            let index = self.free;
            self.free = self.entries[index as usize].next;
            self.entries[index as usize] = entry;
            index
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn ranked(rank: u64) -> Waiting {
        Waiting { rank, ..Waiting::example() }
    }

    proptest! {
        #[test]
        fn two_heaps_sort_as_two_sets_do(steps in prop::collection::vec((any::<bool>(), 0..3_u8), 0..400)) {
            let mut heaps = Heaps::with_capacity(4);
            let mut two = [Heap::EMPTY; 2];
            let mut sets = [BTreeSet::new(), BTreeSet::new()];
            for (nth, (which, step)) in (0_u64..).zip(steps) {
                let (heap, set) = (&mut two[usize::from(which)], &mut sets[usize::from(which)]);
                if step == 0 {
                    let popped = heaps.pop(heap).map(|waiting| waiting.rank);
                    prop_assert_eq!(popped, set.pop_first());
                } else {
                    // In no order, and each once.
                    let rank = nth.wrapping_mul(0x9E37_79B9_7F4A_7C15);
                    heaps.push(heap, ranked(rank));
                    set.insert(rank);
                }
                for (heap, set) in two.iter().zip(&sets) {
                    prop_assert_eq!(heap.len(), set.len());
                    prop_assert_eq!(heaps.first(heap).map(|waiting| waiting.rank), set.first().copied());
                    let all: BTreeSet<u64> = heaps.iter(heap).map(|waiting| waiting.rank).collect();
                    prop_assert_eq!(&all, set);
                }
            }
        }
    }

    #[test]
    fn entries_are_used_again() {
        let (mut heaps, mut heap) = (Heaps::with_capacity(3), Heap::EMPTY);
        for round in 0..100 {
            for rank in [5, 1, 3] {
                heaps.push(&mut heap, ranked(rank + round));
            }
            let ranks = [1, 3, 5].map(|rank| Some(rank + round));
            let popped = [(); 3].map(|()| heaps.pop(&mut heap).map(|waiting| waiting.rank));
            assert_eq!(popped, ranks);
        }
        assert_eq!(heaps.entries.len(), 3);
        assert!(heaps.pop(&mut heap).is_none());
    }
}
