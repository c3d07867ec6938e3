//! A fork: a keyspace over another one, its *origin*. A transaction reads and changes the fork, and nobody else
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
//! What walks over keys without naming them (SCAN, the number of keys) sees the origin as it is at that moment, with
//! the fork's changes, and the commit does not compare it.
//!
//! A fork made under locks knows the locked shards by snapshots and takes no lock of its origin. What it needs of
//! other shards *escapes* it: it sees nothing there, and the commit fails.

use std::collections::BTreeSet;
use std::iter::Peekable;
use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::Mutex;

use crate::entry::Entry;
use crate::hashed::position_of;
use crate::keyspace::{Bucket, Keyspace, Map, visit_live};
use crate::locks::ShardLocks;
use crate::reaper::Garbage;

/// What a fork knows of its origin.
#[derive(Debug)]
pub(crate) struct Origin {
    pub(crate) keyspace: Arc<Keyspace>,
    /// The maps of the locked shards; `None` if no lock is held.
    locked: Option<HashMap<usize, Map>>,
    touched: Mutex<Touched>,
}

#[derive(Debug, Default)]
struct Touched {
    keys: HashMap<Box<[u8]>, Before>,
    /// The fork was cleared: nothing of the origin is left in it.
    cleared: bool,
    /// Needed something of a shard that is not locked.
    escaped: bool,
    /// Needed something of all shards.
    all_shards: bool,
    /// The commit stores nothing.
    rolled_back: bool,
}

/// A key of the origin when the fork first touched it.
#[derive(Debug)]
struct Before {
    position: u64,
    /// How many keys the fork had touched before.
    order: usize,
    /// `None` if the fork had been cleared before, so that the key did not matter.
    entry: Option<Option<Arc<Entry>>>,
}

/// The origin has changed, or needs to be locked. These shards were needed.
#[derive(Debug)]
pub(crate) struct Conflict {
    pub(crate) shards: BTreeSet<usize>,
}

impl Origin {
    pub(crate) fn new(keyspace: &Arc<Keyspace>, locks: Option<&ShardLocks<'_>>) -> Self {
        Self {
            keyspace: Arc::clone(keyspace),
            locked: locks.map(ShardLocks::maps),
            touched: Mutex::default(),
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
            let entry = self.find(position, key, &mut touched);
            if let Some(entry) = &entry {
                fork.adopt(position, key, Arc::clone(entry));
            }
            Some(entry)
        };
        let before = Before {
            position,
            order: touched.keys.len(),
            entry,
        };
        touched.keys.insert(key.into(), before);
    }

    /// The origin's entry of `key`, which may have expired.
    fn find(&self, position: u64, key: &[u8], touched: &mut Touched) -> Option<Arc<Entry>> {
        let index = self.keyspace.shard_index(position);
        let Some(locked) = &self.locked else {
            let state = self.keyspace.shards[index].state.lock();
            return state.find(position, key).cloned();
        };
        let Some(map) = locked.get(&index) else {
            touched.escaped = true;
            return None;
        };
        let mut bucket = map.get(&position)?.iter();
        bucket.find(|entry| entry.key() == key).cloned()
    }

    /// The entry of `key` that the fork took over from its origin.
    pub(crate) fn entry_before(&self, key: &[u8]) -> Option<Arc<Entry>> {
        let touched = self.touched.lock();
        touched.keys.get(key)?.entry.clone()?
    }

    /// Forgets the rest of the origin.
    pub(crate) fn clear(&self) {
        let mut touched = self.touched.lock();
        touched.cleared = true;
        touched.all_shards = true;
        touched.escaped |= self.is_partly_locked();
    }

    pub(crate) fn roll_back(&self) {
        self.touched.lock().rolled_back = true;
    }

    fn is_partly_locked(&self) -> bool {
        let locked = self.locked.as_ref();
        locked.is_some_and(|locked| locked.len() < self.keyspace.shards.len())
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
        if cleared {
            0
        } else {
            self.keyspace.key_len_max()
        }
    }

    /// [`Keyspace::scan`] over the fork and what it has not touched of its origin.
    pub(crate) fn scan(
        &self,
        fork: &Keyspace,
        cursor: u64,
        count: usize,
        mut visit: impl FnMut(&Arc<Entry>),
    ) -> u64 {
        let own = fork.shards[0].state.lock().map.clone();
        let mut left = count.max(1);
        let mut from = cursor;
        for index in self.keyspace.shard_index(cursor)..self.keyspace.shards.len() {
            let end = self.keyspace.shard_start(index + 1);
            let map = self.untouched(index, from..end);
            let merged = Merged {
                left: map.iter().peekable(),
                right: own.range(from..end).peekable(),
            };
            for (position, buckets) in merged {
                if left == 0 {
                    return position;
                }
                for bucket in buckets.into_iter().flatten() {
                    left = left.saturating_sub(bucket.len());
                    visit_live(bucket, &mut visit);
                }
            }
            from = end;
        }
        0
    }

    /// What the fork has not touched of a shard.
    fn untouched(&self, index: usize, positions: std::ops::Range<u64>) -> Map {
        let mut touched = self.touched.lock();
        if touched.cleared {
            return Map::new();
        }
        let mut map = match &self.locked {
            None => self.keyspace.shards[index].state.lock().map.clone(),
            Some(locked) => match locked.get(&index) {
                Some(map) => map.clone(),
                None => {
                    (touched.escaped, touched.all_shards) = (true, true);
                    Map::new()
                }
            },
        };
        for (key, before) in &touched.keys {
            if !positions.contains(&before.position) {
                continue;
            }
            if let Some(bucket) = map.get_mut(&before.position) {
                bucket.retain(|entry| entry.key() != &**key);
            }
        }
        map
    }
}

