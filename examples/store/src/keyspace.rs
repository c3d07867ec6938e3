//! The keyspace: shards of persistent maps from hash positions to entries.
//!
//! A position is 53 bits of a key's hash. Its highest bits choose the shard, and the shard's map is
//! sorted by position. The shards in sequence therefore hold all keys in the order of their
//! positions.

use std::cmp;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;

use crate::absence::Absences;
use crate::access::AccessMark;
use crate::awaited::AwaitedKeys;
use crate::cache_line::fetch;
use crate::clock::Now;
use crate::contents::Swaps;
use crate::entry::{Dues, Entry, Slot};
use crate::fork::Origin;
use crate::hashed::{POSITION_BITS, position_of};
use crate::index::Index;
use crate::journal::{Left, LostFields, Propagate, Recorder};
use crate::pace::Pace;
use crate::reaper::Garbage;
use crate::shared::{Expired, ExpiredHook, Shared};
use crate::value::Value;
use crate::{Element, Hash};

/// log2 of the number of shards. Up to a million keys, a shard's index is two levels deep.
const SHARD_BITS: u32 = 10;

/// Number of shards of a keyspace that is no fork.
pub(crate) const SHARDS: usize = 1 << SHARD_BITS;

/// Shards that the reaper receives together when all keys are removed.
const SHARDS_PER_DISCARD: usize = 64;

/// How often [`Keyspace::update_large`] and [`Databases::transact`](crate::Databases::transact) try without a lock
/// before they take it.
pub(crate) const OPTIMISTIC_ATTEMPTS: usize = 3;

/// How often work that has been in vain for [long](LONG_IN_VAIN) tries again, while its like waits.
pub(crate) const TURN_ATTEMPTS: usize = 5;

/// Work that was in vain for this time holds locks for long, if it holds them.
pub(crate) const LONG_IN_VAIN: Duration = Duration::from_millis(2);

/// (`expire_at_ms`, position) of one shard's expiring entries, the earliest first. Behind them, with [`FIELDS`] in the
/// time, those of hashes whose first field expires then.
pub(crate) type Due = BTreeSet<(u64, u64)>;

/// The bit of a time that tells the times of fields from those of keys.
const FIELDS: u64 = 1 << 63;

/// All keys of one database. See the [crate](crate) for its design.
#[derive(Debug)]
pub struct Keyspace {
    pub(crate) shards: Arc<[Shard]>,
    /// Bits of a position below those that choose the shard.
    shard_shift: u32,
    pub(crate) shared: Arc<Shared>,
    /// The number of the database.
    number: usize,
    /// The keyspace that this one is a [fork](crate::fork) of.
    pub(crate) origin: Option<Origin>,
    pub(crate) awaited: Arc<AwaitedKeys>,
    pub(crate) swaps: Swaps,
    contended_updates: AtomicU64,
    expired_keys: AtomicU64,
    expired_fields: AtomicU64,
    pub(crate) key_len_max: AtomicUsize,
}

/// What the version before an update does not share with the one after.
#[derive(Clone, Copy)]
pub(crate) enum Old {
    /// Perhaps all of it.
    Whole,
    /// What the update has copied, which was little.
    Part,
}

// A cache line and its neighbour: the hardware fetches both together.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Shard {
    pub(crate) state: Mutex<State>,
    pub(crate) len: AtomicUsize,
    volatile_len: AtomicU32,
    /// Hashes with fields that expire.
    timed_len: AtomicU32,
    /// Changed under the lock alone.
    pub(crate) hits: AtomicU64,
    pub(crate) misses: AtomicU64,
    /// Keys that were changed here. Changed under the lock alone.
    changes: AtomicU64,
}

// One more word would take another pair of lines.
const _: () = assert!(size_of::<Shard>() == 128);

#[derive(Debug)]
pub(crate) struct State {
    /// Whose keys these are: see [`contents`](crate::contents).
    pub(crate) content: u32,
    /// Items of `due` that are of fields.
    timed_len: u32,
    pub(crate) index: Index,
    /// Number of entries.
    pub(crate) len: usize,
    /// Two colliding keys that expire in the same millisecond share one item. The second key is
    /// then removed when a request next touches it.
    due: Due,
    /// They stay where they are when the shard gets other keys.
    pub(crate) absences: Absences,
}

/// What the change of one key means to its shard, besides the index.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Felt {
    pub(crate) position: u64,
    /// Whether the key had an entry, and has one.
    pub(crate) presence: [bool; 2],
    /// When the entries or their fields expire.
    pub(crate) dues: [Dues; 2],
}

impl Felt {
    /// The key exists as before.
    pub(crate) fn is_nothing(&self) -> bool {
        self.presence[0] == self.presence[1] && self.dues[0] == self.dues[1]
    }
}

/// What a shard had before it was cleared, to be dropped.
#[derive(Debug)]
pub(crate) struct ShardContents {
    pub(crate) keys: usize,
    _index: Index,
    _due: Due,
}

/// Counters of a keyspace since it was created.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeyspaceStats {
    /// Reads that found their key.
    pub hits: u64,
    /// Reads that did not find their key.
    pub misses: u64,
    /// Keys removed because they had expired.
    pub expired_keys: u64,
    /// Fields of hashes removed because they had expired.
    pub expired_fields: u64,
    /// Large updates that ran under the lock because other updates kept changing their key.
    pub contended_updates: u64,
}

impl Default for Keyspace {
    fn default() -> Self {
        Self::new()
    }
}

impl Keyspace {
    /// An empty keyspace with its own reaper thread, which is database 0 of its own.
    #[must_use]
    pub fn new() -> Self {
        Self::numbered(0, &Shared::start())
    }

    /// The empty database of this number.
    pub(crate) fn numbered(number: usize, shared: &Arc<Shared>) -> Self {
        let keyspace = Self::with_shards(SHARD_BITS, number, Arc::clone(shared), None);
        shared.roots.write().push(Arc::clone(&keyspace.shards));
        keyspace
    }

    fn with_shards(shard_bits: u32, number: usize, shared: Arc<Shared>, origin: Option<Origin>) -> Self {
        let shard_shift = POSITION_BITS - shard_bits;
        Self {
            shards: (0..1 << shard_bits).map(|_| Shard::new(number, shard_shift)).collect(),
            shard_shift,
            number,
            origin,
            awaited: Arc::new(AwaitedKeys::new(number, Arc::clone(&shared.ready))),
            shared,
            swaps: Swaps::default(),
            contended_updates: AtomicU64::new(0),
            expired_keys: AtomicU64::new(0),
            expired_fields: AtomicU64::new(0),
            key_len_max: AtomicUsize::new(0),
        }
    }

