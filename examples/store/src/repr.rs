//! How hashes, sets and sorted sets are stored.

use triomphe::Arc;

use crate::form::Form;
use crate::hashed::{Entries, HashedMap, Scan};
use crate::packed::Packed;

/// A collection, packed while it is small, or a tree of it.
#[derive(Clone)]
pub(crate) enum Repr<T> {
    Packed { cells: Packed, form: Form },
    Tree(Arc<T>),
}

/// A tree that knows the form which the collection would have in Redis.
pub(crate) trait Formed: Clone {
    /// What it has for each name.
    type Value: Clone;

    fn names(&self) -> &HashedMap<Self::Value>;
    fn form(&self) -> Form;
    fn form_mut(&mut self) -> &mut Form;
}

impl<T> Default for Repr<T> {
    fn default() -> Self {
        Self::Packed { cells: Packed::default(), form: Form::default() }
    }
}

impl<T: Formed> Repr<T> {
    pub(crate) fn form(&self) -> Form {
        match self {
            Self::Packed { form, .. } => *form,
            Self::Tree(tree) => tree.form(),
        }
    }

    /// Gives a collection of `len` elements the form that it has after an update, by these limits.
    pub(crate) fn settle(&mut self, len: usize, entries_max: u64, bytes_max: u64) {
        let mut form = self.form();
        form.settle(len, entries_max, bytes_max);
        if form != self.form() {
            match self {
                Self::Packed { form: own, .. } => *own = form,
                Self::Tree(tree) => *Arc::make_mut(tree).form_mut() = form,
            }
        }
    }

    /// The next `count` elements of a scan at `cursor`: of a packed collection `all` of them, of a tree what `some`
    /// makes of its entries.
    pub(crate) fn scan<'r, I>(
        &'r self,
        cursor: u64,
        count: usize,
        all: impl FnOnce() -> I,
        some: impl FnOnce(Entries<'r, T::Value>) -> I,
    ) -> Scan<I> {
        match self {
            Self::Packed { .. } => Scan { cursor: 0, entries: all() },
            Self::Tree(tree) => {
                let Scan { cursor, entries } = tree.names().scan(cursor, count);
                Scan { cursor, entries: some(entries) }
            }
        }
    }

    /// Bytes of a packed collection; `None` for another.
    pub(crate) fn packed_bytes(&self) -> Option<usize> {
        match self {
            Self::Packed { cells, .. } => Some(cells.heap_bytes()),
            Self::Tree(_) => None,
        }
    }
}
