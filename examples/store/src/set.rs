//! Sets, and their union, intersection and difference.

use std::fmt;
use std::slice::ChunksExact;

use triomphe::Arc;

use crate::form::{Form, PackingLimit, PackingLimits, integer};
use crate::hashed::{Entries, Entry, HashedMap, Scan, merge};
use crate::narrow::Narrow;
use crate::numbers::Numbers;
use crate::packed::{Cell, Cells, Content, Packed, Placed, cell, number_cell};
use crate::repr::{Formed, Repr};
use crate::{Element, ElementRef};

/// A set; a clone is O(1), access to a member O(log n). A small set is packed: integers in their order, or members in
/// the order in which they came. A larger one has them in hash order, which is the same for all sets of a process.
#[derive(Clone, Default)]
pub struct Set(Repr<MemberTree>);

#[derive(Clone, Default)]
struct MemberTree {
    members: HashedMap<()>,
    form: Form,
}

/// How to combine several sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetOperation {
    /// Members of any of the sets.
    Union,
    /// Members of all sets.
    Intersection,
    /// Members of the first set that are in no other.
    Difference,
}

fn member(entry: &Entry<()>) -> ElementRef<'_> {
    (&entry.key.name).into()
}

fn find<'s>(cells: &'s Packed, name: &Cell) -> Option<Placed<'s>> {
    cells.cells().find(|cell| cell.bytes == &**name)
}

/// A number as a member.
fn digits<'s>(number: i64) -> ElementRef<'s> {
    Content::Number(number).into()
}

/// Adds a member to a packed set. Returns whether it is new; `None` if there is no room for it.
fn put(cells: &mut Packed, member: &[u8]) -> Option<bool> {
    if let Some(numbers) = cells.numbers() {
        if let Some(number) = integer(member) {
            let Err(place) = numbers.place_of(number) else {
                return Some(false);
            };
            *cells = Packed::of_numbers(&numbers.with(place, number))?;
            return Some(true);
        }
        let texts: Vec<Cell> = numbers.iter().map(number_cell).collect();
        *cells = Packed::of(&texts)?;
    }
    let name = cell(member)?;
    if find(cells, &name).is_some() {
        return Some(false);
    }
    cells.has_room_for(&[&name]).then(|| {
        cells.push(&[&name]);
        true
    })
}

/// Removes a member from a packed set. Returns whether it was there.
fn take(cells: &mut Packed, member: &[u8]) -> bool {
    let Some(numbers) = cells.numbers() else {
        let found = cell(member).and_then(|name| find(cells, &name));
        let place = found.map(|found| found.start..found.end());
        return place.is_some_and(|place| {
            cells.remove(place, 1);
            true
        });
    };
    let index = integer(member).and_then(|number| numbers.place_of(number).ok());
    let left = index.map(|index| without(numbers, index));
    left.is_some_and(|left| {
        *cells = left;
        true
    })
}

/// A packed set without the number at `index`.
fn without(numbers: Numbers<'_>, index: usize) -> Packed {
    Packed::of_numbers(&numbers.without(index)).unwrap_or_default()
}

impl Formed for MemberTree {
    type Value = ();

    fn names(&self) -> &HashedMap<()> {
        &self.members
    }

    fn form(&self) -> Form {
        self.form
    }

    fn form_mut(&mut self) -> &mut Form {
        &mut self.form
    }
}