    /// A keyspace that reads from `origin` what it does not have.
    pub(crate) fn over(origin: Origin) -> Self {
        let keyspace = &origin.keyspace;
        let (number, shared) = (keyspace.number, Arc::clone(&keyspace.shared));
        Self::with_shards(0, number, shared, Some(origin))
    }

    /// The number of the database.
    #[must_use]
    pub const fn number(&self) -> usize {
        self.number
    }

    /// The instant of an operation that begins: that of the transaction if this is its fork. Other operations first ask
    /// for theirs when they hold the locks of their keys: what one of them finds dead, none that comes later finds
    /// alive.
    #[must_use]
    pub fn now(&self) -> Now {
        match &self.origin {
            Some(origin) => Now::at(origin.now_ms),
            None if self.shared.expires_nothing() => Now::at(0),
            None => Now::default(),
        }
    }

    /// Whether a key that expires at `at_ms` is to be gone `now`.
    #[must_use]
    pub fn has_passed(&self, at_ms: u64, now: &Now) -> bool {
        at_ms <= now.ms() && !self.shared.expires_nothing()
    }

    /// Reads a key without holding its lock. `read` sees the value as it was at one instant.
    pub fn with<R>(&self, key: &[u8], read: impl FnOnce(Option<&Value>) -> R) -> R {
        self.with_entry(key, |entry| read(entry.map(Entry::value)))
    }

    /// Like [`with`](Self::with), with the expiry too.
    pub fn with_entry<R>(&self, key: &[u8], read: impl FnOnce(Option<&Entry>) -> R) -> R {
        let entry = self.lookup(key, true);
        if let Some(entry) = &entry {
            entry.access().touch(&self.shared.clock);
        }
        let result = read(entry.as_ref());
        self.release(entry);
        result
    }

    /// Reads a key without counting the read or touching the key, for statistics and classifiers.
    pub fn peek<R>(&self, key: &[u8], read: impl FnOnce(Option<&Entry>) -> R) -> R {
        self.read_untouched(key, false, read)
    }

    /// Like [`peek`](Self::peek), but counts the read.
    pub fn glance<R>(&self, key: &[u8], read: impl FnOnce(Option<&Entry>) -> R) -> R {
        self.read_untouched(key, true, read)
    }

    fn read_untouched<R>(&self, key: &[u8], counted: bool, read: impl FnOnce(Option<&Entry>) -> R) -> R {
        let entry = self.lookup(key, counted);
        let result = read(entry.as_ref());
        self.release(entry);
        result
    }

    /// When and how often the key was used. Does not count as a use.
    #[must_use]
    pub fn access(&self, key: &[u8]) -> Option<AccessMark> {
        self.peek(key, |entry| entry.map(|entry| entry.access().mark()))
    }

    /// Lets the key look as if what came after `mark` had not used it.
    pub fn set_access(&self, key: &[u8], mark: AccessMark) {
        self.peek(key, |entry| {
            if let Some(entry) = entry {
                entry.access().set(mark);
            }
        });
    }

    /// A snapshot of a key's value.
    #[must_use]
    pub fn get(&self, key: &[u8]) -> Option<Value> {
        self.with_entry(key, |entry| entry.map(|entry| entry.value().clone()))
    }

    /// Whether the key has a value.
    #[must_use]
    pub fn contains(&self, key: &[u8]) -> bool {
        self.with(key, |value| value.is_some())
    }

