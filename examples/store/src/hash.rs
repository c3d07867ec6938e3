//! Hashes: maps from field names to values.

use std::{fmt, vec};

use crate::Element;
use crate::form::Form;
use crate::hashed::{Entry, HashedMap, MARK_MAX, Scan};
use crate::tree::Iter;

/// A hash; a clone is O(1), access to a field O(log n). Fields are in hash order. While Redis would keep it packed, it
/// knows the order in which its fields came, too.
#[derive(Clone, Default)]
pub struct Hash {
    /// Marked with the order in which they came.
    fields: HashedMap<Element>,
    /// The mark of the next field; [`UNORDERED`] if the order is lost.
    next: u16,
    pub(crate) form: Form,
}

/// The hash has had too many fields to mark them.
const UNORDERED: u16 = u16::MAX;
/// Most fields that get new marks once the marks are used up.
const REORDERED_MAX: usize = 1024;

fn pair(entry: &Entry<Element>) -> (&Element, &Element) {
    (&entry.key.name, &entry.value)
}

impl Hash {
    /// An empty hash.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of fields.
    #[must_use]
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// Whether there are no fields.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether Redis would keep it packed, as a listpack. This changes once, when an update ends.
    #[must_use]
    pub fn is_packed(&self) -> bool {
        self.form.is_packed()
    }

    /// The value of `field`.
    #[must_use]
    pub fn get(&self, field: &[u8]) -> Option<&Element> {
        self.fields.get(field)
    }

    /// Sets `field` and returns the value it replaces.
    pub fn insert(&mut self, field: &[u8], value: Element) -> Option<Element> {
        self.form.note_len(field.len().max(value.len()));
        let replaced = self.fields.insert_marked(field, value, self.next);
        if replaced.is_none() && self.next != UNORDERED {
            self.next = if self.next < MARK_MAX {
                self.next + 1
            } else {
                self.reorder()
            };
        }
        replaced
    }

    /// Gives all fields new marks, in their order, and returns the next mark.
    fn reorder(&mut self) -> u16 {
        if !self.is_packed() || self.len() > REORDERED_MAX {
            return UNORDERED;
        }
        let marks = self.fields.iter().map(|entry| entry.key.mark());
        let mut ranks: Vec<(u16, usize)> = marks.zip(0..).collect();
        ranks.sort_unstable();
        for ((_, rank), mark) in ranks.into_iter().zip(0..) {
            self.fields.set_mark(rank, mark);
        }
        self.len() as u16
    }

    /// Removes `field` and returns its value.
    pub fn remove(&mut self, field: &[u8]) -> Option<Element> {
        self.fields.remove(field)
    }

    /// The field and value of the given rank in hash order; a random rank is a uniform choice.
    #[must_use]
    pub fn at(&self, rank: usize) -> Option<(&Element, &Element)> {
        self.fields.at(rank).map(pair)
    }

    /// All fields with their values.
    pub fn iter(
        &self,
    ) -> impl DoubleEndedIterator<Item = (&Element, &Element)> + ExactSizeIterator {
        self.fields.iter().map(pair)
    }

    /// All fields with their values: in the order in which the fields came while the hash is
    /// [packed](Self::is_packed), unless it is larger than any that Redis packs by default; in hash order otherwise.
    pub fn in_order(&self) -> InOrder<'_> {
        if !self.is_packed() || self.next == UNORDERED {
            return InOrder(Fields::Hashed(self.fields.iter()));
        }
        let mut fields: Vec<_> = self.fields.iter().collect();
        fields.sort_unstable_by_key(|entry| entry.key.mark());
        InOrder(Fields::Sorted(fields.into_iter()))
    }

    /// The next `count` fields of a scan at `cursor`; 0 starts a scan. The scan returns a field that
    /// is present throughout exactly once.
    pub fn scan(
        &self,
        cursor: u64,
        count: usize,
    ) -> Scan<impl ExactSizeIterator<Item = (&Element, &Element)>> {
        let Scan { cursor, entries } = self.fields.scan(cursor, count);
        Scan {
            cursor,
            entries: entries.map(pair),
        }
    }
}