impl Set {
    /// An empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of members.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.0 {
            Repr::Packed { cells, .. } => cells.numbers().map_or_else(|| cells.len(), Numbers::len),
            Repr::Tree(tree) => tree.members.len(),
        }
    }

    /// Whether there are no members.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether Redis would keep it packed, as integers. This changes once, when an update ends.
    #[must_use]
    pub fn is_packed(&self) -> bool {
        self.0.form().is_packed()
    }

    /// Gives the set the form that it has after an update.
    pub(crate) fn settle(&mut self, limits: &PackingLimits) {
        let len = self.len();
        self.0.settle(len, limits.get(PackingLimit::SetEntries), u64::MAX);
    }

    /// Bytes of a packed set; `None` for another.
    pub(crate) fn packed_bytes(&self) -> Option<usize> {
        self.0.packed_bytes()
    }

    /// The members as a tree.
    pub(crate) fn to_map(&self) -> HashedMap<()> {
        match &self.0 {
            Repr::Packed { .. } => {
                let mut map = HashedMap::default();
                for member in self.iter() {
                    map.insert(&member, ());
                }
                map
            }
            Repr::Tree(tree) => tree.members.clone(),
        }
    }

    /// Whether `member` is in the set.
    #[must_use]
    pub fn contains(&self, member: &[u8]) -> bool {
        match &self.0 {
            Repr::Packed { cells, .. } => match cells.numbers() {
                Some(numbers) => integer(member).is_some_and(|number| numbers.place_of(number).is_ok()),
                None => cell(member).is_some_and(|name| find(cells, &name).is_some()),
            },
            Repr::Tree(tree) => tree.members.get(member).is_some(),
        }
    }

    /// Adds `member`. Returns false if the set had it already.
    pub fn insert(&mut self, member: &[u8]) -> bool {
        let (cells, form) = match &mut self.0 {
            Repr::Tree(tree) => {
                let tree = Arc::make_mut(tree);
                tree.form.note_member(member);
                return tree.members.insert(member, ()).is_none();
            }
            Repr::Packed { cells, form } => (cells, form),
        };
        let put = put(cells, member);
        if put != Some(false) {
            form.note_member(member);
        }
        if let Some(is_new) = put {
            return is_new;
        }
        let form = *form;
        let mut members = self.to_map();
        members.insert(member, ());
        self.0 = Repr::Tree(Arc::new(MemberTree { members, form }));
        true
    }

    /// Removes `member`. Returns false if the set did not have it.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        match &mut self.0 {
            Repr::Packed { cells, .. } => take(cells, member),
            Repr::Tree(tree) => Arc::make_mut(tree).members.remove(member).is_some(),
        }
    }

    /// The member of the given rank in the order of [`iter`](Self::iter); a random rank is a uniform choice.
    #[must_use]
    pub fn at(&self, rank: usize) -> Option<ElementRef<'_>> {
        match &self.0 {
            Repr::Packed { .. } => self.iter().nth(rank),
            Repr::Tree(tree) => tree.members.at(rank).map(member),
        }
    }

    /// Removes and returns the member of the given rank.
    pub fn remove_at(&mut self, rank: usize) -> Option<Element> {
        match &mut self.0 {
            Repr::Packed { cells, .. } => {
                if let Some(numbers) = cells.numbers() {
                    let number = numbers.get(rank)?;
                    *cells = without(numbers, rank);
                    return Some(digits(number).to_element());
                }
                let found = cells.cells().nth(rank)?;
                let (place, member) = (found.start..found.end(), found.element().to_element());
                cells.remove(place, 1);
                Some(member)
            }
            Repr::Tree(tree) => {
                let removed = Arc::make_mut(tree).members.remove_at(rank);
                removed.map(|entry| entry.key.name)
            }
        }
    }

    /// All members.
    #[must_use]
    pub fn iter(&self) -> Members<'_> {
        Members(match &self.0 {
            Repr::Packed { cells, .. } => match cells.numbers() {
                Some(numbers) => Walk::Numbers(numbers.chunks()),
                None => Walk::Packed(cells.cells()),
            },
            Repr::Tree(tree) => Walk::Hashed(tree.members.iter()),
        })
    }

    /// The next `count` members of a scan at `cursor`; 0 starts a scan. The scan returns a member
    /// that is present throughout exactly once. A small set is returned in one step, as Redis does.
    #[must_use]
    pub fn scan(&self, cursor: u64, count: usize) -> Scan<Members<'_>> {
        let some = |entries| Members(Walk::Hashed(entries));
        self.0.scan(cursor, count, || self.iter(), some)
    }

    /// How many members all of `sets` share, counted up to `limit`, in time proportional to the smallest. Calls `visit`
    /// for each member that it examines.
    #[must_use]
    pub fn intersection_len(sets: &[Self], limit: usize, visit: &dyn Fn()) -> usize {
        let maps: Vec<_> = sets.iter().map(Self::to_map).collect();
        shared(&maps, visit).take(limit).count()
    }

    /// A set of these members. Calls `visit` for each.
    fn of(members: HashedMap<()>, visit: &dyn Fn()) -> Self {
        let names = || members.iter().map(|entry| &entry.key.name);
        let form = Form::of_members(names().inspect(|_| visit()));
        let some = || names().take(Packed::CELLS_MAX + 1);
        let packed = if form.has_text() {
            let cells: Option<Vec<Cell>> = some().map(|name| cell(name)).collect();
            cells.and_then(|cells| Packed::of(&cells))
        } else {
            let mut numbers: Vec<i64> = some().filter_map(|name| integer(name)).collect();
            numbers.sort_unstable();
            Packed::of_numbers(&Numbers::bytes_of(&numbers))
        };
        Self(match packed {
            Some(cells) => Repr::Packed { cells, form },
            None => Repr::Tree(Arc::new(MemberTree { members, form })),
        })
    }
}

