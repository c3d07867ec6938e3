//! What identifies the commands of a file or names their types, and the types they belong to.

use std::collections::HashMap;
use std::sync::Arc;

/// The type of a column, and its number among the columns of the type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// Number of the type.
    pub(crate) index: usize,
    /// Number of the command among those of the type.
    pub(crate) command: u32,
}

/// Different columns in the order of their first occurrence. Each is a type until they are
/// [grouped](Self::group).
#[derive(Debug, Clone, Default)]
pub(super) struct Columns {
    texts: Vec<Arc<str>>,
    numbers: HashMap<Arc<str>, usize>,
    places: Vec<Place>,
}

impl Columns {
    pub(super) fn texts(&self) -> &[Arc<str>] {
        &self.texts
    }

    pub(super) fn number(&self, text: &str) -> Option<usize> {
        self.numbers.get(text).copied()
    }

    /// Adds a column that is not there, and returns its number.
    pub(super) fn push(&mut self, text: &str) -> usize {
        let number = self.texts.len();
        let text: Arc<str> = text.into();
        self.numbers.insert(Arc::clone(&text), number);
        self.texts.push(text);
        self.places.push(Place { index: number, command: 0 });
        number
    }

    /// Makes `types` the types of the columns.
    pub(super) fn group(&mut self, types: &[usize]) {
        let mut lens: Vec<u32> = Vec::new();
        for (place, &index) in self.places.iter_mut().zip(types) {
            lens.resize(lens.len().max(index + 1), 0);
            let command = lens[index];
            lens[index] += 1;
            *place = Place { index, command };
        }
    }

    /// The place of a column, if the file had it.
    pub(super) fn place(&self, text: &str) -> Option<Place> {
        self.number(text).map(|number| self.places[number])
    }

    /// The places in the order of the columns.
    pub(super) fn places(&self) -> &[Place] {
        &self.places
    }
}
