//! Which clients may have a copy of which key.
//!
//! A key's clients are changed under the lock of the key's shard alone, and so is what these clients know of it. The
//! table is bounded by the number of its keys, which is a setting, and by what all of them take.

use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hashbrown::DefaultHashBuilder;
use imbl::OrdMap;
use indexmap::IndexMap;
use parking_lot::Mutex;
use psp_server::{checkpoint, no_preempt};
use smallvec::SmallVec;

use crate::client::ClientInfo;

/// Few enough keys are in one that removing them all holds its lock for about a millisecond.
const SHARDS: usize = 256;
/// What all keys and their clients may take, in bytes.
const HELD_BYTES_MAX: usize = 256 << 20;
/// What a key takes beside its name, about.
const KEY_BYTES: usize = 160;
/// What a client of a key takes, about: its id there, and the key in its own set.
const ITEM_BYTES: usize = 48;
/// `tracking-table-max-keys` at the start, as in Redis.
const KEYS_MAX: usize = 1_000_000;

/// The ids of clients, in their order.
type Ids = SmallVec<[u64; 2]>;
type Shard = IndexMap<Arc<[u8]>, Ids, DefaultHashBuilder>;

/// All clients that have ever tracked and are still there, by their ids. A copy is O(1).
#[derive(Debug, Default)]
pub(super) struct Members(Mutex<OrdMap<u64, Arc<ClientInfo>>>);

impl Members {
    pub(super) fn snapshot(&self) -> OrdMap<u64, Arc<ClientInfo>> {
        no_preempt(|| self.0.lock().clone())
    }

    pub(super) fn add(&self, client: &Arc<ClientInfo>) {
        no_preempt(|| self.0.lock().insert(client.id, Arc::clone(client)));
    }

    pub(super) fn remove(&self, client: &ClientInfo) {
        drop(no_preempt(|| self.0.lock().remove(&client.id)));
    }
}

/// The table.
#[derive(Debug)]
pub(super) struct Table {
    shards: Box<[Mutex<Shard>]>,
    hasher: DefaultHashBuilder,
    /// All changed under the lock of a shard.
    keys: AtomicUsize,
    items: AtomicUsize,
    bytes: AtomicUsize,
    /// 0 for no limit.
    keys_max: AtomicUsize,
}

/// A key that was taken out of the table, and its clients that are still there.
pub(super) struct Taken {
    pub(super) key: Arc<[u8]>,
    pub(super) clients: Vec<Arc<ClientInfo>>,
}

impl Default for Table {
    fn default() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: DefaultHashBuilder::default(),
            keys: AtomicUsize::new(0),
            items: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            keys_max: AtomicUsize::new(KEYS_MAX),
        }
    }
}

impl Table {
    pub(super) fn keys(&self) -> usize {
        self.keys.load(Ordering::Relaxed)
    }

    pub(super) fn items(&self) -> usize {
        self.items.load(Ordering::Relaxed)
    }

    pub(super) fn keys_max(&self) -> usize {
        self.keys_max.load(Ordering::Relaxed)
    }

    pub(super) fn set_keys_max(&self, keys_max: usize) {
        self.keys_max.store(keys_max, Ordering::Relaxed);
    }

    /// Whether keys have to go.
    pub(super) fn is_too_large(&self) -> bool {
        let keys_max = self.keys_max();
        (keys_max > 0 && self.keys() > keys_max) || self.bytes.load(Ordering::Relaxed) > HELD_BYTES_MAX
    }

    fn shard(&self, key: &[u8]) -> &Mutex<Shard> {
        let hash = self.hasher.hash_one(key);
        // The lowest bits choose the place within the shard.
        &self.shards[(hash >> 32) as usize % SHARDS]
    }

