//! A fork: a keyspace over another one, its *origin*. A transaction reads and changes the fork, and no other request
//! sees it. Commands need not know: a fork is a [`Keyspace`].
//!
//! ```text
//!   origin ──── the entry of a key, when it is first touched ────► fork ◄── commands
//!      ▲                                                            │
//!      └── commit: lock the shards of all touched keys; if their ◄──┘
//!          entries are still the same, replace those that changed
//! ```
//!
//! The fork keeps each entry that it took over. While it does, no update can change that entry in place, so the same
//! entry at the commit means the same content: all reads and all writes of the transaction are as of the commit.
//! A fork has one instant, by which it decides what has expired. If a key that it found alive is dead by the commit,
//! this counts as a change: others may have acted on that.
//! What walks over keys without naming them (SCAN, the number of keys) sees the origin as it is at that moment, with
//! the fork's changes, and the commit does not compare it.
//!
//! A fork made under locks knows the locked shards by snapshots and takes no lock of its origin. It sees nothing in
//! other shards, and if it looked there, the commit fails.

use std::iter::Peekable;
use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::Mutex;

use crate::contents::Walk;
use crate::databases::Forks;
use crate::entry::Entry;
use crate::index::Index;
use crate::journal::Records;
use crate::keyspace::{Keyspace, visit_live};

/// What a fork knows of its origin.
#[derive(Debug)]
pub(crate) struct Origin {
    pub(crate) keyspace: Arc<Keyspace>,
    /// The entries of the locked shards; `None` if no lock is held.
    locked: Option<HashMap<usize, Index>>,
    /// The instant of the transaction.
    pub(crate) now_ms: u64,
    pub(crate) touched: Mutex<Touched>,
    /// Those of the transaction, if changes are recorded.
    pub(crate) records: Option<Arc<Records>>,
}

/// What a fork has taken over.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    pub(crate) keys: HashMap<Box<[u8]>, Before>,
    /// The fork was cleared: nothing of the origin is left in it.
    pub(crate) cleared: bool,
    /// Needed something of all shards.
    pub(crate) all_shards: bool,
}

/// A key of the origin when the fork first touched it.
#[derive(Debug)]
pub(crate) struct Before {
    pub(crate) position: u64,
    /// How many keys the fork had touched before.
    pub(crate) order: usize,
    /// `None` if the fork had been cleared before, so that the key did not matter.
    pub(crate) entry: Option<Option<Entry>>,
}

impl Origin {
    /// `locked` are the snapshots of the shards that are locked, if there are locks.
    pub(crate) fn new(keyspace: &Arc<Keyspace>, locked: Option<HashMap<usize, Index>>, forks: &Forks) -> Self {
        Self {
            keyspace: Arc::clone(keyspace),
            locked,
            now_ms: forks.now_ms,
            touched: Mutex::default(),
            records: forks.records.clone(),
        }
    }

    pub(crate) const fn is_locked(&self) -> bool {
        self.locked.is_some()
    }

    /// Takes over the entry of `key` if `fork` touches the key for the first time.
    pub(crate) fn fetch(&self, fork: &Keyspace, position: u64, key: &[u8]) {
        let mut touched = self.touched.lock();
        if touched.keys.contains_key(key) {
            return;
        }
        let entry = if touched.cleared {
            None
        } else {
            let entry = self.find(position, key);
            if let Some(entry) = &entry {
                fork.adopt(position, key, entry.clone());
            }
            Some(entry)
        };
        let before = Before { position, order: touched.keys.len(), entry };
        touched.keys.insert(key.into(), before);
    }

    /// The origin's entry of `key`, which may have expired.
    fn find(&self, position: u64, key: &[u8]) -> Option<Entry> {
        let index = self.keyspace.shard_index(position);
        let Some(locked) = &self.locked else {
            let state = self.keyspace.shards[index].state.lock();
            return state.find(position, key).cloned();
        };
        locked.get(&index)?.find(position, key).cloned()
    }

