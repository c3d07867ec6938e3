//! A snapshot: all databases as they are at one instant.
//!
//! ```text
//!   lock shard 0, clone its index ─ lock shard 1, clone its index ─ .. ─ unlock all      some 30 us a database
//! ```
//!
//! Who changes several shards at once locks all of them in the same order, so that a snapshot has all of the change or
//! nothing. It shares everything with the databases. Until it is dropped, an update copies what it changes: the entry
//! and the nodes on the way to it, once.
//!
//! Keys that are removed or replaced meanwhile stay in memory. They count as [pending](Databases::pending_bytes): to
//! remove more of them would free nothing.

use std::sync::Arc;

use parking_lot::MutexGuard;

use crate::databases::Databases;
use crate::entry::Entry;
use crate::index::Index;
use crate::keyspace::{Keyspace, Shard, State};
use crate::reaper::Keeper;

/// All databases as they were at one instant.
#[derive(Debug)]
pub struct Snapshot {
    changes: u64,
    databases: Vec<DatabaseSnapshot>,
}

/// One database of a [`Snapshot`].
#[derive(Debug)]
pub struct DatabaseSnapshot {
    number: usize,
    len: usize,
    volatile_len: usize,
    shards: Vec<Index>,
    keeper: Arc<Keeper>,
}

/// The entries of one shard, some thousandth of a database's.
#[derive(Debug)]
pub struct ShardSnapshot {
    index: Index,
    keeper: Arc<Keeper>,
}

impl Databases {
    /// All databases at one instant. Calls `at` at that instant, with all shards locked: for a position in what is told
    /// of changes, say.
    ///
    /// # Panics
    /// These are forks.
    pub fn snapshot<R>(&self, at: impl FnOnce() -> R) -> (Snapshot, R) {
        assert!(!self.is_fork(), "a snapshot of a transaction's fork");
        let keeper = self.shared().reaper.keeper();
        self.shared().hold(|| {
            loop {
                let used: Vec<&Keyspace> = self.used().collect();
                let mut guards = Vec::with_capacity(used.iter().map(|keyspace| keyspace.shard_count()).sum());
                let databases = used.iter().map(|keyspace| DatabaseSnapshot::lock(keyspace, &keeper, &mut guards));
                let databases = databases.collect();
                // A database that has come meanwhile may have a part of a change that others have, too.
                if self.used().count() == used.len() {
                    let changes = self.changes();
                    return (Snapshot { changes, databases }, at());
                }
            }
        })
    }
}

impl Snapshot {
    /// [`Databases::changes`] at its instant.
    #[must_use]
    pub const fn changes(&self) -> u64 {
        self.changes
    }

    /// Keys of all databases.
    #[must_use]
    pub fn len(&self) -> usize {
        self.databases.iter().map(DatabaseSnapshot::len).sum()
    }

    /// Whether there are no keys.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The databases that were used, in the order of their numbers.
    pub fn into_databases(self) -> impl Iterator<Item = DatabaseSnapshot> {
        self.databases.into_iter()
    }
}

impl DatabaseSnapshot {
    /// Locks all shards and takes over what is in them.
    fn lock<'k>(keyspace: &'k Keyspace, keeper: &Arc<Keeper>, guards: &mut Vec<MutexGuard<'k, State>>) -> Self {
        let (mut len, mut volatile_len) = (0, 0);
        let clone = |shard: &'k Shard| {
            let state = shard.state.lock();
            len += state.len;
            volatile_len += state.volatile_len();
            let index = state.index.clone();
            guards.push(state);
            index
        };
        let shards = keyspace.shards.iter().map(clone).collect();
        Self {
            number: keyspace.number(),
            len,
            volatile_len,
            shards,
            keeper: Arc::clone(keeper),
        }
    }

    /// The number of the database.
    #[must_use]
    pub const fn number(&self) -> usize {
        self.number
    }

    /// Its keys, with those that had expired and were not removed yet.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether it had no keys.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Its keys that expire.
    #[must_use]
    pub const fn volatile_len(&self) -> usize {
        self.volatile_len
    }

    /// Its shards. Each ends when it is dropped, so that a walk holds ever less of the snapshot.
    pub fn into_shards(self) -> impl Iterator<Item = ShardSnapshot> {
        let Self { shards, keeper, .. } = self;
        shards.into_iter().map(move |index| ShardSnapshot { index, keeper: Arc::clone(&keeper) })
    }
}

impl ShardSnapshot {
    /// All entries, those that had expired, too.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.index.range(0).map(|(_, entry)| entry)
    }
}

