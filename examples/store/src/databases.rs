//! The databases of a server: keyspaces with numbers, and forks of them for transactions.
//!
//! A database costs a pointer until it is first used, and then its empty shards. Its number is its place; what it holds
//! can change places with another one's, at one instant.
//!
//! ```text
//!   Databases ─► OnceLock<Arc<Keyspace>>, one for each number    GET, SET: get(number), and no further lock
//!       │ fork
//!       ▼
//!   Databases ─► forks of those that the transaction has used, and which of them stands for which number
//! ```

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use hashbrown::HashMap;
use parking_lot::Mutex;

use crate::access::LfuRates;
use crate::clock::unix_time_ms;
use crate::fork::Origin;
use crate::form::PackingLimit;
use crate::index::Index;
use crate::journal::{Journal, Records};
use crate::keyspace::{Keyspace, KeyspaceStats, SHARDS};
use crate::locks::{Place, ShardLocks};
use crate::pace::Pace;
use crate::shared::{Expired, ExpiredHook, Shared};

/// All databases of a server, or a fork of them.
#[derive(Debug)]
pub struct Databases {
    count: usize,
    shared: Arc<Shared>,
    backing: Backing,
}

#[derive(Debug)]
enum Backing {
    Roots(Box<[OnceLock<Arc<Keyspace>>]>),
    Forks(Forks),
}

impl Databases {
    /// The most databases that a server can have.
    pub const COUNT_MAX: usize = 1 << 14;

    /// So many empty databases, with their own reaper thread.
    ///
    /// # Panics
    /// It is none, or more than [`COUNT_MAX`](Self::COUNT_MAX).
    #[must_use]
    pub fn new(count: usize) -> Self {
        assert!((1..=Self::COUNT_MAX).contains(&count), "{count} databases are too few or too many");
        Self {
            count,
            shared: Shared::start(),
            backing: Backing::Roots((0..count).map(|_| OnceLock::new()).collect()),
        }
    }