/// Fields with their values, see [`Hash::in_order`].
pub struct InOrder<'h>(Fields<'h>);

enum Fields<'h> {
    Hashed(Iter<'h, Entry<Element>>),
    Sorted(vec::IntoIter<&'h Entry<Element>>),
}

impl<'h> Iterator for InOrder<'h> {
    type Item = (&'h Element, &'h Element);

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            Fields::Hashed(entries) => entries.next().map(pair),
            Fields::Sorted(entries) => entries.next().map(pair),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match &self.0 {
            Fields::Hashed(entries) => entries.size_hint(),
            Fields::Sorted(entries) => entries.size_hint(),
        }
    }
}

impl ExactSizeIterator for InOrder<'_> {}

impl fmt::Debug for Hash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn behaves_as_a_map(operations: Vec<(u8, Option<Vec<u8>>)>) {
            let mut hash = Hash::new();
            let mut model: HashMap<Vec<u8>, Vec<u8>> = HashMap::new();
            let before = hash.clone();
            for (field, value) in operations {
                let field = vec![field];
                let (replaced, expected) = match value {
                    Some(value) => {
                        let replaced = hash.insert(&field, Element::from(&*value));
                        (replaced, model.insert(field, value))
                    }
                    None => (hash.remove(&field), model.remove(&field)),
                };
                prop_assert_eq!(replaced.as_deref(), expected.as_deref());
            }
            prop_assert!(before.is_empty());
            prop_assert_eq!(hash.len(), model.len());
            for (rank, (field, value)) in hash.iter().enumerate() {
                prop_assert_eq!(model.get(&**field).map(Vec::as_slice), Some(&**value));
                prop_assert_eq!(hash.get(field), Some(value));
                prop_assert_eq!(hash.at(rank), Some((field, value)));
            }
        }
    }

    #[test]
    fn a_packed_hash_knows_the_order_of_its_fields() {
        let mut hash = Hash::new();
        let mut model: Vec<u32> = Vec::new();
        let order = |hash: &Hash| -> Vec<Vec<u8>> {
            let fields = hash.in_order();
            assert_eq!(fields.len(), hash.len());
            fields.map(|(field, _)| field.to_vec()).collect()
        };
        // Marks are used up several times.
        for number in 0_u32..3 * u32::from(MARK_MAX) {
            hash.insert(&number.to_be_bytes(), Element::from(b"v"));
            hash.insert(&number.to_be_bytes(), Element::from(b"w"));
            model.push(number);
            if number % 5 > 0 || model.len() > 300 {
                let gone = model.remove(number as usize % model.len());
                hash.remove(&gone.to_be_bytes());
            }
            if number % 97 == 0 {
                let expected = model.iter().map(|number| number.to_be_bytes().to_vec());
                assert_eq!(order(&hash), expected.collect::<Vec<_>>());
                assert_eq!(order(&hash.clone()), order(&hash));
            }
        }
        for number in 0_u32..3 * u32::from(MARK_MAX) {
            hash.insert(&number.to_le_bytes(), Element::from(b"v"));
        }
        assert_eq!(hash.in_order().len(), hash.len(), "in any order");
    }

    #[test]
    fn snapshots_read_while_another_thread_writes() {
        let mut hash = Hash::new();
        for field in 0_u32..1000 {
            hash.insert(&field.to_be_bytes(), Element::from(b"old"));
        }
        let snapshot = hash.clone();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for field in 0_u32..1000 {
                    hash.insert(&field.to_be_bytes(), Element::from(b"new"));
                }
            });
            for _ in 0..20 {
                assert_eq!(
                    snapshot
                        .iter()
                        .filter(|(_, value)| ***value == *b"old")
                        .count(),
                    1000
                );
            }
        });
        assert_eq!(
            hash.iter().filter(|(_, value)| ***value == *b"new").count(),
            1000
        );
    }
}
