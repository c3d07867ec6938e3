//! Keys for which somebody waits: which of them were stored.
//!
//! ```text
//!   waiter:  await_key ──► looks at the key ── nothing there ──► waits
//!   writer:  stores the key ──► note: ready ──► take_ready, serves the waiters ──► served
//! ```
//!
//! Waiter and writer lock the key's shard, one after the other. If the waiter is first, the writer finds that the key
//! is awaited; if the writer is first, the waiter finds the value. Without waiters, a write reads one counter.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hashbrown::HashMap;
use parking_lot::Mutex;

use crate::databases::Databases;

/// The awaited keys of one database.
#[derive(Debug)]
pub(crate) struct AwaitedKeys {
    /// The number of the database.
    database: usize,
    /// How many keys are awaited.
    count: AtomicUsize,
    /// How many waiters want to know of a key's removal.
    of_removal: AtomicUsize,
    inner: Mutex<HashMap<Box<[u8]>, Awaited>>,
    ready: Arc<ReadyKeys>,
}

/// An awaited key that was stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadyKey {
    /// The number of its database.
    pub database: usize,
    /// Its name.
    pub key: Box<[u8]>,
}

/// The ready keys of all databases.
#[derive(Debug, Default)]
pub(crate) struct ReadyKeys {
    /// Keys that are ready and have not been [served](Databases::served).
    unserved: AtomicUsize,
    /// In the order in which they were stored, each once.
    queue: Mutex<Vec<ReadyKey>>,
}

impl ReadyKeys {
    fn push(&self, database: usize, key: &[u8]) {
        self.unserved.fetch_add(1, Ordering::Relaxed);
        let key = key.into();
        self.queue.lock().push(ReadyKey { database, key });
    }
}

/// What ends a wait for a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Awaits {
    /// A value.
    Value,
    /// A value, or that the key is gone.
    ValueOrRemoval,
}

#[derive(Debug, Default)]
struct Awaited {
    waiters: usize,
    /// How many of them want to know of the key's removal.
    of_removal: usize,
    is_ready: bool,
}

impl AwaitedKeys {
    pub(crate) fn new(database: usize, ready: Arc<ReadyKeys>) -> Self {
        Self {
            database,
            count: AtomicUsize::new(0),
            of_removal: AtomicUsize::new(0),
            inner: Mutex::default(),
            ready,
        }
    }

    pub(crate) fn add(&self, key: &[u8], what: Awaits) {
        let mut keys = self.inner.lock();
        let awaited = keys.entry(key.into()).or_default();
        awaited.waiters += 1;
        if what == Awaits::ValueOrRemoval {
            awaited.of_removal += 1;
            self.of_removal.fetch_add(1, Ordering::Relaxed);
        }
        self.count.store(keys.len(), Ordering::Relaxed);
    }

    pub(crate) fn remove(&self, key: &[u8], what: Awaits) {
        let mut keys = self.inner.lock();
        if let Some(awaited) = keys.get_mut(key) {
            awaited.waiters -= 1;
            if what == Awaits::ValueOrRemoval {
                awaited.of_removal -= 1;
                self.of_removal.fetch_sub(1, Ordering::Relaxed);
            }
            if awaited.waiters == 0 {
                keys.remove(key);
                self.count.store(keys.len(), Ordering::Relaxed);
            }
        }
    }

    /// The key was stored, and its shard's lock is released.
    #[inline]
    pub(crate) fn note(&self, key: &[u8]) {
        if self.count.load(Ordering::Relaxed) > 0 {
            self.mark(key, |_| true);
        }
    }

    /// The key was removed, and its shard's lock is released.
    #[inline]
    pub(crate) fn note_removed(&self, key: &[u8]) {
        if self.of_removal.load(Ordering::Relaxed) > 0 {
            self.mark(key, |awaited| awaited.of_removal != 0);
        }
    }

    /// All keys were removed, and no lock is held.
    pub(crate) fn note_all_removed(&self) {
        if self.of_removal.load(Ordering::Relaxed) > 0 {
            self.mark_all(|awaited| awaited.of_removal != 0);
        }
    }

    /// Any key may have been stored or removed, and no lock is held.
    pub(crate) fn note_all(&self) {
        if self.count.load(Ordering::Relaxed) > 0 {
            self.mark_all(|_| true);
        }
    }

    #[cold]
    fn mark(&self, key: &[u8], is_wanted: impl Fn(&Awaited) -> bool) {
        let mut keys = self.inner.lock();
        if let Some(awaited) = keys.get_mut(key).filter(|awaited| is_wanted(awaited)) {
            self.mark_awaited(key, awaited);
        }
    }

