//! Operations on many keys of one keyspace that take effect at one instant.
//!
//! They lock the shards of all keys in ascending order, and hold the locks for as long as it takes to clone or to
//! replace the references to the entries. All else, such as making entries, comes before, or after.

use parking_lot::MutexGuard;
use smallvec::SmallVec;

use crate::clock::Now;
use crate::entry::Entry;
use crate::hashed::position_of;
use crate::index::Index;
use crate::journal::{Left, Recorder};
use crate::keyspace::{Keyspace, State, count};
use crate::pace::Pace;
use crate::reaper::Garbage;
use crate::value::Value;

/// Keys that are read under their locks. For more keys the indexes of the shards are cloned, which holds the locks for
/// a shorter time.
const LOCKED_READS_MAX: usize = 64;

/// A key and its place.
#[derive(Debug, Clone, Copy)]
struct Placed<'k> {
    key: &'k [u8],
    position: u64,
    shard: usize,
}

/// The shards of `keys`, in ascending order.
fn shards_of(keyspace: &Keyspace, keys: &[Placed<'_>]) -> SmallVec<[usize; 64]> {
    let all = keys.iter().map(|placed| placed.shard);
    if keys.len() > keyspace.shards.len() {
        let mut has_key = vec![false; keyspace.shards.len()];
        all.for_each(|shard| has_key[shard] = true);
        let places = has_key.iter().enumerate();
        return { places }.filter_map(|(shard, has)| has.then_some(shard)).collect();
    }
    let mut shards: SmallVec<[usize; 64]> = all.collect();
    shards.sort_unstable();
    shards.dedup();
    shards
}

/// The locked shards of some keys, in ascending order.
struct KeyLocks<'s>(SmallVec<[(usize, MutexGuard<'s, State>); 16]>);

impl<'s> KeyLocks<'s> {
    fn take(keyspace: &'s Keyspace, keys: &[Placed<'_>]) -> Self {
        let shards = shards_of(keyspace, keys);
        let lock = |shard: usize| (shard, keyspace.shards[shard].state.lock());
        Self(shards.into_iter().map(lock).collect())
    }

    /// The instant is one at which the locks are held, if any of the keys may expire.
    fn fix(&self, now: &Now) {
        if self.0.iter().any(|(_, state)| state.may_expire()) {
            now.ms();
        }
    }

    fn place(&self, placed: Placed<'_>) -> usize {
        let found = self.0.binary_search_by_key(&placed.shard, |(shard, _)| *shard);
        found.unwrap_or_else(|_| panic!("shard {} is not locked", placed.shard))
    }

    fn state(&mut self, placed: Placed<'_>) -> &mut State {
        let place = self.place(placed);
        &mut self.0[place].1
    }
}

/// Entries as they were at one instant, in the order of their keys.
type Found = SmallVec<[Option<Entry>; 16]>;

impl Keyspace {
    /// Reads all `keys` as they are at one instant, and calls `read` with each, in their order. No lock is held then.
    pub fn with_all(&self, keys: &[&[u8]], mut read: impl FnMut(Option<&Value>)) {
        self.read_all(keys, |entry| {
            if let Some(entry) = entry {
                entry.access().touch(&self.shared.clock);
            }
            read(entry.map(Entry::value));
        });
    }

    /// Like [`with_all`](Self::with_all), but does not touch the keys.
    pub fn glance_all(&self, keys: &[&[u8]], read: impl FnMut(Option<&Entry>)) {
        self.read_all(keys, read);
    }

    fn read_all(&self, keys: &[&[u8]], mut read: impl FnMut(Option<&Entry>)) {
        let pace = Pace::of(&self.shared);
        if self.is_fork() || keys.len() == 1 {
            for key in keys {
                pace.step();
                let entry = self.lookup(key, true);
                read(entry.as_ref());
                self.release(entry);
            }
            return;
        }
        let (keys, now) = (self.placed(keys), self.now());
        for (placed, entry) in keys.iter().zip(self.find_all(&keys, &now, &pace)) {
            pace.step();
            let is_expired = entry.as_ref().is_some_and(|entry| entry.is_expired(&now));
            read(entry.as_ref().filter(|_| !is_expired));
            self.release(entry);
            if is_expired {
                self.drop_expired(placed.key);
            }
        }
    }