    /// The entry of `key` that the fork took over from its origin.
    pub(crate) fn entry_before(&self, key: &[u8]) -> Option<Entry> {
        let touched = self.touched.lock();
        touched.keys.get(key)?.entry.clone()?
    }

    /// Forgets the rest of the origin.
    pub(crate) fn clear(&self) {
        let mut touched = self.touched.lock();
        touched.cleared = true;
        touched.all_shards = true;
    }

    /// Number of keys of the origin that the fork has not touched.
    pub(crate) fn untouched_len(&self) -> usize {
        let touched = self.touched.lock();
        if touched.cleared {
            return 0;
        }
        let taken_over = touched.keys.values();
        let taken_over = taken_over.filter(|before| matches!(before.entry, Some(Some(_))));
        self.keyspace.len().saturating_sub(taken_over.count())
    }

    pub(crate) fn key_len_max(&self) -> usize {
        let cleared = self.touched.lock().cleared;
        if cleared { 0 } else { self.keyspace.key_len_max() }
    }

    /// [`Keyspace::scan`] over the fork and what it has not touched of its origin.
    pub(crate) fn scan(&self, fork: &Keyspace, cursor: u64, count: usize, mut visit: impl FnMut(&Entry)) -> u64 {
        let own = fork.shards[0].state.lock().index.clone();
        let mut left = count.max(1);
        let mut from = cursor;
        let walk = self.locked.is_none().then(|| self.keyspace.walk());
        let now = fork.now();
        for index in self.keyspace.shard_index(cursor)..self.keyspace.shards.len() {
            let end = self.keyspace.shard_start(index + 1);
            let untouched = self.untouched(walk.as_ref(), index, from..end);
            let below_end = |(position, _): &(u64, &Entry)| *position < end;
            let merged = Merged {
                left: untouched.range(from).peekable(),
                right: own.range(from).take_while(below_end).peekable(),
            };
            let mut last = None;
            for (position, entry) in merged {
                if left == 0 && last != Some(position) {
                    return position;
                }
                left = left.saturating_sub(1);
                last = Some(position);
                visit_live(entry, &now, &mut visit);
            }
            from = end;
        }
        0
    }

    /// What the fork has not touched of a shard.
    fn untouched(&self, walk: Option<&Walk<'_>>, index: usize, positions: std::ops::Range<u64>) -> Index {
        let mut touched = self.touched.lock();
        if touched.cleared {
            return Index::new(0);
        }
        let locked = self.locked.as_ref().and_then(|locked| locked.get(&index));
        let mut index = match walk {
            Some(walk) => walk.visit(index, |_, state| state.index.clone()),
            None => {
                touched.all_shards |= locked.is_none();
                locked.cloned().unwrap_or(Index::new(0))
            }
        };
        for (key, before) in &touched.keys {
            if positions.contains(&before.position) {
                index.remove(before.position, |entry| entry.key() == &**key);
            }
        }
        index
    }
}

/// The entries of two indexes, by position.
struct Merged<L: Iterator, R: Iterator> {
    left: Peekable<L>,
    right: Peekable<R>,
}

impl<'m, L, R> Iterator for Merged<L, R>
where
    L: Iterator<Item = (u64, &'m Entry)>,
    R: Iterator<Item = (u64, &'m Entry)>,
{
    type Item = (u64, &'m Entry);

    fn next(&mut self) -> Option<Self::Item> {
        match (self.left.peek(), self.right.peek()) {
            (Some((left, _)), Some((right, _))) if right < left => self.right.next(),
            (Some(_), _) => self.left.next(),
            (None, _) => self.right.next(),
        }
    }
}

/// Whether both are the same entry.
pub(crate) fn same(left: Option<&Entry>, right: Option<&Entry>) -> bool {
    match (left, right) {
        (None, None) => true,
        (Some(left), Some(right)) => left.is(right),
        _ => false,
    }
}