    #[cold]
    fn mark_all(&self, is_wanted: impl Fn(&Awaited) -> bool) {
        let mut keys = self.inner.lock();
        let wanted = keys.iter_mut().filter(|(_, awaited)| is_wanted(awaited));
        wanted.for_each(|(key, awaited)| self.mark_awaited(key, awaited));
    }

    fn mark_awaited(&self, key: &[u8], awaited: &mut Awaited) {
        if !awaited.is_ready {
            awaited.is_ready = true;
            self.ready.push(self.database, key);
        }
    }

    fn contains(&self, key: &[u8]) -> bool {
        self.count.load(Ordering::Relaxed) > 0 && self.inner.lock().contains_key(key)
    }

    /// Somebody is about to look at the key, which was ready.
    fn unmark(&self, key: &[u8]) {
        if let Some(awaited) = self.inner.lock().get_mut(key) {
            awaited.is_ready = false;
        }
    }
}

impl super::Keyspace {
    /// Somebody waits for the key from now on: when a value is stored there, or the key is gone if `what` says so, it
    /// is ready. Look at the key after this call: a value that is there already makes nothing ready.
    pub fn await_key(&self, key: &[u8], what: Awaits) {
        self.awaited.add(key, what);
    }

    /// One who called [`await_key`](Self::await_key) waits no longer.
    pub fn stop_awaiting(&self, key: &[u8], what: Awaits) {
        self.awaited.remove(key, what);
    }

    /// Whether anybody waits for the key.
    #[must_use]
    pub fn is_awaited(&self, key: &[u8]) -> bool {
        self.awaited.contains(key)
    }

    /// Treats an awaited key as if a value had just been stored there.
    pub fn make_ready(&self, key: &[u8]) {
        self.awaited.note(key);
    }
}

impl Databases {
    /// Whether awaited keys were stored for whose waiters no thread has looked to the [end](Self::served).
    #[inline]
    #[must_use]
    pub fn has_ready(&self) -> bool {
        self.shared().ready.unserved.load(Ordering::Relaxed) > 0
    }

    /// The awaited keys that were stored since the last call, each once, in the order of their first storing. Pass
    /// their number to [`served`](Self::served) when their waiters have been looked at.
    #[must_use]
    pub fn take_ready(&self) -> Vec<ReadyKey> {
        let ready = std::mem::take(&mut *self.shared().ready.queue.lock());
        // A key that is stored before this was stored before the caller looks at it.
        for ReadyKey { database, key } in &ready {
            self.get(*database).awaited.unmark(key);
        }
        ready
    }