/// Walks the members of a [`Set`].
pub struct Members<'s>(Walk<'s>);

enum Walk<'s> {
    Numbers(ChunksExact<'s, u8>),
    Packed(Cells<'s>),
    Hashed(Entries<'s, ()>),
}

impl<'s> Iterator for Members<'s> {
    type Item = ElementRef<'s>;

    fn next(&mut self) -> Option<ElementRef<'s>> {
        match &mut self.0 {
            Walk::Numbers(numbers) => numbers.next().map(Narrow::widen).map(digits),
            Walk::Packed(cells) => cells.next().map(|cell| cell.element()),
            Walk::Hashed(entries) => entries.next().map(member),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match &self.0 {
            Walk::Numbers(numbers) => numbers.size_hint(),
            Walk::Packed(cells) => cells.size_hint(),
            Walk::Hashed(entries) => entries.size_hint(),
        }
    }

    fn fold<B, F: FnMut(B, ElementRef<'s>) -> B>(self, init: B, mut visit: F) -> B {
        match self.0 {
            Walk::Numbers(numbers) => numbers.map(Narrow::widen).map(digits).fold(init, visit),
            Walk::Packed(cells) => cells.fold(init, |folded, cell| visit(folded, cell.element())),
            Walk::Hashed(entries) => entries.fold(init, |folded, entry| visit(folded, member(entry))),
        }
    }
}

impl ExactSizeIterator for Members<'_> {}

fn shared<'s>(sets: &'s [HashedMap<()>], visit: &'s dyn Fn()) -> impl Iterator<Item = &'s Entry<()>> {
    let smallest = sets.iter().enumerate().min_by_key(|(_, set)| set.len());
    smallest.into_iter().flat_map(|(smallest, set)| {
        let others = sets.iter().enumerate().filter(move |(index, _)| *index != smallest);
        let entries = set.iter().inspect(|_| visit());
        entries.filter(move |entry| others.clone().all(|(_, other)| other.get_hashed(&entry.key).is_some()))
    })
}

impl SetOperation {
    /// Applies the operation to `sets` in order. The result of no sets is empty. Calls `visit` for
    /// each member that it examines, so that the caller can pause or measure progress.
    #[must_use]
    pub fn apply(self, sets: &[Set], visit: &dyn Fn()) -> Set {
        if let [only] = sets {
            return Set::of(only.to_map(), visit);
        }
        let maps: Vec<_> = sets.iter().map(Set::to_map).collect();
        let members: HashedMap<()> = match (self, &*maps) {
            (Self::Union, _) => {
                let sources = maps.iter().map(|map| map.iter().inspect(|_| visit()).map(|entry| (&entry.key, ())));
                merge(sources.collect(), |_, _, ()| ())
                    .map(|(key, value)| Entry { key: key.clone(), value })
                    .collect()
            }
            (Self::Intersection, _) => shared(&maps, visit).cloned().collect(),
            (Self::Difference, [first, others @ ..]) => first
                .iter()
                .inspect(|_| visit())
                .filter(|entry| !others.iter().any(|other| other.get_hashed(&entry.key).is_some()))
                .cloned()
                .collect(),
            (Self::Difference, []) => HashedMap::default(),
        };
        Set::of(members, visit)
    }
}

impl fmt::Debug for Set {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, HashSet};

    use proptest::prelude::*;

    use super::*;

    fn set_of(members: &BTreeSet<u8>) -> Set {
        let mut set = Set::new();
        for member in members {
            set.insert(&[*member]);
        }
        set
    }

    proptest! {
        #[test]
        fn behaves_as_a_set(operations: Vec<(u8, bool)>) {
            let mut set = Set::new();
            let mut model = HashSet::new();
            for (member, insert) in operations {
                if insert {
                    prop_assert_eq!(set.insert(&[member]), model.insert(member));
                } else {
                    prop_assert_eq!(set.remove(&[member]), model.remove(&member));
                }
                prop_assert_eq!(set.contains(&[member]), insert);
            }
            prop_assert_eq!(set.len(), model.len());
            prop_assert_eq!(set.iter().map(|member| member[0]).collect::<HashSet<_>>(), model);
            let mut left = set.clone();
            while let Some(taken) = left.remove_at(left.len() / 2) {
                prop_assert!(set.contains(&taken) && !left.contains(&taken));
            }
            prop_assert!(left.is_empty());
        }

        #[test]
        fn operations_are_those_of_the_model(
            models in proptest::collection::vec(proptest::collection::btree_set(0_u8..40, 0..30), 0..5),
        ) {
            let sets: Vec<Set> = models.iter().map(set_of).collect();
            for operation in [SetOperation::Union, SetOperation::Intersection, SetOperation::Difference] {
                let expected = models
                    .iter()
                    .cloned()
                    .reduce(|left, right| match operation {
                        SetOperation::Union => &left | &right,
                        SetOperation::Intersection => &left & &right,
                        SetOperation::Difference => &left - &right,
                    })
                    .unwrap_or_default();
                let result = operation.apply(&sets, &|| ());
                prop_assert_eq!(result.len(), expected.len());
                prop_assert!(expected.iter().all(|member| result.contains(&[*member])));
            }
            let shared = SetOperation::Intersection.apply(&sets, &|| ());
            prop_assert_eq!(Set::intersection_len(&sets, usize::MAX, &|| ()), shared.len());
            prop_assert_eq!(Set::intersection_len(&sets, 2, &|| ()), shared.len().min(2));
        }
    }

    #[test]
    fn a_small_set_sorts_integers_and_keeps_others_as_they_came() {
        let order = |set: &Set| -> Vec<String> {
            let members = set.iter();
            members.map(|member| String::from_utf8(member.to_vec()).unwrap()).collect()
        };
        let mut set = Set::new();
        for member in ["10", "-3", "9", "200"] {
            assert!(set.insert(member.as_bytes()));
        }
        assert_eq!(order(&set), ["-3", "9", "10", "200"]);
        let again = SetOperation::Union.apply(&[set.clone(), Set::new()], &|| ());
        assert_eq!(order(&again), order(&set));
        let mut fewer = set.clone();
        assert!(fewer.remove(b"9"));
        assert_eq!(order(&fewer), ["-3", "10", "200"]);
        for member in ["b", "a", "1"] {
            assert!(set.insert(member.as_bytes()));
        }
        assert_eq!(order(&set), ["-3", "9", "10", "200", "b", "a", "1"]);
        assert!(!set.insert(b"a"));
        assert!(set.remove(b"9"));
        assert_eq!(set.remove_at(0).as_deref(), Some(b"-3".as_slice()));
        assert_eq!(order(&set), ["10", "200", "b", "a", "1"]);
        let mut many = Set::new();
        (0..1_000).for_each(|number: u32| _ = many.insert(number.to_string().as_bytes()));
        for left in (0..1_000).rev() {
            let removed = many.remove_at(left / 2).expect("it is there");
            assert!(!many.contains(&removed) && many.len() == left);
        }
    }
}