    /// Changes one key under its lock, with exclusive access. Meant for work of O(log n).
    pub fn update<R>(&self, key: &[u8], change: impl FnOnce(&mut Slot<'_>) -> R) -> R {
        self.update_as(None, key, change)
    }

    pub(crate) fn update_as<R>(
        &self,
        propagate: Option<&dyn Propagate>,
        key: &[u8],
        change: impl FnOnce(&mut Slot<'_>) -> R,
    ) -> R {
        let position = position_of(key);
        self.fetch(position, key);
        let shard = self.shard(position);
        let mut state = shard.state.lock();
        let now = self.now();
        let recorder = Recorder::of(self);
        let run = |place: Option<&mut Option<Entry>>| {
            let mut taken = Taken::new(place, key, recorder);
            let before = taken.slot.dues();
            let was_present = taken.slot.value().is_some();
            let expired = expire_slot(&mut taken.slot, &now);
            let result = change(&mut taken.slot);
            let changed = taken.slot.is_changed();
            let garbage = taken.slot.finish(&self.shared.clock, &self.shared.packing);
            let after = taken.slot.dues();
            let is_present = taken.slot.value().is_some();
            let is_quiet = taken.slot.wakes_nobody();
            if let Some(recorder) = recorder {
                record_update(recorder, propagate, &taken.slot, (expired > 0, was_present, changed));
            }
            let done = Done {
                expired,
                garbage,
                is_quiet,
                presence: [was_present, is_present],
                dues: [before, after],
                is_changed: taken.slot.is_changed(),
                homeless: taken.put_back(),
            };
            (result, done)
        };
        let (result, mut done) = state.index.edit(position, key, run);
        let [was_present, is_present] = done.presence;
        state.len = state.len + usize::from(is_present) - usize::from(was_present);
        if let Some(entry) = done.homeless.take() {
            state.insert(position, entry);
        } else if was_present && !is_present {
            state.index.remove_taken(position);
        }
        let [before, after] = done.dues;
        state.reindex(position, before, after);
        shard.publish(&state, usize::from(done.is_changed));
        drop(state);
        self.settle(key, done);
        result
    }

    /// Tells of an update. No lock is held.
    #[inline]
    fn settle(&self, key: &[u8], done: Done) {
        let [was_present, is_present] = done.presence;
        if is_present && done.is_quiet {
            self.note_len(key);
        } else if is_present {
            self.note_key(key);
        } else if was_present {
            self.awaited.note_removed(key);
        }
        self.count_expired(done.expired);
        if done.expired > 0 {
            self.tell_expired(key);
        }
        if !done.garbage.is_empty() {
            self.discard_all(done.garbage);
        }
    }

    /// Changes two different keys at once. Locks both shards, the lower one first.
    ///
    /// # Panics
    /// The keys are equal.
    pub fn update_pair<R>(
        &self,
        first: &[u8],
        second: &[u8],
        change: impl FnOnce(&mut Slot<'_>, &mut Slot<'_>) -> R,
    ) -> R {
        Self::update_both_as(None, [(self, first), (self, second)], change)
    }

    /// Changes two keys at once, which may be in different databases of one server. Locks both shards, in the order of
    /// the databases and the shards.
    ///
    /// # Panics
    /// Both are the same key of the same database.
    pub fn update_both<'k, R>(
        places: [(&Self, &'k [u8]); 2],
        change: impl FnOnce(&mut Slot<'k>, &mut Slot<'k>) -> R,
    ) -> R {
        Self::update_both_as(None, places, change)
    }

    pub(crate) fn update_both_as<'k, R>(
        propagate: Option<&dyn Propagate>,
        places: [(&Self, &'k [u8]); 2],
        change: impl FnOnce(&mut Slot<'k>, &mut Slot<'k>) -> R,
    ) -> R {
        let [(first, first_key), (second, second_key)] = places;
        assert!(first.number != second.number || first_key != second_key, "two different keys are needed");
        let positions = places.map(|(_, key)| position_of(key));
        for ((keyspace, key), position) in places.into_iter().zip(positions) {
            keyspace.fetch(position, key);
        }
        let mut guards = Self::lock_pair([(first, positions[0]), (second, positions[1])]);
        // The slots and the map share the entries, so the map stays whole if `change` panics.
        let mut slot_of = |index: usize, key| Slot::new(key, guards.state(index).find(positions[index], key).cloned());
        let mut slots = [slot_of(0, first_key), slot_of(1, second_key)];
        let now = first.now();
        let expired = slots.each_mut().map(|slot| expire_slot(slot, &now));
        let [first_slot, second_slot] = &mut slots;
        let has_first = first_slot.value().is_some();
        let result = change(first_slot, second_slot);
        let mut garbage = SmallVec::<[Garbage; 4]>::new();
        for (slot, (keyspace, _)) in slots.iter_mut().zip(places).filter(|(slot, _)| slot.is_changed()) {
            garbage.extend(slot.finish(&keyspace.shared.clock, &keyspace.shared.packing));
        }
        record_both(propagate, places, &slots, expired);
        let mut outcomes = [None; 2];
        for (index, mut slot) in slots.into_iter().enumerate() {
            let (keyspace, key) = places[index];
            if !slot.is_changed() {
                // Without the first key, the second one is not looked at.
                if has_first {
                    slot.touch(&keyspace.shared.clock);
                }
                continue;
            }
            let entry = slot.take_entry();
            let is_stored = entry.is_some();
            let state = guards.state(index);
            let old = state.replace(positions[index], key, entry);
            outcomes[index] = Outcome::of(is_stored, old.is_some());
            garbage.extend(old.map(Garbage::Entry));
            keyspace.shard(positions[index]).publish(state, 1);
        }
        drop(guards);
        for ((keyspace, key), outcome) in places.into_iter().zip(outcomes) {
            match outcome {
                Some(Outcome::Stored) => keyspace.note_key(key),
                Some(Outcome::Removed) => keyspace.awaited.note_removed(key),
                None => {}
            }
        }
        for ((keyspace, key), expired) in places.into_iter().zip(expired) {
            keyspace.count_expired(expired);
            if expired > 0 {
                keyspace.tell_expired(key);
            }
        }
        first.discard_all(garbage);
        result
    }

    /// Changes one key with work that takes long. `change` runs on a snapshot, outside the lock. If
    /// the key has not changed since the snapshot, the outcome is stored. Otherwise `change` runs
    /// again: if it takes long, in [turn](crate::Databases::take_turns_by) with its like, and the last time under the
    /// lock ([`Slot::is_locked`]). `change` must therefore have no effect outside its slot.
    pub fn update_large<R>(&self, key: &[u8], change: impl FnMut(&mut Slot<'_>) -> R) -> R {
        self.update_apart((key, None), Old::Whole, change)
    }

    /// As [`update_large`](Self::update_large), for a change of some elements of a value that may have many more. It
    /// leaves no garbage to the reaper: what the old version alone holds is as little as the change has copied. Changes
    /// of a busy moment would make more of it than the reaper drops.
    pub fn update_part<R>(&self, key: &[u8], change: impl FnMut(&mut Slot<'_>) -> R) -> R {
        self.update_apart((key, None), Old::Part, change)
    }

    pub(crate) fn update_apart<R>(
        &self,
        (key, propagate): (&[u8], Option<&dyn Propagate>),
        old: Old,
        mut change: impl FnMut(&mut Slot<'_>) -> R,
    ) -> R {
        let began = Instant::now();
        let mut attempt = || self.update_unlocked((key, propagate), old, &mut change);
        if let Some(result) = (0..OPTIMISTIC_ATTEMPTS).find_map(|_| attempt()) {
            return result;
        }
        let locked = |change: &mut dyn FnMut(&mut Slot<'_>) -> R| {
            self.count_contended();
            self.update_as(propagate, key, |slot| change(slot))
        };
        if began.elapsed() < LONG_IN_VAIN {
            return locked(&mut change);
        }
        self.shared.in_turn(|| {
            let mut attempt = || self.update_unlocked((key, propagate), old, &mut change);
            let result = (0..TURN_ATTEMPTS).find_map(|_| attempt());
            result.unwrap_or_else(|| locked(&mut change))
        })
    }

    /// One attempt of an update without the key's lock. `None` if the key has changed meanwhile.
    fn update_unlocked<R>(
        &self,
        (key, propagate): (&[u8], Option<&dyn Propagate>),
        old: Old,
        change: &mut impl FnMut(&mut Slot<'_>) -> R,
    ) -> Option<R> {
        // While the snapshot exists, no update can change the entry in place. The same entry later
        // therefore means the same content.
        let snapshot = self.lookup(key, false);
        let mut slot = Slot::of_snapshot(key, snapshot.clone());
        let result = change(&mut slot);
        if !slot.is_changed() {
            self.release(snapshot);
            return Some(result);
        }
        let is_stored = self.exchange(snapshot.as_ref(), slot, propagate);
        match (is_stored, old) {
            (true, Old::Whole) => self.release(snapshot),
            _ => drop(snapshot),
        }
        is_stored.then_some(result)
    }

    /// Stores the outcome in `slot` if the key's entry is still `expected`.
    fn exchange(&self, expected: Option<&Entry>, mut slot: Slot<'_>, propagate: Option<&dyn Propagate>) -> bool {
        let key = slot.key();
        let position = position_of(key);
        let mut garbage = slot.finish(&self.shared.clock, &self.shared.packing);
        // A value is written before its lock is taken.
        let recorder = Recorder::of(self).filter(|_| propagate.is_none());
        let frame = recorder.map(|recorder| recorder.frame(Left::of_slot(&slot)));
        let mut entry = slot.take_entry();
        let (is_present, is_quiet) = (entry.is_some(), slot.wakes_nobody());
        let shard = self.shard(position);
        let mut state = shard.state.lock();
        let (found, now) = (state.find(position, key), self.now());
        let has_expired = found.is_some_and(|entry| entry.is_expired(&now));
        let unchanged = match (found.filter(|_| !has_expired), expected) {
            (None, None) => true,
            (Some(current), Some(expected)) => current.is(expected),
            _ => false,
        };
        if unchanged {
            if let Some(recorder) = Recorder::of(self) {
                if has_expired {
                    recorder.record(None, &[Left::nothing(key)]);
                }
                match frame {
                    Some(frame) => recorder.record_frame(frame),
                    None => recorder.record(propagate, &[Left::of_entry(key, entry.as_ref())]),
                }
            }
            // The snapshot holds it, too.
            drop(state.replace(position, key, entry.take()));
            shard.publish(&state, 1);
        }
        drop(state);
        match (unchanged, is_present) {
            (true, true) if is_quiet => self.note_len(key),
            (true, true) => self.note_key(key),
            (true, false) => self.awaited.note_removed(key),
            (false, _) => {}
        }
        garbage.extend(entry.map(Garbage::Entry));
        self.discard_all(garbage);
        unchanged
    }

    /// Stores `value` in place of any previous value. The key does not expire.
    pub fn insert(&self, key: &[u8], value: Value) {
        self.update(key, |slot| slot.insert(value));
    }

    /// Removes the key. Returns whether it existed.
    pub fn remove(&self, key: &[u8]) -> bool {
        self.update(key, |slot| slot.remove().is_some())
    }

    /// Calls `visit` for the entries at positions from `cursor` on, until it has visited `count` of
    /// them and completed their positions. Returns the cursor of the next call; 0 after the last.
    ///
    /// A scan from 0 to 0 visits an entry that is present throughout exactly once. It reads shards
    /// from snapshots, so `visit` holds no lock.
    pub fn scan(&self, cursor: u64, count: usize, mut visit: impl FnMut(&Entry)) -> u64 {
        if let Some(origin) = &self.origin {
            return origin.scan(self, cursor, count, visit);
        }
        let mut left = count.max(1);
        let mut from = cursor;
        let (walk, now) = (self.walk(), self.now());
        for index in self.shard_index(cursor)..self.shards.len() {
            if walk.is_empty(index) {
                continue;
            }
            let entries = walk.visit(index, |_, state| state.index.clone());
            let mut last = None;
            for (position, entry) in entries.range(from) {
                if left == 0 && last != Some(position) {
                    return position;
                }
                left = left.saturating_sub(1);
                last = Some(position);
                visit_live(entry, &now, &mut visit);
            }
            from = self.shard_start(index + 1);
        }
        0
    }

    /// Calls `visit` for every entry, shard by shard from snapshots. It holds no lock meanwhile and
    /// gives the guarantee of [`scan`](Self::scan).
    pub fn for_each(&self, visit: impl FnMut(&Entry)) {
        self.scan(0, usize::MAX, visit);
    }

    /// A random entry; `None` if the keyspace is empty.
    #[must_use]
    pub fn random_entry(&self) -> Option<Entry> {
        let start = rand::random_range(0..1u64 << POSITION_BITS);
        let mut found = None;
        for mut cursor in [start, 0] {
            while found.is_none() {
                cursor = self.scan(cursor, 1, |entry| found = Some(entry.clone()));
                if cursor == 0 {
                    break;
                }
            }
        }
        found
    }

    /// Removes all keys at one instant. The reaper drops their values.
    pub fn clear(&self) {
        if let Some(origin) = &self.origin {
            origin.clear();
        }
        self.key_len_max.store(0, Ordering::Relaxed);
        let contents = self.shared.hold(|| self.take_all());
        let mut contents = contents.into_iter();
        loop {
            let shards: Vec<ShardContents> = contents.by_ref().take(SHARDS_PER_DISCARD).collect();
            if shards.is_empty() {
                break;
            }
            self.shared.reaper.discard(Garbage::Shards(shards));
        }
        self.awaited.note_all_removed();
    }

    /// Takes all keys out of all shards, at one instant.
    fn take_all(&self) -> Vec<ShardContents> {
        let mut states: Vec<MutexGuard<'_, State>> = self.shards.iter().map(|shard| shard.state.lock()).collect();
        if let Some(recorder) = Recorder::of(self) {
            recorder.record_cleared();
        }
        let take = |(shard, state): (&Shard, &mut MutexGuard<'_, State>)| {
            let everything = state.take_all();
            shard.publish(state, everything.keys);
            everything
        };
        self.shards.iter().zip(&mut states).map(take).collect()
    }

    /// Number of keys, including expired keys that have not been removed yet.
    #[must_use]
    pub fn len(&self) -> usize {
        let own = self.sum(Shard::len);
        own + self.origin.as_ref().map_or(0, Origin::untouched_len)
    }

    /// Length of the longest key since all keys were last removed, in bytes. A key that is stored meanwhile may not
    /// count yet.
    #[must_use]
    pub fn key_len_max(&self) -> usize {
        let own = self.key_len_max.load(Ordering::Relaxed);
        own.max(self.origin.as_ref().map_or(0, Origin::key_len_max))
    }

    /// Whether there are no keys.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of keys that expire.
    #[must_use]
    pub fn volatile_len(&self) -> usize {
        self.sum(Shard::volatile_len)
    }

    /// Number of hashes with fields that expire.
    #[must_use]
    pub fn timed_len(&self) -> usize {
        self.sum(Shard::timed_len)
    }

    /// The sum of a counter of all shards.
    fn sum(&self, counter: impl Fn(&Shard) -> usize) -> usize {
        self.swaps.consistent(|| self.shards.iter().map(&counter).sum())
    }

    pub(crate) fn changes(&self) -> u64 {
        self.shards.iter().map(Shard::changes).sum()
    }

    /// The origin of a fork tells of what expired, when the fork's changes are stored.
    pub(crate) fn tell_expired(&self, key: &[u8]) {
        self.tell(key, Expired::Key);
    }

    fn tell(&self, key: &[u8], expired: Expired) {
        if let Some(ExpiredHook(tell)) = self.shared.on_expired.get()
            && !self.is_fork()
        {
            tell(self.number, key, expired);
        }
    }

    /// Counters since the keyspace was created.
    #[must_use]
    pub fn stats(&self) -> KeyspaceStats {
        let sum = |counter: fn(&Shard) -> &AtomicU64| {
            let shards = self.shards.iter();
            shards.map(|shard| counter(shard).load(Ordering::Relaxed)).sum()
        };
        KeyspaceStats {
            hits: sum(|shard| &shard.hits),
            misses: sum(|shard| &shard.misses),
            expired_keys: self.expired_keys.load(Ordering::Relaxed),
            expired_fields: self.expired_fields.load(Ordering::Relaxed),
            contended_updates: self.contended_updates.load(Ordering::Relaxed),
        }
    }

    /// Adds what a fork of this keyspace counted.
    pub(crate) fn add_stats(&self, stats: KeyspaceStats) {
        self.count_reads(stats.hits, stats.misses);
        self.count_expired(stats.expired_keys);
        self.expired_fields.fetch_add(stats.expired_fields, Ordering::Relaxed);
        self.contended_updates.fetch_add(stats.contended_updates, Ordering::Relaxed);
    }

    pub(crate) fn count_reads(&self, hits: u64, misses: u64) {
        let shard = &self.shards[0];
        let _locked = shard.state.lock();
        count(&shard.hits, hits);
        count(&shard.misses, misses);
    }

    /// Seconds since the entry was last read or written.
    #[must_use]
    pub fn idle_s(&self, entry: &Entry) -> u32 {
        entry.access().idle_s(&self.shared.clock)
    }

    /// The same in ticks of a tenth of a second.
    pub(crate) fn idle_ticks(&self, entry: &Entry) -> u32 {
        entry.access().idle_ticks(&self.shared.clock)
    }

    /// How often the entry is read and written, from 0 to 255, if accesses are counted.
    #[must_use]
    pub fn frequency(&self, entry: &Entry) -> u8 {
        entry.access().frequency(&self.shared.clock)
    }

    /// Whether accesses are counted.
    #[must_use]
    pub fn counts_accesses(&self) -> bool {
        self.shared.clock.counts()
    }

    /// Calls `visit` with up to `count_max` random entries, and with one at least if there is one. Returns how many.
    pub(crate) fn sample(&self, count_max: usize, visit: &mut impl FnMut(&Entry)) -> usize {
        let start = rand::random_range(0..1u64 << POSITION_BITS);
        let Some(shard) = self.first_shard(start, Shard::len) else {
            return 0;
        };
        let state = shard.state.lock();
        // Positions are hashes, so that neighbours have nothing in common, and one look-up finds them all.
        let around = state.index.range(start).chain(state.index.range(0));
        let entries = around.take(count_max.min(state.len));
        let entries: SmallVec<[&Entry; 16]> = entries.map(|(_, entry)| entry).collect();
        { entries.iter() }.for_each(|entry| fetch(entry.address()));
        { entries.iter() }.for_each(|entry| visit(entry));
        entries.len()
    }

    /// Calls `visit` with a random entry that expires, if there is one. Entries whose expiry is a long time after the
    /// one before are more likely. Returns how many there were.
    pub(crate) fn sample_volatile(&self, visit: &mut impl FnMut(&Entry)) -> usize {
        self.visit_due(visit, |due| {
            let at_ms = |due: Option<&(u64, u64)>| due.map_or(0, |(at_ms, _)| *at_ms);
            let mut keys = due.range(..(FIELDS, 0));
            let first = at_ms(keys.next());
            rand::random_range(first..=at_ms(keys.next_back()).max(first))
        })
    }

    /// Calls `visit` with the entry of a random shard that expires first, if there is one. Returns how many there were.
    pub(crate) fn sample_due(&self, visit: &mut impl FnMut(&Entry)) -> usize {
        self.visit_due(visit, |_| 0)
    }

    /// Calls `visit` with the first entry of a random shard that expires at the time `from_ms` or later.
    fn visit_due(&self, visit: &mut impl FnMut(&Entry), from_ms: impl FnOnce(&Due) -> u64) -> usize {
        let start = rand::random_range(0..1u64 << POSITION_BITS);
        let Some(shard) = self.first_shard(start, Shard::volatile_len) else {
            return 0;
        };
        let state = shard.state.lock();
        let due = state.first_due(from_ms(&state.due));
        due.into_iter().map(visit).count()
    }

    /// The first shard from `position` on whose `len` is not zero. After the last shard comes the first.
    fn first_shard(&self, position: u64, len: impl Fn(&Shard) -> usize) -> Option<&Shard> {
        let (before, from) = self.shards.split_at(self.shard_index(position));
        let mut around = from.iter().chain(before);
        around.find(|shard| len(shard) > 0)
    }

    /// Removes the key, whose position this is, if its entry `qualifies`. Returns the bytes that it had.
    pub(crate) fn evict(&self, position: u64, key: &[u8], qualifies: impl Fn(&Entry) -> bool) -> Option<usize> {
        let shard = self.shard(position);
        let mut state = shard.state.lock();
        let is_victim = |entry: &Entry| entry.key() == key && qualifies(entry);
        let victim = state.index.remove(position, is_victim)?;
        state.feel(Felt {
            position,
            presence: [true, false],
            dues: [victim.dues(), Dues::default()],
        });
        if let Some(recorder) = Recorder::of(self) {
            recorder.record(None, &[Left::nothing(key)]);
        }
        shard.publish(&state, 1);
        drop(state);
        self.awaited.note_removed(key);
        let bytes = victim.memory_bytes();
        self.discard_all([Garbage::Entry(victim)]);
        Some(bytes)
    }

    /// Removes up to `count_max` keys of shard `index` that expired by `now_ms`. Returns how many.
    pub(crate) fn remove_due(&self, index: usize, now_ms: u64, count_max: usize) -> usize {
        let Some(shard) = self.shards.get(index) else {
            return 0;
        };
        if self.keeps_expired() || shard.volatile_len() == 0 {
            return 0;
        }
        let mut expired = SmallVec::<[Entry; 8]>::new();
        let mut state = shard.state.lock();
        let mut found = 0;
        while found < count_max
            && let Some(&(expire_at_ms, position)) = state.due.first()
            && expire_at_ms <= now_ms.min(FIELDS - 1)
        {
            found += 1;
            state.due.pop_first();
            expired.extend(state.take_expired(position, now_ms));
        }
        if let Some(recorder) = Recorder::of(self) {
            expired.iter().for_each(|entry| recorder.record(None, &[Left::nothing(entry.key())]));
        }
        shard.publish(&state, expired.len());
        drop(state);
        self.count_expired(expired.len() as u64);
        for entry in &expired {
            self.awaited.note_removed(entry.key());
            self.tell_expired(entry.key());
        }
        self.discard_all(expired.into_iter().map(Garbage::Entry));
        found
    }

    fn keeps_expired(&self) -> bool {
        self.shared.keeps_expired.load(Ordering::Relaxed) || self.shared.expires_nothing()
    }

    /// Removes up to about `count_max` fields from the hash of shard `index` whose fields are due first, if they are by
    /// `now_ms`. Returns whether there was one.
    pub(crate) fn remove_due_fields(&self, index: usize, now_ms: u64, count_max: usize) -> bool {
        let Some(shard) = self.shards.get(index) else {
            return false;
        };
        if self.keeps_expired() || shard.timed_len() == 0 {
            return false;
        }
        let key = {
            let mut state = shard.state.lock();
            let Some((at_ms, position)) = state.first_fields_due().filter(|(at_ms, _)| *at_ms <= now_ms) else {
                return false;
            };
            let mut entries = state.index.at(position);
            let entry = entries.find(|entry| entry.dues().fields == Some(at_ms));
            let key = entry.map(|entry| SmallVec::<[u8; 64]>::from_slice(entry.key()));
            drop(entries);
            if key.is_none() {
                let before = Dues { key: None, fields: Some(at_ms) };
                state.reindex(position, before, Dues::default());
                shard.publish(&state, 0);
            }
            key
        };
        if let Some(key) = key {
            self.expire_due_fields(&key, &Now::at(now_ms), count_max);
        }
        true
    }

    /// Removes up to about `count_max` fields of a hash that are due `now`, unless what has expired stays.
    pub fn expire_due_fields(&self, key: &[u8], now: &Now, count_max: usize) {
        let is_due = |hash: &Hash| hash.next_due_ms().is_some_and(|at_ms| at_ms <= now.ms());
        self.lose_fields(key, is_due, |hash, lost| hash.remove_due(now.ms(), count_max, |field| lost.push(field)));
    }

    /// Removes those of these fields of a hash that are due `now`, unless what has expired stays.
    pub fn expire_fields(&self, key: &[u8], fields: &[&[u8]], now: &Now) {
        let is_due = |hash: &Hash, field: &[u8]| hash.find(field).is_some_and(|held| held.is_due(now));
        let any_due = |hash: &Hash| fields.iter().any(|field| is_due(hash, field));
        self.lose_fields(key, any_due, |hash, lost| {
            for field in fields {
                if is_due(hash, field) {
                    hash.remove(field);
                    lost.push(Element::from(*field));
                }
            }
        });
    }

    /// Removes expired fields of a hash that has some. In a transaction they stay: nothing in it sees them.
    fn lose_fields(
        &self,
        key: &[u8],
        has_some: impl FnOnce(&Hash) -> bool,
        lose: impl FnOnce(&mut Hash, &mut Vec<Element>),
    ) {
        if self.is_fork() || self.keeps_expired() {
            return;
        }
        let lost = LostFields::new(&self.shared.journal, key);
        let is_gone = self.update_as(Some(&lost), key, |slot| {
            let Some(Value::Hash(hash)) = slot.value() else {
                return None;
            };
            if !has_some(hash) {
                return None;
            }
            slot.wake_nobody();
            let Some(Value::Hash(hash)) = slot.value_mut() else {
                return None;
            };
            lose(hash, &mut lost.fields.borrow_mut());
            Some(hash.is_empty())
        });
        if let Some(is_gone) = is_gone {
            let count = lost.fields.borrow().len() as u64;
            self.expired_fields.fetch_add(count, Ordering::Relaxed);
            self.tell(key, if is_gone { Expired::LastFields } else { Expired::Fields });
        }
    }

    /// Whether this is the fork of a transaction.
    #[must_use]
    pub fn is_fork(&self) -> bool {
        self.origin.is_some()
    }

    /// Whether this is a fork whose origin is partly locked.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        self.origin.as_ref().is_some_and(Origin::is_locked)
    }

    pub(crate) fn shard_count(&self) -> usize {
        self.shards.len()
    }

    pub(crate) fn shard(&self, position: u64) -> &Shard {
        &self.shards[self.shard_index(position)]
    }

    /// The number of shards if the position is beyond the last one.
    pub(crate) fn shard_index(&self, position: u64) -> usize {
        ((position >> self.shard_shift) as usize).min(self.shards.len())
    }

    /// The first position of a shard.
    pub(crate) fn shard_start(&self, index: usize) -> u64 {
        (index as u64) << self.shard_shift
    }

    /// A fork takes over the entry of a key that it touches for the first time.
    #[inline]
    pub(crate) fn fetch(&self, position: u64, key: &[u8]) {
        if let Some(origin) = &self.origin {
            origin.fetch(self, position, key);
        }
    }

    /// Stores an entry of the origin.
    pub(crate) fn adopt(&self, position: u64, key: &[u8], entry: Entry) {
        let shard = self.shard(position);
        let mut state = shard.state.lock();
        state.replace(position, key, Some(entry));
        shard.publish(&state, 0);
    }

    /// The live entry of `key`. Removes the entry if it has expired.
    pub(crate) fn lookup(&self, key: &[u8], counted: bool) -> Option<Entry> {
        let position = position_of(key);
        self.fetch(position, key);
        let shard = self.shard(position);
        let state = shard.state.lock();
        let entry = state.find(position, key).cloned();
        let expired = entry.as_ref().is_some_and(|entry| entry.is_expired(&self.now()));
        if counted {
            let missed = entry.is_none() || expired;
            count(if missed { &shard.misses } else { &shard.hits }, 1);
        }
        drop(state);
        if expired {
            self.release(entry);
            self.drop_expired(key);
            return None;
        }
        entry
    }

    /// Removes a key that has expired, unless such keys stay.
    pub(crate) fn drop_expired(&self, key: &[u8]) {
        if !self.shared.keeps_expired.load(Ordering::Relaxed) {
            self.update(key, |_| ());
        }
    }

    /// Releases an entry. If the keyspace has replaced it meanwhile, the last holder must drop it.
    pub(crate) fn release(&self, entry: Option<Entry>) {
        if let Some(entry) = entry
            && entry.is_unshared()
        {
            self.shared.reaper.discard(Garbage::Entry(entry));
        }
    }

    /// Takes note of a key that was stored. No lock of a shard is held.
    pub(crate) fn note_key(&self, key: &[u8]) {
        self.note_len(key);
        self.awaited.note(key);
    }

    fn note_len(&self, key: &[u8]) {
        if key.len() > self.key_len_max() {
            self.key_len_max.fetch_max(key.len(), Ordering::Relaxed);
        }
    }

    /// Counts work that holds locks because of others' changes.
    pub(crate) fn count_contended(&self) {
        self.contended_updates.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_expired(&self, expired: u64) {
        if expired > 0 {
            self.expired_keys.fetch_add(expired, Ordering::Relaxed);
        }
    }

    /// Drops a value that no key has any more, or had: on the reaper's thread if that takes long.
    pub fn discard(&self, value: Value) {
        self.shared.reaper.discard(Garbage::Value(value));
    }

    pub(crate) fn discard_all(&self, garbage: impl IntoIterator<Item = Garbage>) {
        let pace = Pace::of(&self.shared);
        for item in garbage {
            pace.step();
            self.shared.reaper.discard(item);
        }
    }

    /// Drops a fork piece by piece.
    pub(crate) fn dismantle(self, pace: &Pace) {
        let touched = self.origin.map(|origin| origin.touched.into_inner());
        for before in touched.into_iter().flat_map(|touched| touched.keys) {
            pace.step();
            drop(before);
        }
        for shard in self.shards.iter() {
            let index = shard.state.lock().index.take();
            index.dismantle(&|| pace.step());
        }
    }

    /// Locks the shards of both positions, in the order of the databases and the shards.
    fn lock_pair<'a>(places: [(&'a Self, u64); 2]) -> PairGuard<'a> {
        let [(first, _), (second, _)] = places;
        let [first_shard, second_shard] = places.map(|(keyspace, position)| keyspace.shard_index(position));
        let order = (first.number, first_shard).cmp(&(second.number, second_shard));
        let lock = |keyspace: &'a Self, shard: usize| keyspace.shards[shard].state.lock();
        match order {
            cmp::Ordering::Equal => PairGuard::Same(lock(first, first_shard)),
            cmp::Ordering::Less => {
                let first = lock(first, first_shard);
                PairGuard::Two([first, lock(second, second_shard)])
            }
            cmp::Ordering::Greater => {
                let second = lock(second, second_shard);
                PairGuard::Two([lock(first, first_shard), second])
            }
        }
    }
}

/// What became of a key that was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Stored,
    Removed,
}

impl Outcome {
    /// `None` if the key did not exist before, and does not now.
    fn of(is_stored: bool, was_present: bool) -> Option<Self> {
        match (is_stored, was_present) {
            (true, _) => Some(Self::Stored),
            (false, true) => Some(Self::Removed),
            (false, false) => None,
        }
    }
}

/// Calls `visit` for an entry that has not expired.
pub(crate) fn visit_live(entry: &Entry, now: &Now, visit: &mut impl FnMut(&Entry)) {
    if !entry.is_expired(now) {
        visit(entry);
    }
}

/// Adds to a counter whose lock is held.
pub(crate) fn count(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Ordering::Relaxed) + by, Ordering::Relaxed);
}

impl Shard {
    /// An empty shard of the database of this number. Its positions differ in their lowest `width` bits.
    fn new(number: usize, width: u32) -> Self {
        let state = State {
            content: number as u32,
            timed_len: 0,
            index: Index::new(width),
            len: 0,
            due: Due::new(),
            absences: Absences::default(),
        };
        Self {
            state: Mutex::new(state),
            len: AtomicUsize::new(0),
            volatile_len: AtomicU32::new(0),
            timed_len: AtomicU32::new(0),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            changes: AtomicU64::new(0),
        }
    }