    /// The number of databases.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.count
    }

    /// The database of this number.
    ///
    /// # Panics
    /// There are not so many.
    #[inline]
    #[must_use]
    pub fn get(&self, number: usize) -> &Keyspace {
        match &self.backing {
            Backing::Roots(_) => self.root(number),
            Backing::Forks(forks) => forks.get(number),
        }
    }

    /// # Panics
    /// These are forks, or there are not so many.
    fn root(&self, number: usize) -> &Arc<Keyspace> {
        let Backing::Roots(roots) = &self.backing else {
            panic!("forks have no forks");
        };
        roots[number].get_or_init(|| Arc::new(Keyspace::numbered(number, &self.shared)))
    }

    /// The databases that have been used, in the order of their numbers. Others are empty.
    pub fn used(&self) -> impl Iterator<Item = &Keyspace> {
        (0..self.count).filter(|number| self.is_used(*number)).map(|number| self.get(number))
    }

    pub(crate) fn is_used(&self, number: usize) -> bool {
        match &self.backing {
            Backing::Roots(roots) => roots[number].get().is_some(),
            Backing::Forks(forks) => forks.of.is_used(forks.origin_of(number)),
        }
    }

    /// Keys that were changed, or may have been: a counter that only grows. The commit of a transaction counts each
    /// key once.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.used().map(Keyspace::changes).sum()
    }

    /// Exchanges what two databases hold, at one instant.
    ///
    /// # Panics
    /// There are not so many databases.
    pub fn swap(&self, one: usize, other: usize) {
        let numbers = [one, other].map(|number| self.get(number).number());
        if one == other {
            return;
        }
        match &self.backing {
            Backing::Forks(forks) => forks.swap(one, other),
            Backing::Roots(_) => {
                let shards = |number| (0..SHARDS).map(move |index| (number, index));
                let places = numbers.into_iter().flat_map(shards).collect();
                let mut locks = ShardLocks::take(&places, |number| self.get(number));
                self.get(one).swap_locked(self.get(other), &mut locks);
                self.journal().record_swap(one, other);
                drop(locks);
                for number in numbers {
                    self.get(number).awaited.note_all();
                }
            }
        }
    }

    /// Removes all keys of all databases, as [`Keyspace::clear`] does.
    pub fn clear(&self) {
        self.used().for_each(Keyspace::clear);
    }

    /// Counters of all databases.
    #[must_use]
    pub fn stats(&self) -> KeyspaceStats {
        self.used()
            .map(Keyspace::stats)
            .fold(KeyspaceStats::default(), |sum, of_one| KeyspaceStats {
                hits: sum.hits + of_one.hits,
                misses: sum.misses + of_one.misses,
                expired_keys: sum.expired_keys + of_one.expired_keys,
                expired_fields: sum.expired_fields + of_one.expired_fields,
                contended_updates: sum.contended_updates + of_one.contended_updates,
            })
    }

    /// Has `tell` called with the number of the database and each key that is removed because it has expired, on the
    /// thread that finds it and without a lock. Only the first call has an effect.
    pub fn on_expired(&self, tell: impl Fn(usize, &[u8], Expired) + Send + Sync + 'static) {
        let _ = self.shared.on_expired.set(ExpiredHook(Box::new(tell)));
    }

    /// Has `section` run what holds the locks of many shards, such as the commit of a long transaction: other requests
    /// wait for that, wherever they run. Only the first call has an effect.
    pub fn hold_locks_by(&self, section: fn(&mut dyn FnMut())) {
        let _ = self.shared.holding.set(section);
    }

    /// Has `section` run what other requests' changes have made vain for long, one after the other, so that long
    /// requests do not do so to each other. Only the first call has an effect.
    pub fn take_turns_by(&self, section: fn(&mut dyn FnMut())) {
        let _ = self.shared.turns.set(section);
    }

    /// Has `pause` called now and then by what works on many keys, such as the commit of a long transaction, while it
    /// holds no lock. Only the first call has an effect.
    pub fn yield_by(&self, pause: fn()) {
        let _ = self.shared.yield_by.set(pause);
    }

    /// Whether keys that have expired stay for now. No request finds them, and one that changes such a key removes it.
    pub fn keep_expired(&self, keeps: bool) {
        self.shared.keeps_expired.store(keeps, Ordering::Relaxed);
    }

    /// Whether no key expires, for changes that were made at other times and are repeated: what expired then was removed
    /// then.
    pub fn expire_nothing(&self, expires_nothing: bool) {
        self.shared.expires_nothing.store(expires_nothing, Ordering::Relaxed);
    }

    /// Counts accesses to keys from now on, or stops to count them.
    pub fn count_accesses(&self, counts: bool) {
        self.shared.clock.set_counts(counts);
    }

    /// A limit up to which collections count as packed.
    #[must_use]
    pub fn packing_limit(&self, limit: PackingLimit) -> u64 {
        self.shared.packing.get(limit)
    }

    /// Changes a limit up to which collections count as packed. A collection gets its form when it changes next.
    pub fn set_packing_limit(&self, limit: PackingLimit, most: u64) {
        self.shared.packing.set(limit, most);
    }

    /// How frequencies grow and shrink.
    #[must_use]
    pub fn lfu_rates(&self) -> LfuRates {
        self.shared.clock.rates()
    }

    /// Changes how frequencies grow and shrink.
    pub fn set_lfu_rates(&self, rates: LfuRates) {
        self.shared.clock.set_rates(rates);
    }

    /// Advances the clock that [`Keyspace::idle_s`] reads.
    pub(crate) fn tick(&self) {
        self.shared.clock.advance();
    }

    /// Bytes that were removed and that the reaper has not dropped yet, or a snapshot keeps, by estimate.
    #[must_use]
    pub fn pending_bytes(&self) -> usize {
        self.shared.reaper.pending_bytes()
    }

    /// Values and keys that were removed and that the reaper has not dropped yet.
    #[must_use]
    pub fn pending_objects(&self) -> usize {
        self.shared.reaper.pending_objects()
    }

    /// Values and keys that the reaper has dropped.
    #[must_use]
    pub fn dropped_objects(&self) -> usize {
        self.shared.reaper.dropped_objects()
    }

    /// Whether this is the fork of a transaction.
    #[must_use]
    pub fn is_fork(&self) -> bool {
        self.forks().is_some()
    }

    /// Whether this is a fork of databases that are partly locked.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        self.forks().is_some_and(|forks| forks.locked.is_some())
    }

    /// Forgets what the transaction of this fork changes: its commit stores nothing, and compares nothing.
    pub fn roll_back(&self) {
        if let Some(forks) = self.forks() {
            forks.is_rolled_back.store(true, Ordering::Relaxed);
        }
    }

    /// Drops a fork piece by piece. No lock is held.
    pub(crate) fn dismantle(self) {
        let pace = Pace::of(&self.shared);
        if let Backing::Forks(forks) = self.backing {
            let mut next = forks.first.into_inner();
            while let Some(node) = next {
                let Node { keyspace, next: rest } = *node;
                keyspace.dismantle(&pace);
                next = rest.into_inner();
            }
        }
    }

    /// What records all changes.
    #[must_use]
    pub fn journal(&self) -> &Journal {
        &self.shared.journal
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    pub(crate) fn forks(&self) -> Option<&Forks> {
        match &self.backing {
            Backing::Roots(_) => None,
            Backing::Forks(forks) => Some(forks),
        }
    }

    /// A fork of these databases. `locks` are the shards whose locks the caller holds until the commit.
    pub(crate) fn fork(self: &Arc<Self>, locks: Option<&ShardLocks<'_>>) -> Self {
        Self {
            count: self.count,
            shared: Arc::clone(&self.shared),
            backing: Backing::Forks(Forks {
                of: Arc::clone(self),
                now_ms: unix_time_ms(),
                locked: locks.map(ShardLocks::indexes),
                first: OnceLock::new(),
                moved: Mutex::default(),
                is_moved: AtomicBool::new(false),
                is_rolled_back: AtomicBool::new(false),
                records: self.journal().is_on().then(Arc::default),
            }),
        }
    }
}

