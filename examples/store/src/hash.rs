//! Hashes: maps from field names to values.

use std::{fmt, vec};

use triomphe::Arc;

use crate::form::{Form, PackingLimit, PackingLimits};
use crate::hashed::{Entries, Entry, HashedMap, MARK_MAX, Scan};
use crate::packed::{Cell, Cells, Packed, Placed, cell};
use crate::repr::{Formed, Repr};
use crate::{Element, ElementRef};

/// A hash; a clone is O(1), access to a field O(log n). A small hash is packed, with its fields in the order in which
/// they came. A larger one has them in hash order, and knows that order, too, while Redis would keep it packed.
#[derive(Clone, Default)]
pub struct Hash(Repr<FieldTree>);

#[derive(Clone, Default)]
struct FieldTree {
    /// Marked with the order in which they came.
    fields: HashedMap<Element>,
    /// The mark of the next field; [`UNORDERED`] if the order is lost.
    next: u16,
    form: Form,
}

/// The hash has had too many fields to mark them.
const UNORDERED: u16 = u16::MAX;
/// Most fields that get new marks once the marks are used up.
const REORDERED_MAX: usize = 1024;

/// A field and its value.
type Pair<'h> = (ElementRef<'h>, ElementRef<'h>);

fn pair(entry: &Entry<Element>) -> Pair<'_> {
    ((&entry.key.name).into(), (&entry.value).into())
}

fn next_pair<'h>(cells: &mut Cells<'h>) -> Option<[Placed<'h>; 2]> {
    Some([cells.next()?, cells.next()?])
}

/// The cells of a field and its value.
fn find<'h>(cells: &'h Packed, name: &Cell) -> Option<[Placed<'h>; 2]> {
    let mut cells = cells.cells();
    while let Some(pair) = next_pair(&mut cells) {
        if pair[0].bytes == &**name {
            return Some(pair);
        }
    }
    None
}

impl FieldTree {
    fn of(cells: &Packed, form: Form) -> Self {
        let mut tree = Self::default();
        let mut cells = cells.cells();
        while let Some([field, value]) = next_pair(&mut cells) {
            tree.insert(&field.element(), value.element().to_element());
        }
        Self { form, ..tree }
    }

    /// Returns whether the field is new.
    fn insert(&mut self, field: &[u8], value: Element) -> bool {
        self.form.note_len(field.len().max(value.len()));
        let is_new = self.fields.insert_marked(field, value, self.next).is_none();
        if is_new && self.next != UNORDERED {
            self.next = if self.next < MARK_MAX {
                self.next + 1
            } else {
                self.reorder()
            };
        }
        is_new
    }

    /// Gives all fields new marks, in their order, and returns the next mark.
    fn reorder(&mut self) -> u16 {
        if !self.form.is_packed() || self.fields.len() > REORDERED_MAX {
            return UNORDERED;
        }
        let marks = self.fields.iter().map(|entry| entry.key.mark());
        let mut ranks: Vec<(u16, usize)> = marks.zip(0..).collect();
        ranks.sort_unstable();
        for ((_, rank), mark) in ranks.into_iter().zip(0..) {
            self.fields.set_mark(rank, mark);
        }
        self.fields.len() as u16
    }
}

impl Formed for FieldTree {
    type Value = Element;

    fn names(&self) -> &HashedMap<Element> {
        &self.fields
    }

    fn form(&self) -> Form {
        self.form
    }