    fn find_all(&self, keys: &[Placed<'_>], now: &Now, pace: &Pace) -> Found {
        let mut locks = KeyLocks::take(self, keys);
        locks.fix(now);
        if keys.len() <= LOCKED_READS_MAX {
            let find = |placed: &Placed<'_>| {
                let state = locks.state(*placed);
                let entry = state.find(placed.position, placed.key).cloned();
                let shard = &self.shards[placed.shard];
                let is_there = entry.is_some();
                count(if is_there { &shard.hits } else { &shard.misses }, 1);
                entry
            };
            return keys.iter().map(find).collect();
        }
        let indexes: Vec<(usize, Index)> = locks.0.iter().map(|(shard, state)| (*shard, state.index.clone())).collect();
        drop(locks);
        let find = |placed: &Placed<'_>| {
            pace.step();
            let place = indexes.binary_search_by_key(&placed.shard, |(shard, _)| *shard);
            let (_, index) = &indexes[place.ok()?];
            index.find(placed.position, placed.key).cloned()
        };
        let found: Found = keys.iter().map(find).collect();
        let hits = found.iter().flatten().count();
        self.count_reads(hits as u64, (found.len() - hits) as u64);
        found
    }

    fn placed<'k>(&self, keys: &[&'k [u8]]) -> SmallVec<[Placed<'k>; 16]> {
        let pace = Pace::of(&self.shared);
        let keys = keys.iter().inspect(|_| pace.step());
        keys.map(|key| self.place(key)).collect()
    }

    fn place<'k>(&self, key: &'k [u8]) -> Placed<'k> {
        let position = position_of(key);
        Placed { key, position, shard: self.shard_index(position) }
    }

    /// Stores all `pairs` at once. If keys are equal, the last one counts. The keys do not expire.
    pub fn insert_all<'k>(&self, pairs: impl IntoIterator<Item = (&'k [u8], Value)>) {
        self.store_all(pairs, false);
    }

    /// Stores all `pairs` at once if none of the keys has a value, and returns whether it did. If
    /// keys are equal, the last one counts.
    pub fn insert_all_if_absent<'k>(&self, pairs: impl IntoIterator<Item = (&'k [u8], Value)>) -> bool {
        self.store_all(pairs, true)
    }

    fn store_all<'k>(&self, pairs: impl IntoIterator<Item = (&'k [u8], Value)>, if_absent: bool) -> bool {
        let pace = Pace::of(&self.shared);
        // No other request wants the lock of a fork.
        let locked_pace = match self.is_fork() {
            true => &pace,
            false => &Pace::silent(),
        };
        let (keys, entries): (SmallVec<[Placed<'_>; 16]>, SmallVec<[Entry; 16]>) = pairs
            .into_iter()
            .map(|(key, value)| {
                pace.step();
                let entry = Entry::new(key, value);
                entry.access().touch(&self.shared.clock);
                (self.place(key), entry)
            })
            .unzip();
        for placed in &keys {
            pace.step();
            self.fetch(placed.position, placed.key);
        }
        let mut locks = KeyLocks::take(self, &keys);
        let now = self.now();
        locks.fix(&now);
        let is_taken = |placed: &Placed<'_>| {
            locked_pace.step();
            let present = locks.state(*placed).find(placed.position, placed.key);
            let present = present.filter(|entry| !entry.is_expired(&now));
            present.inspect(|entry| entry.access().touch(&self.shared.clock)).is_some()
        };
        if if_absent && keys.iter().any(is_taken) {
            return false;
        }
        if let Some(recorder) = Recorder::of(self) {
            Recorder::record_all(entries.iter().map(|entry| (recorder, Left::of_entry(entry.key(), Some(entry)))));
        }
        let mut replaced = SmallVec::<[_; 16]>::new();
        for (placed, entry) in keys.iter().zip(entries) {
            locked_pace.step();
            let state = locks.state(*placed);
            replaced.push(state.replace(placed.position, placed.key, Some(entry)));
            self.shards[placed.shard].publish(state, 1);
        }
        drop(locks);
        for (placed, old) in keys.iter().zip(&replaced) {
            pace.step();
            self.note_key(placed.key);
            self.note_displaced(placed.key, old.as_ref(), &now);
        }
        self.discard_all(replaced.into_iter().flatten().map(Garbage::Entry));
        true
    }

    /// Removes all `keys` at once. Returns how many of them existed.
    pub fn remove_all(&self, keys: &[&[u8]]) -> usize {
        let keys = self.placed(keys);
        for placed in &keys {
            self.fetch(placed.position, placed.key);
        }
        let mut locks = KeyLocks::take(self, &keys);
        let now = self.now();
        locks.fix(&now);
        let mut removed = SmallVec::<[_; 16]>::new();
        for placed in &keys {
            let state = locks.state(*placed);
            let old = state.replace(placed.position, placed.key, None);
            self.shards[placed.shard].publish(state, usize::from(old.is_some()));
            removed.push(old);
        }
        if let Some(recorder) = Recorder::of(self) {
            let gone = removed.iter().flatten();
            Recorder::record_all(gone.map(|entry| (recorder, Left::nothing(entry.key()))));
        }
        drop(locks);
        let mut count = 0;
        for (placed, old) in keys.iter().zip(&removed) {
            if old.is_some() {
                self.awaited.note_removed(placed.key);
                count += usize::from(!self.note_displaced(placed.key, old.as_ref(), &now));
            }
        }
        self.discard_all(removed.into_iter().flatten().map(Garbage::Entry));
        count
    }

    /// An entry is no longer there. Returns whether it had expired.
    fn note_displaced(&self, key: &[u8], entry: Option<&Entry>, now: &Now) -> bool {
        let is_expired = entry.is_some_and(|entry| entry.is_expired(now));
        if is_expired {
            self.count_expired(1);
            self.tell_expired(key);
        }
        is_expired
    }
}