    /// The client may have a copy of the key from now on.
    pub(super) fn add(&self, client: &ClientInfo, key: &[u8]) {
        no_preempt(|| {
            if client.tracking.holds(key) {
                return;
            }
            let mut shard = self.shard(key).lock();
            if !shard.contains_key(key) {
                shard.insert(key.into(), Ids::new());
                self.keys.fetch_add(1, Ordering::Relaxed);
                let bytes = key.len() + KEY_BYTES;
                self.bytes.fetch_add(bytes, Ordering::Relaxed);
            }
            let Some((_, key, ids)) = shard.get_full_mut(key) else {
                return;
            };
            if let Err(place) = ids.binary_search(&client.id) {
                ids.insert(place, client.id);
                client.tracking.hold(key);
                self.items.fetch_add(1, Ordering::Relaxed);
                self.bytes.fetch_add(ITEM_BYTES, Ordering::Relaxed);
            }
        });
    }

    /// The clients of a key.
    pub(super) fn clients(&self, key: &[u8]) -> usize {
        if self.keys() == 0 {
            return 0;
        }
        no_preempt(|| self.shard(key).lock().get(key).map_or(0, Ids::len))
    }

    /// Takes a key out.
    pub(super) fn take(&self, key: &[u8], members: &Members) -> Option<Taken> {
        if self.keys() == 0 {
            return None;
        }
        no_preempt(|| {
            let mut shard = self.shard(key).lock();
            let taken = shard.swap_remove_entry(key)?;
            Some(self.let_go(taken, &members.snapshot()))
        })
    }

    /// Takes a random key out.
    pub(super) fn take_any(&self, members: &Members) -> Option<Taken> {
        let start = rand::random_range(0..SHARDS);
        let (before, from) = self.shards.split_at(start);
        from.iter().chain(before).find_map(|shard| {
            no_preempt(|| {
                let mut shard = shard.lock();
                let place = (!shard.is_empty()).then(|| rand::random_range(0..shard.len()))?;
                let taken = shard.swap_remove_index(place)?;
                Some(self.let_go(taken, &members.snapshot()))
            })
        })
    }

    /// Takes all keys out. Yields to other requests meanwhile, so the caller must hold no lock.
    pub(super) fn clear(&self, members: &Members) {
        for shard in &self.shards {
            let taken = no_preempt(|| {
                let mut shard = shard.lock();
                let (all, members) = (std::mem::take(&mut *shard), members.snapshot());
                let all = all.into_iter().map(|taken| self.let_go(taken, &members));
                all.collect::<Vec<_>>()
            });
            if !taken.is_empty() {
                drop(taken);
                checkpoint();
            }
        }
    }

    /// The key is out of its shard, which is still locked: a client that adds it again does so after this.
    fn let_go(&self, (key, ids): (Arc<[u8]>, Ids), members: &OrdMap<u64, Arc<ClientInfo>>) -> Taken {
        self.keys.fetch_sub(1, Ordering::Relaxed);
        self.items.fetch_sub(ids.len(), Ordering::Relaxed);
        let bytes = key.len() + KEY_BYTES + ids.len() * ITEM_BYTES;
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        let clients = ids.iter().filter_map(|id| members.get(id).cloned());
        let clients: Vec<_> = clients.collect();
        for client in &clients {
            client.tracking.release(&key);
        }
        Taken { key, clients }
    }

    /// The client, which has left, has no copy of any key.
    pub(super) fn forget(&self, client: &ClientInfo) {
        for key in client.tracking.take_held() {
            no_preempt(|| {
                let mut shard = self.shard(&key).lock();
                let Some(ids) = shard.get_mut(&*key) else {
                    return;
                };
                let Ok(place) = ids.binary_search(&client.id) else {
                    return;
                };
                ids.remove(place);
                self.items.fetch_sub(1, Ordering::Relaxed);
                self.bytes.fetch_sub(ITEM_BYTES, Ordering::Relaxed);
                if ids.is_empty() {
                    shard.swap_remove(&*key);
                    self.keys.fetch_sub(1, Ordering::Relaxed);
                    let bytes = key.len() + KEY_BYTES;
                    self.bytes.fetch_sub(bytes, Ordering::Relaxed);
                }
            });
        }
    }
}
