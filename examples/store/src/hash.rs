//! Hashes: maps from field names to values, some of which expire.
//!
//! A field's time is part of its value, in six bytes: of a packed hash in the value's cell, of a tree in room that the
//! [`Element`] has. So a look-up finds both, and a field without a time pays nothing. A tree with times also has them in
//! order, with about where the fields are, as long as there are any:
//!
//! ```text
//!   packed   [ field │ value │ field │ 255 │ time │ value │ .. ]                     the next time: by walking
//!
//!   tree     fields: (position, field) ─► value, or value with time
//!            due:    (time, the position's highest bits)                             the next time: the first
//! ```
//!
//! A hash does not know what time it is. It keeps a field until it is removed, by a command that meets it or by the
//! [expiry cycle](crate::ExpiryCycle), which finds the hash by its [next time](Hash::next_due_ms). Commands that read
//! skip what [is due](Held::is_due).

use std::{fmt, vec};

use smallvec::SmallVec;
use triomphe::Arc;

use crate::clock::Now;
use crate::due_fields::{DueField, DueFields};
use crate::field_time::FieldTime;
use crate::form::{Form, PackingLimit, PackingLimits};
use crate::hashed::{Entries, Entry, HashedMap, MARK_MAX, Neighbourhood, Scan};
use crate::packed::{Cell, Cells, Packed, Placed, cell, timed_cell};
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
    /// The fields that expire; `None` if there never were any.
    due: Option<Arc<DueFields>>,
}

/// The hash has had too many fields to mark them.
const UNORDERED: u16 = u16::MAX;
/// Most fields that get new marks once the marks are used up.
const REORDERED_MAX: usize = 1024;

/// A field and its value.
type Pair<'h> = (ElementRef<'h>, ElementRef<'h>);

/// What a hash has for a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Held<'h> {
    /// The value.
    pub value: ElementRef<'h>,
    /// When the field expires, in milliseconds since the Unix epoch.
    pub expire_at_ms: Option<u64>,
}

impl Held<'_> {
    /// Whether the field is to be gone `now`.
    #[must_use]
    pub fn is_due(&self, now: &Now) -> bool {
        self.expire_at_ms.is_some_and(|at_ms| at_ms <= now.ms())
    }
}

impl<'h> From<&'h Element> for Held<'h> {
    #[inline]
    fn from(value: &'h Element) -> Self {
        Self {
            value: value.into(),
            expire_at_ms: value.time().map(FieldTime::ms),
        }
    }
}

impl<'h> From<Placed<'h>> for Held<'h> {
    #[inline]
    fn from(cell: Placed<'h>) -> Self {
        Self {
            value: cell.element(),
            expire_at_ms: cell.time().map(FieldTime::ms),
        }
    }
}

fn held(entry: &Entry<Element>) -> (ElementRef<'_>, Held<'_>) {
    ((&entry.key.name).into(), (&entry.value).into())
}