/// The forks of one transaction.
#[derive(Debug)]
pub(crate) struct Forks {
    of: Arc<Databases>,
    /// The instant of the transaction. If there are locks, they are older.
    pub(crate) now_ms: u64,
    /// The entries of the locked shards; `None` if no lock is held.
    locked: Option<HashMap<Place, Index>>,
    /// In the order of their first use.
    first: OnceLock<Box<Node>>,
    /// The databases that the transaction has exchanged, by number: the origin whose fork stands there.
    moved: Mutex<BTreeMap<usize, usize>>,
    is_moved: AtomicBool,
    is_rolled_back: AtomicBool,
    /// What its changes are, if changes are recorded.
    pub(crate) records: Option<Arc<Records>>,
}

#[derive(Debug)]
struct Node {
    keyspace: Keyspace,
    next: OnceLock<Box<Self>>,
}

impl Forks {
    fn get(&self, number: usize) -> &Keyspace {
        let number = self.origin_of(number);
        let mut next = &self.first;
        loop {
            let node = next.get_or_init(|| Box::new(self.node(number)));
            if node.keyspace.number() == number {
                return &node.keyspace;
            }
            next = &node.next;
        }
    }

    fn node(&self, number: usize) -> Node {
        let locked = self.locked.as_ref().map(|locked| {
            let own = locked.iter().filter(|((of, _), _)| *of == number);
            own.map(|((_, shard), index)| (*shard, index.clone())).collect()
        });
        Node {
            keyspace: Keyspace::over(Origin::new(self.of.root(number), locked, self)),
            next: OnceLock::new(),
        }
    }

    /// The forks that the transaction has used.
    pub(crate) fn made(&self) -> impl Iterator<Item = &Keyspace> {
        let mut next = &self.first;
        std::iter::from_fn(move || {
            let node = next.get()?;
            next = &node.next;
            Some(&node.keyspace)
        })
    }

    /// The number of the origin whose fork stands at `number`.
    fn origin_of(&self, number: usize) -> usize {
        if !self.is_moved.load(Ordering::Relaxed) {
            return number;
        }
        self.moved.lock().get(&number).copied().unwrap_or(number)
    }

    fn swap(&self, one: usize, other: usize) {
        let origins = [self.origin_of(one), self.origin_of(other)];
        let mut moved = self.moved.lock();
        moved.extend([(one, origins[1]), (other, origins[0])]);
        self.is_moved.store(true, Ordering::Relaxed);
    }

    /// The databases that were exchanged: the number of each, and that of the origin whose keys it gets.
    pub(crate) fn moves(&self) -> Vec<(usize, usize)> {
        let moved = self.moved.lock();
        moved.iter().map(|(to, from)| (*to, *from)).collect()
    }

    /// The swaps, one after the other, that lead to these [`moves`](Self::moves).
    pub(crate) fn swaps_for(moves: &[(usize, usize)]) -> Vec<[usize; 2]> {
        // Where the keys of each origin are by now.
        let mut places: BTreeMap<usize, usize> = moves.iter().map(|(to, _)| (*to, *to)).collect();
        let mut swaps = Vec::new();
        for (to, from) in moves {
            let at = places[from];
            if at == *to {
                continue;
            }
            swaps.push([*to, at]);
            // What was at `to` is at `at` now.
            for place in places.values_mut() {
                if *place == *to {
                    *place = at;
                } else if *place == at {
                    *place = *to;
                }
            }
        }
        swaps
    }