    /// Every change of a shard ends here, with the number of keys that have changed. The lock is held.
    #[inline]
    pub(crate) fn publish(&self, state: &State, changes: usize) {
        self.len.store(state.len, Ordering::Relaxed);
        self.volatile_len.store(state.volatile_len() as u32, Ordering::Relaxed);
        self.timed_len.store(state.timed_len, Ordering::Relaxed);
        count(&self.changes, changes as u64);
    }

    fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    fn volatile_len(&self) -> usize {
        self.volatile_len.load(Ordering::Relaxed) as usize
    }

    fn timed_len(&self) -> usize {
        self.timed_len.load(Ordering::Relaxed) as usize
    }

    /// Keys that were changed here.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }
}

impl State {
    pub(crate) fn find(&self, position: u64, key: &[u8]) -> Option<&Entry> {
        self.index.find(position, key)
    }

    /// Whether there are keys that expire.
    pub(crate) fn may_expire(&self) -> bool {
        !self.due.is_empty()
    }

    /// Number of keys that expire.
    pub(crate) fn volatile_len(&self) -> usize {
        self.due.len() - self.timed_len as usize
    }

    /// When fields of which position are due first.
    fn first_fields_due(&self) -> Option<(u64, u64)> {
        let (at_ms, position) = self.due.range((FIELDS, 0)..).next()?;
        Some((at_ms & !FIELDS, *position))
    }

