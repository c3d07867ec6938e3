//! Keys that a client watches: whether they are as they were when a transaction takes effect.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::absence::Came;
use crate::entry::Entry;
use crate::fork::same;
use crate::hashed::position_of;
use crate::keyspace::{Keyspace, Shard};

/// A key whose changes a client waits for.
#[derive(Debug)]
pub struct Watched {
    database: usize,
    key: Box<[u8]>,
    found: Found,
}

/// What a client found that began to watch a key.
#[derive(Debug)]
enum Found {
    Entry(Entry),
    Nothing(Absence),
}

/// A watched key that does not exist.
#[derive(Debug)]
struct Absence {
    shards: Arc<[Shard]>,
    shard: usize,
    position: u64,
    came: Came,
}

impl Drop for Absence {
    fn drop(&mut self) {
        let mut state = self.shards[self.shard].state.lock();
        state.absences.unwatch(self.position, &self.came);
    }
}

impl Watched {
    /// The number of the key's database.
    #[must_use]
    pub const fn database(&self) -> usize {
        self.database
    }
}

impl Keyspace {
    /// Remembers a key as it is now, for [`transact`](crate::Databases::transact).
    #[must_use]
    pub fn watch(&self, key: &[u8]) -> Watched {
        let found = match self.lookup(key, false) {
            Some(entry) => Found::Entry(entry),
            None => Found::Nothing(self.watch_for(key)),
        };
        Watched { database: self.number(), key: key.into(), found }
    }

    /// Watches for a key that does not exist.
    fn watch_for(&self, key: &[u8]) -> Absence {
        let position = position_of(key);
        let shard = self.shard_index(position);
        let mut state = self.shards[shard].state.lock();
        let came = match state.find(position, key) {
            // It came right now.
            Some(_) => Came::new(true.into()),
            None => state.absences.watch(position),
        };
        Absence { shards: Arc::clone(&self.shards), shard, position, came }
    }

    /// Whether the fork found a watched key of this database as it was.
    pub(crate) fn found_unchanged(&self, watched: &Watched) -> bool {
        let Some(origin) = &self.origin else {
            return true;
        };
        origin.fetch(self, position_of(&watched.key), &watched.key);
        let now = origin.entry_before(&watched.key);
        let has_expired = now.as_ref().is_some_and(|entry| entry.is_expired(&self.now()));
        match &watched.found {
            Found::Entry(entry) => !has_expired && same(now.as_ref(), Some(entry)),
            Found::Nothing(absence) => now.is_none() && !absence.came.load(Ordering::Relaxed),
        }
    }
}