impl Drop for ShardSnapshot {
    fn drop(&mut self) {
        if self.keeper.keeps_some() {
            self.index.visit_own(&mut |entry| self.keeper.forget(entry));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;
    use crate::value::Value;

    type Contents = BTreeMap<(usize, Vec<u8>), Vec<u8>>;

    fn contents(snapshot: Snapshot) -> Contents {
        let mut all = Contents::new();
        for database in snapshot.into_databases() {
            let (number, len) = (database.number(), database.len());
            let before = all.len();
            for shard in database.into_shards() {
                for entry in shard.entries() {
                    let Value::String(text) = entry.value() else {
                        panic!("not a string");
                    };
                    all.insert((number, entry.key().to_vec()), text.to_vec());
                }
            }
            assert_eq!(all.len() - before, len);
        }
        all
    }

    #[test]
    fn a_snapshot_stays_as_it_was() {
        let all = Databases::new(4);
        for number in 0..1_000_u32 {
            let store = all.get(number as usize % 2);
            store.insert(&number.to_le_bytes(), Value::string(b"old"));
        }
        all.get(1).update(&1_u32.to_le_bytes(), |slot| slot.set_expire_at_ms(Some(1 << 50)));
        let (snapshot, at) = all.snapshot(|| 7);
        assert_eq!((at, snapshot.len(), snapshot.is_empty()), (7, 1_000, false));
        assert_eq!(snapshot.changes(), all.changes());
        assert_eq!(snapshot.databases[1].volatile_len(), 1);
        for number in 0..500_u32 {
            all.get(number as usize % 2).insert(&number.to_le_bytes(), Value::string(b"new"));
        }
        all.get(0).clear();
        all.swap(0, 3);
        let kept = contents(snapshot);
        assert_eq!(kept.len(), 1_000);
        assert!(kept.values().all(|text| text == b"old"));
        assert!(all.snapshot(|| ()).0.changes() > 2_000);
    }

    #[test]
    fn what_a_snapshot_keeps_counts_as_pending_until_its_shard_is_dropped() {
        let all = Databases::new(1);
        let store = all.get(0);
        let keys: Vec<[u8; 4]> = (0..2_000_u32).map(u32::to_le_bytes).collect();
        let text = Value::string(&[b'v'; 100]);
        keys.iter().for_each(|key| store.insert(key, text.clone()));
        let bytes = store.peek(&keys[0], |entry| entry.unwrap().memory_bytes());
        store.remove(&keys[0]);
        assert_eq!(all.pending_bytes(), 0);
        let (snapshot, ()) = all.snapshot(|| ());
        store.remove(&keys[1]);
        store.insert(&keys[2], text.clone());
        store.insert(&keys[2], text.clone());
        assert_eq!(store.remove_all(&[&keys[3], &keys[4]]), 2);
        keys[5..1_000].iter().for_each(|key| assert!(store.remove(key)));
        assert_eq!(all.pending_bytes(), 999 * bytes);
        let mut left = 999;
        for database in snapshot.into_databases() {
            for shard in database.into_shards() {
                shard.index.visit_own(&mut |_| left -= 1);
                drop(shard);
                assert_eq!(all.pending_bytes(), left * bytes);
            }
        }
        assert_eq!(left, 0);
        let other = all.snapshot(|| ()).0;
        store.remove(&keys[1_500]);
        assert_eq!(all.pending_bytes(), bytes);
        drop(other);
        assert_eq!(all.pending_bytes(), 0);
    }

    #[test]
    fn what_reads_and_what_fails_is_no_change() {
        let all = Arc::new(Databases::new(2));
        let store = all.get(0);
        let mut expected = 0;
        let mut expect = |more: u64| {
            expected += more;
            assert_eq!(all.changes(), expected);
        };
        store.insert(b"a", Value::string(b"v"));
        expect(1);
        assert!(store.get(b"a").is_some());
        store.update(b"a", |slot| slot.value().is_some());
        store.remove(b"none");
        expect(0);
        store.insert_all([(&b"a"[..], Value::string(b"w")), (b"b", Value::string(b"w"))]);
        expect(2);
        assert!(!store.insert_all_if_absent([(&b"a"[..], Value::string(b"w"))]));
        assert_eq!(store.remove_all(&[b"a", b"none"]), 1);
        expect(1);
        store.update_pair(b"b", b"c", |from, to| to.insert(from.remove().unwrap()));
        expect(2);
        store.update_large(b"c", |slot| slot.set_expire_at_ms(Some(1)));
        expect(1);
        store.remove_expired();
        expect(1);
        all.transact(&[], |fork| {
            fork.get(0).insert(b"a", Value::string(b"1"));
            fork.get(0).insert(b"a", Value::string(b"2"));
            fork.get(1).insert(b"a", Value::string(b"2"));
            fork.get(1).get(b"b")
        });
        expect(2);
        store.clear();
        expect(1);
    }

    /// Writers change keys of many shards and databases at once. All of these always have the same value.
    #[test]
    fn no_change_of_many_shards_is_seen_half() {
        const KEYS: u32 = 40;
        /// Of each database that transactions write to. The last one is new when the first snapshots are taken.
        const DATABASES: usize = 3;
        let all = Arc::new(Databases::new(DATABASES + 1));
        let over = AtomicBool::new(false);
        let keys: Vec<[u8; 4]> = (0..KEYS).map(u32::to_le_bytes).collect();
        thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0_u32.. {
                    let pairs = keys.iter().map(|key| (&key[..], Value::string(&round.to_le_bytes())));
                    all.get(DATABASES).insert_all(pairs);
                    if over.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
            scope.spawn(|| {
                for round in 0_u32.. {
                    all.transact(&[], |fork| {
                        for number in 0..DATABASES {
                            for key in &keys {
                                fork.get(number).insert(key, Value::string(&round.to_le_bytes()));
                            }
                        }
                    });
                    if over.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
            let mut snapshots = 0;
            while snapshots < 200 {
                let kept = contents(all.snapshot(|| ()).0);
                for databases in [0..DATABASES, DATABASES..DATABASES + 1] {
                    let of_these: Vec<_> = kept.iter().filter(|((at, _), _)| databases.contains(at)).collect();
                    assert!([0, KEYS as usize * databases.len()].contains(&of_these.len()), "{}", of_these.len());
                    let same = of_these.iter().all(|(_, text)| *text == of_these[0].1);
                    assert!(same, "{databases:?}: a half");
                }
                snapshots += usize::from(!kept.is_empty());
            }
            over.store(true, Ordering::Relaxed);
        });
    }
}