/// The buckets of two maps, by position.
struct Merged<L: Iterator, R: Iterator> {
    left: Peekable<L>,
    right: Peekable<R>,
}

impl<'m, L, R> Iterator for Merged<L, R>
where
    L: Iterator<Item = (&'m u64, &'m Bucket)>,
    R: Iterator<Item = (&'m u64, &'m Bucket)>,
{
    type Item = (u64, [Option<&'m Bucket>; 2]);

    fn next(&mut self) -> Option<Self::Item> {
        let fronts = [self.left.peek(), self.right.peek()];
        let position = *fronts.into_iter().flatten().map(|(at, _)| *at).min()?;
        let left = self.left.next_if(|(at, _)| **at == position);
        let right = self.right.next_if(|(at, _)| **at == position);
        Some((position, [left, right].map(|item| Some(item?.1))))
    }
}

impl Keyspace {
    /// A fork of this keyspace. `locks` are the shards whose locks the caller holds until the commit.
    pub(crate) fn fork(self: &Arc<Self>, locks: Option<&ShardLocks<'_>>) -> Self {
        Self::over(Origin::new(self, locks))
    }

    /// Stores what `fork` changed, if everything that it touched is as it was. `locks` are those of
    /// [`fork`](Self::fork).
    pub(crate) fn commit(
        &self,
        fork: &Self,
        locks: Option<ShardLocks<'_>>,
    ) -> Result<(), Conflict> {
        let Some(origin) = &fork.origin else {
            return Ok(());
        };
        let touched = origin.touched.lock();
        if touched.rolled_back {
            return Ok(());
        }
        let shards: BTreeSet<usize> = if touched.all_shards {
            (0..self.shards.len()).collect()
        } else {
            let keys = touched.keys.values();
            keys.map(|before| self.shard_index(before.position))
                .collect()
        };
        if touched.escaped {
            return Err(Conflict { shards });
        }
        let mut locks = locks.unwrap_or_else(|| ShardLocks::take(self, &shards));
        let is_unchanged = touched.keys.iter().all(|(key, before)| {
            let Some(entry) = &before.entry else {
                return true;
            };
            let state = locks.state(self.shard_index(before.position));
            same(state.find(before.position, key), entry.as_ref())
        });
        if !is_unchanged {
            return Err(Conflict { shards });
        }
        let mut garbage = Vec::new();
        let (mut stored, mut removed, mut expired) = (Vec::new(), Vec::new(), Vec::new());
        if touched.cleared {
            for index in shards {
                let state = locks.state_mut(index);
                garbage.push(Garbage::Shards(vec![state.take_all()]));
                self.shards[index].publish(state);
            }
        }
        let own = fork.shards[0].state.lock();
        for (key, before) in &touched.keys {
            let after = own.find(before.position, key);
            let was = before.entry.as_ref().and_then(Option::as_ref);
            if !touched.cleared && same(after, was) {
                continue;
            }
            let has_expired = was.is_some_and(|entry| entry.is_expired(crate::unix_time_ms));
            expired.extend(has_expired.then_some(key));
            match after {
                Some(_) => stored.push((before.order, key)),
                None => removed.push(key),
            }
            let index = self.shard_index(before.position);
            let state = locks.state_mut(index);
            let old = state.replace(before.position, key, after.cloned());
            self.shards[index].publish(state);
            garbage.extend(old.map(Garbage::Entry));
        }
        drop(locks);
        // Those who wait are served in the order in which the fork stored the keys.
        stored.sort_unstable();
        stored.into_iter().for_each(|(_, key)| self.note_key(key));
        expired.into_iter().for_each(|key| self.tell_expired(key));
        removed
            .iter()
            .for_each(|key| self.awaited.note_removed(key));
        if touched.cleared {
            self.awaited.note_all_removed();
        }
        self.add_stats(fork.stats());
        self.discard_all(garbage);
        Ok(())
    }
}

/// Whether both are the same entry.
fn same(left: Option<&Arc<Entry>>, right: Option<&Arc<Entry>>) -> bool {
    match (left, right) {
        (None, None) => true,
        (Some(left), Some(right)) => Arc::ptr_eq(left, right),
        _ => false,
    }
}

/// A key whose changes a client waits for.
#[derive(Debug)]
pub struct Watched {
    key: Box<[u8]>,
    entry: Option<Arc<Entry>>,
}

impl Watched {
    /// The key.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.key
    }
}

impl Keyspace {
    /// Remembers a key as it is now, for [`transact`](Self::transact).
    #[must_use]
    pub fn watch(&self, key: &[u8]) -> Watched {
        Watched {
            key: key.into(),
            entry: self.lookup(key, false),
        }
    }

    /// Whether the fork found all watched keys as they were.
    pub(crate) fn found_unchanged(&self, watched: &[Watched]) -> bool {
        let Some(origin) = &self.origin else {
            return true;
        };
        watched.iter().all(|watched| {
            origin.fetch(self, position_of(&watched.key), &watched.key);
            let now = origin.entry_before(&watched.key);
            let has_expired = now
                .as_ref()
                .is_some_and(|entry| entry.is_expired(crate::unix_time_ms));
            !has_expired && same(now.as_ref(), watched.entry.as_ref())
        })
    }
}
