//! Fetches what look-ups of several keys will touch into the processor's caches.
//!
//! A look-up waits for memory four to six times, each time for where to read next. Look-ups of several keys that go
//! step by step wait for all keys together:
//!
//! ```text
//!   key 1   shard ·····► node ·····► leaf ·····► entry
//!   key 2     shard ·····► node ·····► leaf ·····► entry
//!   key 3       shard ·····► node ·····► leaf ·····► entry      ····  memory, which no thread waits for
//! ```

use std::ptr;

use smallvec::SmallVec;

use crate::cache_line::{LINE_BYTES, fetch};
use crate::hashed::position_of;
use crate::keyspace::{Keyspace, Shard};

/// Keys at a time. What more of them need would not stay in the caches.
const KEYS_MAX: usize = 32;
/// Steps behind the shard. A trie of three branches has six, and some 10^11 entries.
const STEPS_MAX: u32 = 6;

impl Keyspace {
    /// Has the processor fetch what look-ups of the first 32 `keys` touch, for whoever looks these up next on the same
    /// thread. Changes nothing, counts no read, and waits for no lock: keys whose shards are locked are left out, and so
    /// is a key that comes again at once.
    /// Without effect in a transaction, and on processors other than x86-64.
    pub fn prefetch<'k>(&self, keys: impl IntoIterator<Item = &'k [u8]>) {
        if self.is_fork() {
            return;
        }
        let mut left = SmallVec::<[u64; KEYS_MAX]>::new();
        let mut last = None;
        for key in keys.into_iter().take(KEYS_MAX) {
            if last.replace(key) == Some(key) {
                continue;
            }
            let position = position_of(key);
            let shard = ptr::from_ref(self.shard(position)).cast::<u8>();
            fetch(shard);
            fetch(shard.wrapping_add(LINE_BYTES));
            left.push(position);
        }
        for step in 0..STEPS_MAX {
            left.retain(|position| self.shard(*position).step_ahead(*position, step));
            if left.is_empty() {
                return;
            }
        }
    }
}

impl Shard {
    /// Fetches what the step touches. Returns whether there may be a step behind it.
    #[inline]
    fn step_ahead(&self, position: u64, step: u32) -> bool {
        let state = self.state.try_lock();
        state.is_some_and(|state| state.index.step_ahead(position, state.len, step, fetch))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::databases::testing::Store;
    use crate::value::Value;

    fn keys(range: std::ops::Range<usize>) -> Vec<Vec<u8>> {
        range.map(|key| format!("key:{key}").into_bytes()).collect()
    }

    fn prefetch(store: &Keyspace, keys: &[Vec<u8>]) {
        store.prefetch(keys.iter().map(Vec::as_slice));
    }

    #[test]
    fn nothing_changes() {
        let store = Store::new();
        let (there, absent) = (keys(0..500), keys(500..600));
        prefetch(&store, &there);
        for (number, key) in there.iter().enumerate() {
            store.insert(key, Value::string(&vec![b'v'; number]));
        }
        store.update(&there[0], |slot| slot.set_expire_at_ms(Some(1)));
        let before = (store.stats(), store.len(), store.access(&there[1]));
        for keys in [&there[..], &there[..32], &there[7..8], &absent, &[]] {
            prefetch(&store, keys);
        }
        prefetch(&store, &vec![there[3].clone(); 40]);
        let after = (store.stats(), store.len(), store.access(&there[1]));
        assert_eq!(format!("{after:?}"), format!("{before:?}"));
        store.transact(&[], |fork| prefetch(fork, &there));
        assert!(store.contains(&there[499]) && !store.contains(&there[0]));
    }

    #[test]
    fn a_locked_shard_holds_nobody_up() {
        let store = Store::new();
        let keys = keys(0..2);
        for key in &keys {
            store.insert(key, Value::string(b"v"));
        }
        // The lock of the first key's shard would never be given to the same thread.
        store.update(&keys[0], |_| prefetch(&store, &keys));
    }
}