fn pair<'h>((field, held): (ElementRef<'h>, Held<'h>)) -> Pair<'h> {
    (field, held.value)
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
            tree.insert(&field.element(), value.element().to_element().with_time(value.time()));
        }
        Self { form, ..tree }
    }

    /// A field has a time instead of another one.
    fn reindex(&mut self, field: &[u8], before: Option<FieldTime>, after: Option<FieldTime>) {
        if before == after {
            return;
        }
        let near = Neighbourhood::of(field);
        let due = Arc::make_mut(self.due.get_or_insert_default());
        if let Some(time) = before
            && !self.fields.near(near).any(|entry| entry.value.time() == before)
        {
            due.remove(DueField { time, near });
        }
        if let Some(time) = after {
            due.insert(DueField { time, near });
        }
    }

    fn remove(&mut self, field: &[u8]) -> bool {
        let Some(old) = self.fields.remove(field) else {
            return false;
        };
        self.reindex(field, old.time(), None);
        true
    }

    fn first_due(&self) -> Option<DueField> {
        self.due.as_ref()?.first()
    }

    /// The fields that are due and next to the first of them.
    fn names_due(&self, now: FieldTime) -> SmallVec<[Element; 1]> {
        let Some(first) = self.first_due().filter(|first| first.time <= now) else {
            return SmallVec::new();
        };
        let near = self.fields.near(first.near);
        let due = near.filter(|entry| entry.value.time().is_some_and(|time| time <= now));
        due.map(|entry| entry.key.name.clone()).collect()
    }

    /// Returns whether the field is new.
    fn insert(&mut self, field: &[u8], value: Element) -> bool {
        self.form.note_len(field.len().max(value.len()));
        let time = value.time();
        let old = self.fields.insert_marked(field, value, self.next);
        let is_new = old.is_none();
        self.reindex(field, old.and_then(|old| old.time()), time);
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

    /// Whether a field had a time once. Redis has a packed form of its own for such a hash.
    #[must_use]
    pub fn was_timed(&self) -> bool {
        self.0.form().is_timed()
    }

    /// When the next field expires, in milliseconds since the Unix epoch.
    #[must_use]
    pub fn next_due_ms(&self) -> Option<u64> {
        if !self.was_timed() {
            return None;
        }
        let next = match &self.0 {
            Repr::Packed { cells, .. } => cells.cells().filter_map(|cell| cell.time()).min(),
            Repr::Tree(tree) => tree.first_due().map(|first| first.time),
        };
        next.map(FieldTime::ms)
    }

    /// Approximate bytes that a tree takes for the times of its fields.
    pub(crate) fn times_bytes(&self) -> usize {
        match &self.0 {
            Repr::Packed { .. } => 0,
            Repr::Tree(tree) => tree.due.as_ref().map_or(0, |due| due.len() * size_of::<DueField>() * 4 / 3),
        }
    }

    /// The value of `field`, due or not.
    #[must_use]
    pub fn get(&self, field: &[u8]) -> Option<ElementRef<'_>> {
        self.find(field).map(|held| held.value)
    }

    /// The value of `field` and its time.
    #[must_use]
    pub fn find(&self, field: &[u8]) -> Option<Held<'_>> {
        match &self.0 {
            Repr::Packed { cells, .. } => {
                let [_, value] = find(cells, &cell(field)?)?;
                Some(value.into())
            }
            Repr::Tree(tree) => tree.fields.get(field).map(Held::from),
        }
    }

    /// Sets `field`, which does not expire then, and returns whether it is new.
    pub fn insert(&mut self, field: &[u8], value: Element) -> bool {
        self.put(field, value.with_time(None))
    }

    /// Sets `field` and when it expires, and returns whether it is new.
    pub fn insert_expiring(&mut self, field: &[u8], value: Element, expire_at_ms: Option<u64>) -> bool {
        self.put(field, value.with_time(expire_at_ms.map(FieldTime::new)))
    }

    /// Sets or clears when `field` expires. Returns whether the field is there.
    pub fn set_expire_at_ms(&mut self, field: &[u8], expire_at_ms: Option<u64>) -> bool {
        let Some(value) = self.get(field).map(|value| value.to_element()) else {
            return false;
        };
        self.insert_expiring(field, value, expire_at_ms);
        true
    }

    /// Removes up to `count_max` fields that are due at `now_ms`, and a few that are next to them. Calls `visit` for
    /// each.
    pub fn remove_due(&mut self, now_ms: u64, count_max: usize, mut visit: impl FnMut(Element)) {
        let now = FieldTime::new(now_ms);
        let mut count = 0;
        while count < count_max && self.next_due_ms().is_some_and(|at_ms| at_ms <= now_ms) {
            let due = match &self.0 {
                Repr::Packed { cells, .. } => {
                    let mut cells = cells.cells();
                    let mut pairs = std::iter::from_fn(|| next_pair(&mut cells));
                    let first = pairs.find(|[_, value]| value.time().is_some_and(|time| time <= now));
                    first.into_iter().map(|[field, _]| field.element().to_element()).collect()
                }
                Repr::Tree(tree) => tree.names_due(now),
            };
            count += due.len();
            for field in due {
                self.remove(&field);
                visit(field);
            }
        }
    }

    /// The hash without the fields that are due `now`. Calls `visit` for each of them.
    #[must_use]
    pub fn without_due(&self, now: &Now, mut visit: impl FnMut()) -> Self {
        let mut left = self.clone();
        if self.was_timed() {
            left.remove_due(now.ms(), usize::MAX, |_| visit());
        }
        left
    }

    fn put(&mut self, field: &[u8], value: Element) -> bool {
        let (cells, form) = match &mut self.0 {
            Repr::Tree(tree) => {
                let tree = Arc::make_mut(tree);
                if value.time().is_some() {
                    tree.form.note_time();
                }
                return tree.insert(field, value);
            }
            Repr::Packed { cells, form } => (cells, form),
        };
        form.note_len(field.len().max(value.len()));
        if value.time().is_some() {
            form.note_time();
        }
        if let (Some(name), Some(new)) = (cell(field), timed_cell(&value, value.time())) {
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
            Repr::Tree(tree) => Arc::make_mut(tree).remove(field),
        }
    }

    /// The field and value of the given rank in the order of [`iter`](Self::iter); a random rank is a uniform choice.
    #[must_use]
    pub fn at(&self, rank: usize) -> Option<Pair<'_>> {
        match &self.0 {
            Repr::Packed { .. } => self.iter().nth(rank),
            Repr::Tree(tree) => tree.fields.at(rank).map(|entry| pair(held(entry))),
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

/// Fields with their values and times.
pub struct TimedFields<'h>(Walk<'h>);

impl<'h> Fields<'h> {
    /// With their times, too.
    #[must_use]
    pub fn timed(self) -> TimedFields<'h> {
        TimedFields(self.0)
    }
}

