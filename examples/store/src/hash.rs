//! Hashes: maps from field names to values.

use std::fmt;

use crate::Element;
use crate::form::Form;
use crate::hashed::{Entry, HashedMap, Scan};

/// A hash; a clone is O(1), access to a field O(log n). Fields are in hash order.
#[derive(Clone, Default)]
pub struct Hash {
    fields: HashedMap<Element>,
    pub(crate) form: Form,
}

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
        self.fields.insert(field, value)
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
