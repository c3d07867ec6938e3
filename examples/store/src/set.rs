//! Sets, and their union, intersection and difference.

use std::fmt;

use crate::Element;
use crate::form::Form;
use crate::hashed::{Entry, Hashed, HashedMap, Scan, merge};
use crate::tree::Iter;

/// A set; a clone is O(1), access to a member O(log n). Members are in hash order, which is the
/// same for all sets of a process.
#[derive(Clone, Default)]
pub struct Set {
    members: HashedMap<()>,
    pub(crate) form: Form,
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

fn member(entry: &Entry<()>) -> &Element {
    &entry.key.name
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
        self.members.len()
    }

    /// Whether there are no members.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether Redis would keep it packed, as integers. This changes once, when an update ends.
    #[must_use]
    pub fn is_packed(&self) -> bool {
        self.form.is_packed()
    }

    /// Whether `member` is in the set.
    #[must_use]
    pub fn contains(&self, member: &[u8]) -> bool {
        self.members.get(member).is_some()
    }

    pub(crate) fn contains_hashed(&self, member: &Hashed) -> bool {
        self.members.get_hashed(member).is_some()
    }

    /// Adds `member`. Returns false if the set had it already.
    pub fn insert(&mut self, member: &[u8]) -> bool {
        self.form.note_member(member);
        self.members.insert(member, ()).is_none()
    }

    /// Removes `member`. Returns false if the set did not have it.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        self.members.remove(member).is_some()
    }

    /// The member of the given rank in hash order; a random rank is a uniform choice.
    #[must_use]
    pub fn at(&self, rank: usize) -> Option<&Element> {
        self.members.at(rank).map(member)
    }

    /// Removes and returns the member of the given rank.
    pub fn remove_at(&mut self, rank: usize) -> Option<Element> {
        self.members.remove_at(rank).map(|entry| entry.key.name)
    }

    /// All members.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Element> + ExactSizeIterator {
        self.members.iter().map(member)
    }

    pub(crate) fn entries(&self) -> Iter<'_, Entry<()>> {
        self.members.iter()
    }

    /// The next `count` members of a scan at `cursor`; 0 starts a scan. The scan returns a member
    /// that is present throughout exactly once.
    pub fn scan(&self, cursor: u64, count: usize) -> Scan<impl ExactSizeIterator<Item = &Element>> {
        let Scan { cursor, entries } = self.members.scan(cursor, count);
        Scan {
            cursor,
            entries: entries.map(member),
        }
    }

    /// The members that all of `sets` share, in time proportional to the smallest.
    pub fn intersection(sets: &[Set]) -> impl Iterator<Item = &Element> {
        shared(sets, &|| ()).map(member)
    }
}

fn shared<'s>(sets: &'s [Set], visit: &'s dyn Fn()) -> impl Iterator<Item = &'s Entry<()>> {
    let smallest = sets.iter().enumerate().min_by_key(|(_, set)| set.len());
    smallest.into_iter().flat_map(|(smallest, set)| {
        let others = sets
            .iter()
            .enumerate()
            .filter(move |(index, _)| *index != smallest);
        let entries = set.entries().inspect(|_| visit());
        entries.filter(move |entry| {
            others
                .clone()
                .all(|(_, other)| other.contains_hashed(&entry.key))
        })
    })
}

impl SetOperation {
    /// Applies the operation to `sets` in order. The result of no sets is empty. Calls `visit` for
    /// each member that it examines, so that the caller can pause or measure progress.
    #[must_use]
    pub fn apply(self, sets: &[Set], visit: &dyn Fn()) -> Set {
        let members: HashedMap<()> = match (self, sets) {
            (_, [only]) => only.members.clone(),
            (Self::Union, _) => {
                let sources = sets.iter().map(|set| {
                    set.entries()
                        .inspect(|_| visit())
                        .map(|entry| (&entry.key, ()))
                });
                merge(sources.collect(), |_, _, ()| ())
                    .map(|(key, value)| Entry {
                        key: key.clone(),
                        value,
                    })
                    .collect()
            }
            (Self::Intersection, _) => shared(sets, visit).cloned().collect(),
            (Self::Difference, [first, others @ ..]) => first
                .entries()
                .inspect(|_| visit())
                .filter(|entry| !others.iter().any(|other| other.contains_hashed(&entry.key)))
                .cloned()
                .collect(),
            (Self::Difference, []) => HashedMap::default(),
        };
        let form = Form::of_members(members.iter().map(member).inspect(|_| visit()));
        Set { members, form }
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
            prop_assert!(Set::intersection(&sets).eq(shared.iter()));
        }
    }
}
