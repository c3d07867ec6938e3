//! Which fields of a hash expire next.

use crate::field_time::FieldTime;
use crate::hashed::Neighbourhood;
use crate::tree::{Item, Tree};

/// When a field expires, and about where in its hash it is: ten bytes. Two fields of one time and one neighbourhood
/// share them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DueField {
    pub(crate) time: FieldTime,
    pub(crate) near: Neighbourhood,
}

const _: () = assert!(size_of::<DueField>() == 10);

impl Item for DueField {
    type Key = Self;

    fn key(&self) -> &Self {
        self
    }
}

/// The fields of a hash that expire, by their times; a clone is O(1).
#[derive(Clone, Default)]
pub(crate) struct DueFields(Tree<Vec<DueField>>);

impl DueFields {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn first(&self) -> Option<DueField> {
        self.0.get(0).copied()
    }

    pub(crate) fn insert(&mut self, field: DueField) {
        if let Err(way) = self.0.place_of(&field) {
            self.0.insert_at(&way, field);
        }
    }

    pub(crate) fn remove(&mut self, field: DueField) {
        if let Ok(way) = self.0.place_of(&field) {
            self.0.remove_at(&way);
        }
    }
}