    pub(crate) fn is_rolled_back(&self) -> bool {
        self.is_rolled_back.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use std::ops::Deref;
    use std::sync::Arc;

    use super::Databases;
    use crate::keyspace::Keyspace;
    use crate::watched::Watched;

    /// The first of four databases.
    pub(crate) struct Store {
        pub(crate) all: Arc<Databases>,
    }

    impl Store {
        pub(crate) fn new() -> Self {
            let all = Arc::new(Databases::new(4));
            Self { all }
        }

        pub(crate) fn transact<R>(&self, watched: &[Watched], mut body: impl FnMut(&Keyspace) -> R) -> Option<R> {
            self.all.transact(watched, |fork| {
                assert_eq!(fork.is_locked(), fork.get(0).is_locked());
                body(fork.get(0))
            })
        }
    }

    impl Deref for Store {
        type Target = Keyspace;

        fn deref(&self) -> &Keyspace {
            self.all.get(0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::Store;
    use crate::keyspace::KeyspaceStats;
    use crate::value::Value;
    use crate::{Element, List, ListEnd, Slot};

    #[test]
    fn counters_are_those_of_all_databases() {
        let store = Store::new();
        let stats = |factor| KeyspaceStats {
            hits: factor,
            misses: 2 * factor,
            expired_keys: 3 * factor,
            expired_fields: 5 * factor,
            contended_updates: 4 * factor,
        };
        store.all.get(0).add_stats(stats(1));
        store.all.get(2).add_stats(stats(10));
        assert_eq!(store.all.stats(), stats(11));
    }

    #[test]
    fn a_tick_shows_how_long_keys_have_been_idle() {
        let store = Store::new();
        store.insert(b"k", Value::string(b"v"));
        let idle_ticks = || store.peek(b"k", |entry| store.idle_ticks(entry.unwrap()));
        while idle_ticks() == 0 {
            store.all.tick();
        }
        assert!(idle_ticks() >= 1);
    }

    #[test]
    fn the_reaper_gets_what_a_large_update_has_replaced_and_nothing_that_is_read() {
        let store = Store::new();
        let garbage = || {
            while store.all.pending_objects() > 0 {
                std::thread::yield_now();
            }
            store.all.dropped_objects()
        };
        let list: List = (0..100_000).map(|_| Element::from(b"element")).collect();
        store.insert(b"k", Value::List(list));
        let pop = |slot: &mut Slot<'_>| match slot.value_mut() {
            Some(Value::List(list)) => list.pop(ListEnd::Left).is_some(),
            _ => false,
        };
        assert!(store.contains(b"k"));
        assert_eq!(garbage(), 0);
        assert!(store.update_large(b"k", |slot| slot.value().is_some()));
        assert_eq!(garbage(), 0);
        assert!(store.update_part(b"k", pop));
        assert_eq!(garbage(), 0);
        assert!(store.update_large(b"k", pop));
        assert_eq!(garbage(), 1);
    }

    #[test]
    fn a_pair_that_is_left_as_it_was_counts_as_read() {
        let store = Store::new();
        for key in [b"a", b"b"] {
            store.insert(key, Value::string(b"v"));
            store.update(key, |slot| slot.set_idle_s(500));
        }
        store.update_pair(b"a", b"b", |_, _| ());
        let idle_s = |key: &[u8]| store.peek(key, |entry| entry.map(|entry| store.idle_s(entry)));
        assert!([b"a", b"b"].iter().all(|key| idle_s(*key) < Some(400)));
    }

    #[test]
    fn what_is_stored_anew_does_not_expire() {
        let store = Store::new();
        for _ in 0..2 {
            store.insert(b"k", Value::string(b"v"));
            assert_eq!((store.len(), store.volatile_len()), (1, 0));
            store.update(b"k", |slot| slot.set_expire_at_ms(Some(1 << 50)));
            assert_eq!(store.volatile_len(), 1);
        }
    }

    #[test]
    fn so_many_keys_of_a_shard_as_asked_for_are_removed_and_leave_no_place() {
        let store = Store::new();
        for number in 0..3_000_u32 {
            store.update(&number.to_le_bytes(), |slot| {
                slot.insert(Value::string(b"v"));
                slot.set_expire_at_ms(Some(1));
            });
        }
        let used = store.shards.iter().filter(|shard| !shard.state.lock().index.is_empty()).count();
        let removed: usize = (0..store.shard_count()).map(|index| store.remove_due(index, 2, 1)).sum();
        assert_eq!((removed, store.len()), (used, 3_000 - used));
        assert!((0..3_000_u32).all(|number| !store.remove(&number.to_le_bytes())));
        store.insert(b"k", Value::string(b"v"));
        assert!(store.remove(b"k"));
        assert!(store.shards.iter().all(|shard| shard.state.lock().index.is_empty()));
        let heavy: List = (0..100_000).map(|_| Element::from(b"element")).collect();
        store.discard(Value::List(heavy));
        while store.all.pending_objects() > 0 {
            std::thread::yield_now();
        }
        assert_eq!(store.all.dropped_objects(), 1);
        (0..100_u32).for_each(|number| store.insert(&number.to_le_bytes(), Value::string(b"v")));
        store.clear();
        while store.all.pending_objects() > 0 {
            std::thread::yield_now();
        }
        assert_eq!(store.all.dropped_objects(), 101);
    }
}