    /// The first entry that expires at `from_ms` or later.
    fn first_due(&self, from_ms: u64) -> Option<&Entry> {
        let (at_ms, position) = self.due.range((from_ms, 0)..(FIELDS, 0)).next()?;
        { self.index.at(*position) }.find(|entry| entry.expire_at_ms() == Some(*at_ms))
    }

    /// Stores the entry of a key that has none.
    fn insert(&mut self, position: u64, entry: Entry) {
        self.index.insert(position, entry);
        self.absences.end(position);
    }

    /// Stores `entry` in place of the key's entry; `None` removes the key.
    pub(crate) fn replace(&mut self, position: u64, key: &[u8], entry: Option<Entry>) -> Option<Entry> {
        let (old, felt) = self.index.replace(position, key, entry);
        felt.into_iter().for_each(|felt| self.feel(felt));
        old
    }

    /// The index has changed so.
    pub(crate) fn feel(&mut self, felt: Felt) {
        let Felt {
            position,
            presence: [was_present, is_present],
            dues: [before, after],
        } = felt;
        self.len = self.len + usize::from(is_present) - usize::from(was_present);
        if is_present && !was_present {
            self.absences.end(position);
        }
        self.reindex(position, before, after);
    }

    /// The shard has other keys than before. Some that are watched may have come.
    pub(crate) fn end_absences(&mut self) {
        let index = &self.index;
        self.absences.end_those(|position| index.at(position).next().is_some());
    }

