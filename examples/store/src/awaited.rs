//! Keys for which somebody waits: which of them were stored.
//!
//! ```text
//!   waiter:  await_key ──► looks at the key ── nothing there ──► waits
//!   writer:  stores the key ──► note: ready ──► take_ready, serves the waiters ──► served
//! ```
//!
//! Waiter and writer lock the key's shard, one after the other. If the waiter is first, the writer finds that the key is
//! awaited; if the writer is first, the waiter finds the value. Without waiters, a write reads one counter.

use std::sync::atomic::{AtomicUsize, Ordering};

use hashbrown::HashMap;
use parking_lot::Mutex;

/// The awaited keys of a keyspace.
#[derive(Debug, Default)]
pub(crate) struct AwaitedKeys {
    /// How many keys are awaited.
    count: AtomicUsize,
    /// Keys that are ready and have not been [served](Self::served).
    unserved: AtomicUsize,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    keys: HashMap<Box<[u8]>, Awaited>,
    /// In the order in which they were stored, each once.
    ready: Vec<Box<[u8]>>,
}

#[derive(Debug, Default)]
struct Awaited {
    waiters: usize,
    is_ready: bool,
}

impl AwaitedKeys {
    pub(crate) fn add(&self, key: &[u8]) {
        let mut inner = self.inner.lock();
        inner.keys.entry(key.into()).or_default().waiters += 1;
        self.count.store(inner.keys.len(), Ordering::Relaxed);
    }

    pub(crate) fn remove(&self, key: &[u8]) {
        let mut inner = self.inner.lock();
        if let Some(awaited) = inner.keys.get_mut(key) {
            awaited.waiters -= 1;
            if awaited.waiters == 0 {
                inner.keys.remove(key);
                self.count.store(inner.keys.len(), Ordering::Relaxed);
            }
        }
    }

    /// The key was stored, and its shard's lock is released.
    #[inline]
    pub(crate) fn note(&self, key: &[u8]) {
        if self.count.load(Ordering::Relaxed) > 0 {
            self.mark(key);
        }
    }

    #[cold]
    fn mark(&self, key: &[u8]) {
        let inner = &mut *self.inner.lock();
        if let Some(awaited) = inner.keys.get_mut(key)
            && !awaited.is_ready
        {
            awaited.is_ready = true;
            inner.ready.push(key.into());
            self.unserved.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn contains(&self, key: &[u8]) -> bool {
        self.count.load(Ordering::Relaxed) > 0 && self.inner.lock().keys.contains_key(key)
    }

    fn take_ready(&self) -> Vec<Box<[u8]>> {
        let inner = &mut *self.inner.lock();
        for key in &inner.ready {
            if let Some(awaited) = inner.keys.get_mut(key) {
                awaited.is_ready = false;
            }
        }
        std::mem::take(&mut inner.ready)
    }
}

impl super::Keyspace {
    /// Somebody waits for the key from now on: when a value is stored there, it is ready. Look at the key after this
    /// call: a value that is there already makes nothing ready.
    pub fn await_key(&self, key: &[u8]) {
        self.awaited.add(key);
    }

    /// One who called [`await_key`](Self::await_key) waits no longer.
    pub fn stop_awaiting(&self, key: &[u8]) {
        self.awaited.remove(key);
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

    /// Whether awaited keys were stored for whose waiters nobody has looked to the [end](Self::served).
    #[inline]
    #[must_use]
    pub fn has_ready(&self) -> bool {
        self.awaited.unserved.load(Ordering::Relaxed) > 0
    }

    /// The awaited keys that were stored since the last call, each once, in the order of their first storing. Pass their
    /// number to [`served`](Self::served) when their waiters have been looked at.
    #[must_use]
    pub fn take_ready(&self) -> Vec<Box<[u8]>> {
        self.awaited.take_ready()
    }

    /// So many ready keys have been looked at.
    pub fn served(&self, count: usize) {
        self.awaited.unserved.fetch_sub(count, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::{Element, Keyspace, Value};

    fn text() -> Value {
        Value::String(Element::from(b"v".as_slice()))
    }

    fn ready(store: &Keyspace) -> Vec<String> {
        let keys = store.take_ready();
        store.served(keys.len());
        let names = keys
            .iter()
            .map(|key| String::from_utf8_lossy(key).into_owned());
        names.collect()
    }

    #[test]
    fn every_way_of_storing_makes_awaited_keys_ready() {
        let store = Arc::new(Keyspace::new());
        let keys = ["insert", "pair", "large", "all", "fork"];
        for key in keys {
            store.await_key(key.as_bytes());
        }
        store.insert(b"other", text());
        assert!(!store.has_ready());
        store.insert(b"insert", text());
        store.insert(b"insert", text());
        store.update_pair(b"other", b"pair", |_, slot| slot.insert(text()));
        store.update_large(b"large", |slot| slot.insert(text()));
        assert!(store.insert_all_if_absent([(b"all".as_slice(), text())]));
        let nothing_before_the_commit = store.transact(&[], |fork| {
            fork.insert(b"fork", text());
            !fork.has_ready()
        });
        assert_eq!(nothing_before_the_commit, Some(true));
        assert!(store.has_ready());
        assert_eq!(ready(&store), keys);
        assert!(!store.has_ready());
    }

    #[test]
    fn removing_a_key_makes_nothing_ready_and_storing_it_again_does() {
        let store = Keyspace::new();
        store.insert(b"k", text());
        store.await_key(b"k");
        store.remove(b"k");
        assert!(!store.has_ready());
        for _ in 0..2 {
            store.insert(b"k", text());
            assert_eq!(ready(&store), ["k"]);
        }
    }

    #[test]
    fn a_key_is_awaited_until_its_last_waiter_leaves() {
        let store = Keyspace::new();
        store.await_key(b"k");
        store.await_key(b"k");
        store.stop_awaiting(b"k");
        assert!(store.is_awaited(b"k"));
        store.stop_awaiting(b"k");
        assert!(!store.is_awaited(b"k"));
        store.insert(b"k", text());
        assert!(!store.has_ready());
    }

    #[test]
    fn keys_are_unserved_until_somebody_has_looked_at_their_waiters() {
        let store = Keyspace::new();
        store.await_key(b"k");
        store.make_ready(b"k");
        assert_eq!(store.take_ready().len(), 1);
        assert!(store.has_ready());
        assert!(store.take_ready().is_empty());
        store.served(1);
        assert!(!store.has_ready());
    }
}
