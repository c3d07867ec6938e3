//! A shard as a commit leaves it, made before the commit locks its shards.
//!
//! ```text
//!   lock ─ clone ─ unlock ──── changes to the clone ────► lock all ─ the same as before? ─ the clone takes its place
//! ```
//!
//! A commit of thousands of keys holds its locks for as long as it takes to exchange the roots of their shards. A shard
//! that another request changed meanwhile is changed under its lock, key by key.

use crate::entry::Entry;
use crate::index::Index;
use crate::keyspace::{Felt, Shard, State};

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Prepared {
    before: Index,
    after: Index,
    /// What the changes mean to the rest of the shard.
    felt: Vec<Felt>,
    replaced: Vec<Entry>,
}

impl Prepared {
    /// Of a shard as it is now, without changes.
    pub(crate) fn of(shard: &Shard) -> Self {
        let before = shard.state.lock().index.clone();
        Self {
            after: before.clone(),
            before,
            felt: Vec::new(),
            replaced: Vec::new(),
        }
    }

    /// The entry that the shard had.
    pub(crate) fn find(&self, position: u64, key: &[u8]) -> Option<&Entry> {
        self.before.find(position, key)
    }

    /// Stores `entry` in place of the key's entry; `None` removes the key.
    pub(crate) fn replace(&mut self, position: u64, key: &[u8], entry: Option<Entry>) {
        let (old, felt) = self.after.replace(position, key, entry);
        self.felt.extend(felt);
        self.replaced.extend(old);
    }

    /// Whether the shard is as it was.
    pub(crate) fn fits(&self, state: &State) -> bool {
        self.before.is(&state.index)
    }

    /// Gives the shard its changes.
    ///
    /// # Panics
    /// It does not [fit](Self::fits).
    pub(crate) fn put(&mut self, state: &mut State) {
        assert!(self.fits(state), "the shard has changed");
        std::mem::swap(&mut self.after, &mut state.index);
        self.felt.drain(..).for_each(|felt| state.feel(felt));
    }

    /// The entries that the shard had before its changes.
    pub(crate) fn into_replaced(self) -> Vec<Entry> {
        self.replaced
    }
}