    /// So many ready keys have been looked at.
    pub fn served(&self, count: usize) {
        self.shared().ready.unserved.fetch_sub(count, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::Awaits;
    use crate::databases::testing::Store;
    use crate::{Element, Value};

    fn text() -> Value {
        Value::String(Element::from(b"v".as_slice()))
    }

    fn ready(store: &Store) -> Vec<String> {
        let keys = store.all.take_ready();
        store.all.served(keys.len());
        let names = keys.iter().map(|ready| String::from_utf8_lossy(&ready.key).into_owned());
        names.collect()
    }

    #[test]
    fn every_way_of_storing_makes_awaited_keys_ready() {
        let store = Store::new();
        let keys = ["insert", "pair", "large", "all", "fork"];
        for key in keys {
            store.await_key(key.as_bytes(), Awaits::Value);
        }
        store.insert(b"other", text());
        assert!(!store.all.has_ready());
        store.insert(b"insert", text());
        store.insert(b"insert", text());
        store.update_pair(b"other", b"pair", |_, slot| slot.insert(text()));
        store.update_large(b"large", |slot| slot.insert(text()));
        assert!(store.insert_all_if_absent([(b"all".as_slice(), text())]));
        let unserved = || store.all.shared().ready.unserved.load(Ordering::Relaxed);
        let before = unserved();
        let at_the_end = store.transact(&[], |fork| {
            fork.insert(b"fork", text());
            unserved()
        });
        assert_eq!(at_the_end, Some(before), "nothing before the commit");
        assert!(store.all.has_ready());
        assert_eq!(ready(&store), keys);
        assert!(!store.all.has_ready());
    }

    #[test]
    fn a_transaction_makes_keys_ready_in_the_order_in_which_it_stores_them() {
        let store = Store::new();
        let keys: Vec<String> = (0..50).map(|number| format!("k{number}")).collect();
        for key in &keys {
            store.await_key(key.as_bytes(), Awaits::Value);
        }
        store.transact(&[], |fork| {
            for key in &keys {
                fork.insert(key.as_bytes(), text());
            }
        });
        assert_eq!(ready(&store), keys);
    }

    #[test]
    fn removing_a_key_makes_nothing_ready_and_storing_it_again_does() {
        let store = Store::new();
        store.insert(b"k", text());
        store.await_key(b"k", Awaits::Value);
        // Nor does a transaction that reads it, or an update that leaves it as it is.
        assert_eq!(store.transact(&[], |fork| fork.contains(b"k")), Some(true));
        store.update_pair(b"k", b"none", |_, _| ());
        store.remove(b"k");
        assert!(!store.all.has_ready());
        for _ in 0..2 {
            store.insert(b"k", text());
            assert_eq!(ready(&store), ["k"]);
        }
    }

    #[test]
    fn every_way_of_removing_makes_keys_ready_whose_removal_is_awaited() {
        let store = Store::new();
        let keys = ["remove", "pair", "large", "fork", "due", "late", "clear", "cleared"];
        store.await_key(b"value", Awaits::Value);
        for key in keys {
            store.insert(key.as_bytes(), text());
            store.await_key(key.as_bytes(), Awaits::ValueOrRemoval);
        }
        let expire = |key: &[u8]| {
            store.update(key, |slot| {
                slot.wake_nobody();
                slot.set_expire_at_ms(Some(1));
            });
        };
        store.remove(b"remove");
        store.update_pair(b"pair", b"x", |slot, _| slot.remove().is_some());
        store.update_large(b"large", |slot| slot.remove().is_some());
        store.transact(&[], |fork| fork.remove(b"fork"));
        expire(b"due");
        for shard in 0..store.shard_count() {
            store.remove_due(shard, 2, 10);
        }
        expire(b"late");
        assert!(!store.contains(b"late"));
        assert_eq!(ready(&store), ["remove", "pair", "large", "fork", "due", "late"]);
        store.remove(b"none");
        assert!(!store.all.has_ready());
        let mut expected = keys.map(str::to_owned);
        expected.sort();
        let clears: [fn(&Store); 2] = [|store| store.clear(), |store| _ = store.transact(&[], crate::Keyspace::clear)];
        for clear in clears {
            store.insert(b"value", text());
            ready(&store);
            clear(&store);
            let mut all = ready(&store);
            all.sort();
            assert_eq!(all, expected);
        }
        for key in keys {
            store.insert(key.as_bytes(), text());
            store.stop_awaiting(key.as_bytes(), Awaits::ValueOrRemoval);
        }
        ready(&store);
        store.transact(&[], crate::Keyspace::clear);
        assert!(!store.all.has_ready());
    }

    #[test]
    fn a_quiet_change_makes_nothing_ready() {
        let store = Store::new();
        store.await_key(b"k", Awaits::Value);
        store.update(b"k", |slot| {
            slot.insert(text());
            slot.wake_nobody();
        });
        store.update_large(b"k", |slot| {
            slot.insert(text());
            slot.wake_nobody();
        });
        assert!(!store.all.has_ready());
        assert_eq!(store.key_len_max(), 1);
    }

    #[test]
    fn a_key_is_awaited_until_its_last_waiter_leaves() {
        let store = Store::new();
        store.await_key(b"k", Awaits::Value);
        store.await_key(b"k", Awaits::Value);
        store.stop_awaiting(b"k", Awaits::Value);
        store.await_key(b"other", Awaits::Value);
        assert!(store.is_awaited(b"k"));
        store.stop_awaiting(b"k", Awaits::Value);
        assert!(!store.is_awaited(b"k"));
        store.insert(b"k", text());
        assert!(!store.all.has_ready());
    }

    #[test]
    fn a_removal_is_awaited_until_the_last_one_leaves_who_wants_to_know_of_it() {
        let store = Store::new();
        store.insert(b"k", text());
        store.await_key(b"other", Awaits::ValueOrRemoval);
        store.await_key(b"k", Awaits::Value);
        store.await_key(b"k", Awaits::ValueOrRemoval);
        store.stop_awaiting(b"k", Awaits::ValueOrRemoval);
        store.remove(b"k");
        assert!(!store.all.has_ready());
    }

    #[test]
    fn a_swap_makes_awaited_keys_ready_in_both_databases() {
        let store = Store::new();
        for number in 0..3 {
            store.all.get(number).await_key(b"k", Awaits::Value);
        }
        store.all.swap(0, 2);
        let keys = store.all.take_ready();
        store.all.served(keys.len());
        let databases = keys.iter().map(|ready| ready.database);
        assert_eq!(databases.collect::<Vec<_>>(), [0, 2]);
        store.all.transact(&[], |fork| fork.swap(1, 2));
        assert_eq!(ready(&store), ["k", "k"]);
    }

    #[test]
    fn keys_are_unserved_until_somebody_has_looked_at_their_waiters() {
        let store = Store::new();
        store.await_key(b"k", Awaits::Value);
        store.make_ready(b"k");
        assert_eq!(store.all.take_ready().len(), 1);
        assert!(store.all.has_ready());
        assert!(store.all.take_ready().is_empty());
        store.all.served(1);
        assert!(!store.all.has_ready());
    }
}