    /// Leaves the shard empty.
    pub(crate) fn take_all(&mut self) -> ShardContents {
        ShardContents {
            keys: {
                self.timed_len = 0;
                std::mem::take(&mut self.len)
            },
            _index: self.index.take(),
            _due: std::mem::take(&mut self.due),
        }
    }

    fn take_expired(&mut self, position: u64, now_ms: u64) -> SmallVec<[Entry; 1]> {
        let mut expired = SmallVec::<[Entry; 1]>::new();
        let now = Now::at(now_ms);
        let is_expired = |entry: &Entry| entry.is_expired(&now);
        while let Some(entry) = self.index.remove(position, is_expired) {
            expired.push(entry);
        }
        self.len -= expired.len();
        for entry in &expired {
            self.reindex(position, entry.dues(), Dues::default());
        }
        expired
    }

    fn reindex(&mut self, position: u64, before: Dues, after: Dues) {
        if before.key != after.key {
            self.move_due(position, before.key, after.key, 0);
        }
        if before.fields != after.fields {
            let added = self.move_due(position, before.fields, after.fields, FIELDS);
            self.timed_len = self.timed_len.saturating_add_signed(added);
        }
    }

    /// Returns how many items there are more.
    fn move_due(&mut self, position: u64, before: Option<u64>, after: Option<u64>, kind: u64) -> i32 {
        let item = |at_ms: u64| (at_ms.min(FIELDS - 1) | kind, position);
        let is_removed = before.is_some_and(|at_ms| self.due.remove(&item(at_ms)));
        let is_added = after.is_some_and(|at_ms| self.due.insert(item(at_ms)));
        i32::from(is_added) - i32::from(is_removed)
    }
}

/// Records what an update did with a key that `(expired, was present, is changed)`.
#[cold]
fn record_update(
    recorder: Recorder<'_>,
    propagate: Option<&dyn Propagate>,
    slot: &Slot<'_>,
    (expired, was_present, is_changed): (bool, bool, bool),
) {
    let is_present = slot.value().is_some();
    if expired {
        recorder.record(None, &[Left::nothing(slot.key())]);
    }
    if is_present && is_changed || was_present && !is_present && !expired {
        recorder.record(propagate, &[Left::of_slot(slot)]);
    }
}

/// Records what an update of two keys did, some of which had expired.
fn record_both(
    propagate: Option<&dyn Propagate>,
    places: [(&Keyspace, &[u8]); 2],
    slots: &[Slot<'_>; 2],
    expired: [u64; 2],
) {
    let [Some(first), Some(second)] = places.map(|(keyspace, _)| Recorder::of(keyspace)) else {
        return;
    };
    let all = [first, second].into_iter().zip(slots).zip(expired);
    for ((recorder, slot), _) in all.clone().filter(|(_, expired)| *expired > 0) {
        recorder.record(None, &[Left::nothing(slot.key())]);
    }
    let is_one_database = places[0].0.number() == places[1].0.number();
    let is_recorded = |slot: &Slot<'_>, expired| slot.is_changed() && (expired == 0 || slot.value().is_some());
    let changed = all.filter(|((_, slot), expired)| is_recorded(slot, *expired));
    let changed: SmallVec<[_; 2]> = changed.map(|(at, _)| at).collect();
    match &changed[..] {
        [] => {}
        [(recorder, one), (_, other)] if is_one_database => {
            recorder.record(propagate, &[Left::of_slot(one), Left::of_slot(other)]);
        }
        [(recorder, one)] if is_one_database => recorder.record(propagate, &[Left::of_slot(one)]),
        several => Recorder::record_all(several.iter().map(|(recorder, slot)| (*recorder, Left::of_slot(slot)))),
    }
}

fn expire_slot(slot: &mut Slot<'_>, now: &Now) -> u64 {
    let expired = { slot.expire_at_ms() }.is_some_and(|at_ms| at_ms <= now.ms());
    if expired {
        slot.discard();
    }
    u64::from(expired)
}

/// What an update leaves to be done.
struct Done {
    expired: u64,
    garbage: SmallVec<[Garbage; 1]>,
    is_quiet: bool,
    /// Whether the key had a value before the update, and has one after it.
    presence: [bool; 2],
    /// When the key or its fields expired before the update, and expire after it.
    dues: [Dues; 2],
    is_changed: bool,
    /// An entry that has no place yet.
    homeless: Option<Entry>,
}

/// A slot whose entry was taken from its place, so that it can be changed there. The entry returns even if the change
/// panics.
struct Taken<'s, 'k> {
    place: Option<&'s mut Option<Entry>>,
    slot: Slot<'k>,
    /// What hears of a change that panics.
    recorder: Option<Recorder<'s>>,
}

impl<'s, 'k> Taken<'s, 'k> {
    fn new(mut place: Option<&'s mut Option<Entry>>, key: &'k [u8], recorder: Option<Recorder<'s>>) -> Self {
        let entry = place.as_mut().and_then(|place| place.take());
        Self { place, slot: Slot::new(key, entry), recorder }
    }

    /// Ends the update. Returns the entry if it has no place yet.
    fn put_back(mut self) -> Option<Entry> {
        match self.place {
            Some(_) => None,
            None => self.slot.take_entry(),
        }
    }
}

impl Drop for Taken<'_, '_> {
    fn drop(&mut self) {
        // A key that had no entry gets none.
        let recorder = self.recorder.filter(|_| self.place.is_some() && std::thread::panicking());
        if let Some(recorder) = recorder {
            recorder.record(None, &[Left::of_slot(&self.slot)]);
        }
        if let (Some(place), Some(entry)) = (&mut self.place, self.slot.take_entry()) {
            **place = Some(entry);
        }
    }
}

/// The locked shards of two keys; both keys may be in the same shard.
enum PairGuard<'a> {
    Same(MutexGuard<'a, State>),
    Two([MutexGuard<'a, State>; 2]),
}

impl PairGuard<'_> {
    fn state(&mut self, index: usize) -> &mut State {
        match self {
            Self::Same(state) => state,
            Self::Two(states) => &mut states[index],
        }
    }
}