    fn form_mut(&mut self) -> &mut Form {
        &mut self.form
    }
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
        match &self.0 {
            Repr::Packed { cells, .. } => cells.len() / 2,
            Repr::Tree(tree) => tree.fields.len(),
        }
    }

    /// Whether there are no fields.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether Redis would keep it packed, as a listpack. This changes once, when an update ends.
    #[must_use]
    pub fn is_packed(&self) -> bool {
        self.0.form().is_packed()
    }

    /// Gives the hash the form that it has after an update.
    pub(crate) fn settle(&mut self, limits: &PackingLimits) {
        let len = self.len();
        self.0
            .settle(len, limits.get(PackingLimit::HashEntries), limits.get(PackingLimit::HashBytes));
    }

    /// Bytes of a packed hash; `None` for another.
    pub(crate) fn packed_bytes(&self) -> Option<usize> {
        self.0.packed_bytes()
    }

    /// The value of `field`.
    #[must_use]
    pub fn get(&self, field: &[u8]) -> Option<ElementRef<'_>> {
        match &self.0 {
            Repr::Packed { cells, .. } => {
                let [_, value] = find(cells, &cell(field)?)?;
                Some(value.element())
            }
            Repr::Tree(tree) => tree.fields.get(field).map(ElementRef::from),
        }
    }

    /// Sets `field`, and returns whether it is new.
    pub fn insert(&mut self, field: &[u8], value: Element) -> bool {
        let (cells, form) = match &mut self.0 {
            Repr::Tree(tree) => return Arc::make_mut(tree).insert(field, value),
            Repr::Packed { cells, form } => (cells, form),
        };
        form.note_len(field.len().max(value.len()));
        if let (Some(name), Some(new)) = (cell(field), cell(&value)) {
            match find(cells, &name).map(|[_, value]| value.start..value.end()) {
                Some(place) if cells.has_room_for(&[&new]) => {
                    cells.replace(place, 1, &[&new]);
                    return false;
                }
                None if cells.has_room_for(&[&name, &new]) => {
                    cells.push(&[&name, &new]);
                    return true;
                }
                _ => {}
            }
        }
        let mut tree = FieldTree::of(cells, *form);
        let is_new = tree.insert(field, value);
        self.0 = Repr::Tree(Arc::new(tree));
        is_new
    }

    /// Removes `field`, and returns whether it was there.
    pub fn remove(&mut self, field: &[u8]) -> bool {
        match &mut self.0 {
            Repr::Packed { cells, .. } => {
                let found = cell(field).and_then(|name| {
                    let [name, value] = find(cells, &name)?;
                    Some(name.start..value.end())
                });
                found.is_some_and(|place| {
                    cells.remove(place, 2);
                    true
                })
            }
            Repr::Tree(tree) => Arc::make_mut(tree).fields.remove(field).is_some(),
        }
    }

    /// The field and value of the given rank in the order of [`iter`](Self::iter); a random rank is a uniform choice.
    #[must_use]
    pub fn at(&self, rank: usize) -> Option<Pair<'_>> {
        match &self.0 {
            Repr::Packed { .. } => self.iter().nth(rank),
            Repr::Tree(tree) => tree.fields.at(rank).map(pair),
        }
    }

    /// All fields with their values, in any order.
    #[must_use]
    pub fn iter(&self) -> Fields<'_> {
        Fields(match &self.0 {
            Repr::Packed { cells, .. } => Walk::Packed(cells.cells()),
            Repr::Tree(tree) => Walk::Hashed(tree.fields.iter()),
        })
    }

    /// All fields with their values: in the order in which the fields came while the hash is
    /// [packed](Self::is_packed), unless it is larger than any that Redis packs by default; in hash order otherwise.
    #[must_use]
    pub fn in_order(&self) -> Fields<'_> {
        match &self.0 {
            Repr::Tree(tree) if tree.form.is_packed() && tree.next != UNORDERED => {
                let mut fields: Vec<_> = tree.fields.iter().collect();
                fields.sort_unstable_by_key(|entry| entry.key.mark());
                Fields(Walk::Sorted(fields.into_iter()))
            }
            _ => self.iter(),
        }
    }

    /// The next `count` fields of a scan at `cursor`; 0 starts a scan. The scan returns a field that
    /// is present throughout exactly once. A small hash is returned in one step, as Redis does.
    #[must_use]
    pub fn scan(&self, cursor: u64, count: usize) -> Scan<Fields<'_>> {
        let some = |entries| Fields(Walk::Hashed(entries));
        self.0.scan(cursor, count, || self.iter(), some)
    }
}

/// Fields with their values.
pub struct Fields<'h>(Walk<'h>);

enum Walk<'h> {
    Packed(Cells<'h>),
    Hashed(Entries<'h, Element>),
    Sorted(vec::IntoIter<&'h Entry<Element>>),
}

impl<'h> Iterator for Fields<'h> {
    type Item = Pair<'h>;

    fn next(&mut self) -> Option<Pair<'h>> {
        match &mut self.0 {
            Walk::Packed(cells) => next_pair(cells).map(|[field, value]| (field.element(), value.element())),
            Walk::Hashed(entries) => entries.next().map(pair),
            Walk::Sorted(entries) => entries.next().map(pair),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let len = match &self.0 {
            Walk::Packed(cells) => cells.len() / 2,
            Walk::Hashed(entries) => entries.len(),
            Walk::Sorted(entries) => entries.len(),
        };
        (len, Some(len))
    }

    fn fold<B, F: FnMut(B, Pair<'h>) -> B>(self, init: B, mut visit: F) -> B {
        match self.0 {
            Walk::Hashed(entries) => entries.fold(init, |folded, entry| visit(folded, pair(entry))),
            Walk::Sorted(entries) => entries.fold(init, |folded, entry| visit(folded, pair(entry))),
            Walk::Packed(mut cells) => {
                let mut folded = init;
                while let Some([field, value]) = next_pair(&mut cells) {
                    folded = visit(folded, (field.element(), value.element()));
                }
                folded
            }
        }
    }
}

impl ExactSizeIterator for Fields<'_> {}

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
                match value {
                    Some(value) => {
                        let is_new = hash.insert(&field, Element::from(&*value));
                        prop_assert_eq!(is_new, model.insert(field, value).is_none());
                    }
                    None => {
                        prop_assert_eq!(hash.remove(&field), model.remove(&field).is_some());
                    }
                }
            }
            prop_assert!(before.is_empty());
            prop_assert_eq!(hash.len(), model.len());
            for (rank, (field, value)) in hash.iter().enumerate() {
                prop_assert_eq!(model.get(&*field).map(Vec::as_slice), Some(&*value));
                prop_assert_eq!(hash.get(&field), Some(value));
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
    fn a_hash_that_was_unpacked_once_stays_so_in_a_tree() {
        let limits = PackingLimits::default();
        limits.set(PackingLimit::HashEntries, 1);
        let mut hash = Hash::new();
        for field in [b"a", b"b"] {
            hash.insert(field, Element::from(b"v"));
        }
        assert!(hash.packed_bytes().is_some());
        hash.settle(&limits);
        assert!(!hash.is_packed());
        hash.insert(b"c", Element::from([7; 30].as_slice()));
        hash.settle(&PackingLimits::default());
        assert!(!hash.is_packed() && hash.packed_bytes().is_none());
        assert!(hash.in_order().eq(hash.iter()), "in hash order");
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
                assert_eq!(snapshot.iter().filter(|(_, value)| **value == *b"old").count(), 1000);
            }
        });
        assert_eq!(hash.iter().filter(|(_, value)| **value == *b"new").count(), 1000);
    }
}