enum Walk<'h> {
    Packed(Cells<'h>),
    Hashed(Entries<'h, Element>),
    Sorted(vec::IntoIter<&'h Entry<Element>>),
}

impl<'h> Walk<'h> {
    fn next(&mut self) -> Option<(ElementRef<'h>, Held<'h>)> {
        match self {
            Self::Packed(cells) => next_pair(cells).map(|[field, value]| (field.element(), value.into())),
            Self::Hashed(entries) => entries.next().map(held),
            Self::Sorted(entries) => entries.next().map(held),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Packed(cells) => cells.len() / 2,
            Self::Hashed(entries) => entries.len(),
            Self::Sorted(entries) => entries.len(),
        }
    }
}

impl<'h> Iterator for Fields<'h> {
    type Item = Pair<'h>;

    fn next(&mut self) -> Option<Pair<'h>> {
        self.0.next().map(pair)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.0.len(), Some(self.0.len()))
    }

    fn fold<B, F: FnMut(B, Pair<'h>) -> B>(self, init: B, mut visit: F) -> B {
        match self.0 {
            Walk::Hashed(entries) => entries.fold(init, |folded, entry| visit(folded, pair(held(entry)))),
            Walk::Sorted(entries) => entries.fold(init, |folded, entry| visit(folded, pair(held(entry)))),
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

impl<'h> Iterator for TimedFields<'h> {
    type Item = (ElementRef<'h>, Held<'h>);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.0.len(), Some(self.0.len()))
    }
}

impl ExactSizeIterator for TimedFields<'_> {}

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

    proptest! {
        #[test]
        fn fields_expire_as_in_a_map(
            operations in proptest::collection::vec((0_u8..60, 0_u64..50, 0_u8..5), 0..150),
            len in prop_oneof![Just(1_usize), Just(18)],
        ) {
            let mut hash = Hash::new();
            let mut model: HashMap<Vec<u8>, Option<u64>> = HashMap::new();
            for (field, time, operation) in operations {
                let field = format!("{field:x>len$}").into_bytes();
                match operation {
                    0 => {
                        let is_new = hash.insert(&field, Element::from(&*field));
                        prop_assert_eq!(is_new, model.insert(field, None).is_none());
                    }
                    1 => {
                        let is_new = hash.insert_expiring(&field, Element::from(&*field), Some(time));
                        prop_assert_eq!(is_new, model.insert(field, Some(time)).is_none());
                    }
                    2 => {
                        let old = model.get_mut(&field);
                        prop_assert_eq!(hash.set_expire_at_ms(&field, Some(time)), old.is_some());
                        old.into_iter().for_each(|old| *old = Some(time));
                    }
                    3 => prop_assert_eq!(hash.remove(&field), model.remove(&field).is_some()),
                    _ => {
                        let now_ms = time / 4;
                        let snapshot = hash.clone();
                        let left = hash.without_due(&Now::at(now_ms), || ());
                        let mut gone = Vec::new();
                        hash.remove_due(now_ms, 2, |field| gone.push(field));
                        let mut due = model.clone();
                        due.retain(|_, at_ms| at_ms.is_some_and(|at_ms| at_ms <= now_ms));
                        prop_assert_eq!(snapshot.len() - left.len(), due.len());
                        prop_assert!(gone.len() >= due.len().min(2));
                        prop_assert_eq!(snapshot.len() - hash.len(), gone.len());
                        gone.iter().for_each(|field| assert!(due.contains_key(&**field) && model.remove(&**field).is_some()));
                    }
                }
                prop_assert_eq!(hash.next_due_ms(), model.values().flatten().min().copied());
            }
            prop_assert_eq!(hash.len(), model.len());
            for (field, held) in hash.in_order().timed() {
                prop_assert_eq!(model.get(&*field), Some(&held.expire_at_ms));
                prop_assert_eq!(hash.find(&field), Some(held));
                prop_assert_eq!(&held.value, &field);
            }
        }
    }

    /// The heap of a field's share, and that of its times.
    #[test]
    fn a_time_costs_a_few_bytes() {
        let of = |count: u32, expire_at_ms| {
            let mut hash = Hash::new();
            for field in 0..count {
                hash.insert_expiring(&field.to_be_bytes(), Element::from(b"value"), expire_at_ms);
            }
            hash
        };
        let [plain, timed] = [None, Some(1 << 40)].map(|at_ms| of(5, at_ms).packed_bytes().expect("packed"));
        assert_eq!(timed - plain, 5 * 7);
        let [plain, timed] = [None, Some(1 << 40)].map(|at_ms| crate::Value::Hash(of(1000, at_ms)).memory_bytes());
        assert!((10..=16).contains(&((timed - plain) / 1000)));
        assert_eq!(of(1000, None).times_bytes(), 0);
        assert!(
            size_of::<FieldTree>() + size_of::<usize>() <= 48,
            "the size that the allocator gave it before"
        );
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
