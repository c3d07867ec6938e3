//! Linked lists that share one pool of entries, so memory follows the total number of items.

/// End of a list.
const NIL: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct Entry<T> {
    item: T,
    next: u32,
}

/// One of the lists of a [`Lists`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct List {
    head: u32,
    tail: u32,
    len: usize,
}

impl List {
    /// A list without items.
    pub(crate) const EMPTY: Self = Self { head: NIL, tail: NIL, len: 0 };

    /// How many items it has.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }
}

/// The entries of all lists.
#[derive(Debug)]
pub(crate) struct Lists<T> {
    entries: Vec<Entry<T>>,
    free: u32,
}

impl<T: Copy> Lists<T> {
    /// Memory for `entries` items; beyond that it grows on demand.
    pub(crate) fn with_capacity(entries: usize) -> Self {
        Self { entries: Vec::with_capacity(entries), free: NIL }
    }

    /// Adds an item at the end.
    #[inline]
    pub(crate) fn push(&mut self, list: &mut List, item: T) {
        let entry = self.take_entry(item);
        if list.tail == NIL {
            list.head = entry;
        } else {
            self.entries[list.tail as usize].next = entry;
        }
        list.tail = entry;
        list.len += 1;
    }

    /// Adds an item before the first that is `later`.
    pub(crate) fn insert(&mut self, list: &mut List, item: T, later: impl Fn(&T) -> bool) {
        let (mut before, mut after) = (NIL, list.head);
        while after != NIL && !later(&self.entries[after as usize].item) {
            before = after;
            after = self.entries[after as usize].next;
        }
        let entry = self.take_entry(item);
        self.entries[entry as usize].next = after;
        if before == NIL {
            list.head = entry;
        } else {
            self.entries[before as usize].next = entry;
        }
        if before == list.tail {
            list.tail = entry;
        }
        list.len += 1;
    }

    /// Takes the first item.
    #[inline]
    pub(crate) fn pop(&mut self, list: &mut List) -> Option<T> {
        let head = list.head;
        let Entry { item, next } = *self.entries.get(head as usize)?;
        list.head = next;
        list.len -= 1;
        if next == NIL {
            list.tail = NIL;
        }
        self.entries[head as usize].next = self.free;
        self.free = head;
        Some(item)
    }

    /// Takes the first item that `is` the one.
    pub(crate) fn remove(&mut self, list: &mut List, is: impl Fn(&T) -> bool) -> Option<T> {
        let (mut before, mut entry) = (NIL, list.head);
        loop {
            let Entry { item, next } = *self.entries.get(entry as usize)?;
            if before == NIL && is(&item) {
                return self.pop(list);
            }
            if is(&item) {
                self.entries[before as usize].next = next;
                if next == NIL {
                    list.tail = before;
                }
                list.len -= 1;
                self.entries[entry as usize].next = self.free;
                self.free = entry;
                return Some(item);
            }
            (before, entry) = (entry, next);
        }
    }

    /// The first item, left in place.
    #[inline]
    pub(crate) fn first(&self, list: &List) -> Option<&T> {
        self.entries.get(list.head as usize).map(|entry| &entry.item)
    }

    /// The items, from the first.
    pub(crate) fn iter(&self, list: &List) -> impl Iterator<Item = &T> {
        let mut next = list.head;
        std::iter::from_fn(move || {
            let entry = self.entries.get(next as usize)?;
            next = entry.next;
            Some(&entry.item)
        })
    }

    /// Index of an entry that holds `item` and has no successor.
    #[inline]
    fn take_entry(&mut self, item: T) -> u32 {
        let entry = Entry { item, next: NIL };
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
    use super::*;

    #[test]
    fn lists_keep_apart_and_entries_are_used_again() {
        let mut lists = Lists::with_capacity(4);
        let [mut odd, mut even] = [List::EMPTY; 2];
        for round in 0..100 {
            for item in [1, 5, 3] {
                lists.insert(&mut odd, item, |&other| other > item);
            }
            lists.push(&mut even, round);
            assert_eq!(lists.first(&odd), Some(&1));
            assert!(lists.iter(&odd).eq(&[1, 3, 5]));
            assert_eq!((odd.len(), even.len()), (3, 1));
            assert_eq!(lists.pop(&mut even), Some(round));
            assert_eq!(lists.pop(&mut even), None);
            for item in [1, 3, 5] {
                assert_eq!(lists.pop(&mut odd), Some(item));
            }
        }
        assert_eq!(lists.entries.len(), 4);
    }

    #[test]
    fn an_item_leaves_from_anywhere() {
        let all = [1, 2, 3];
        for leaves in all {
            let (mut lists, mut list) = (Lists::with_capacity(3), List::EMPTY);
            for item in all {
                lists.push(&mut list, item);
            }
            let taken = lists.remove(&mut list, |&item| item == leaves);
            assert_eq!(taken, Some(leaves));
            assert_eq!(lists.remove(&mut list, |&item| item == leaves), None);
            lists.push(&mut list, 9);
            let left = all.into_iter().filter(|&item| item != leaves);
            let left: Vec<i32> = left.chain([9]).collect();
            assert_eq!((list.len(), left.len()), (3, 3));
            assert!(lists.iter(&list).eq(&left), "{left:?}");
            assert_eq!(lists.entries.len(), 3);
        }
    }
}
