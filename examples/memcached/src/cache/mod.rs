//! The items of the cache: concurrent and bounded in memory. Each changes under its shard's lock.
//!
//! ```text
//!   key ──hash──► Cache ─► 1024 shards, each  Mutex { index: hash -> slot index
//!                   │                                 slots: items at their slot indices
//!                   │                                 hot ─► warm ⇄ cold: lists through the slots }
//!                   │
//!                   └► Budget: bytes of all items, taken before an item is stored
//!
//!   get       lock, share the value, mark as used, unlock; write
//!   set       make the item; lock, take bytes, swap, unlock; drop the old one
//!   no room   unlock; evict the least recently used item of some shards; retry
//!   metadump  per 64 slots: lock, copy, unlock; write
//! ```
//!
//! No thread holds two locks. A thread holds a lock for at most a constant number of items, so no
//! command waits for a long one. Items are dropped after their shard's lock is released.
//!
//! The lists are memcached's segmented LRU (its `doc/new_lru.txt`). An item that is used once moves
//! from hot through cold and out. An item that is used again moves to warm. A read only marks its
//! item; items move when other items are stored.

mod budget;
mod eviction;
mod flush;
mod footprint;
mod held;
mod index;
mod item;
mod reaper;
mod segments;
mod shard;
mod slots;
mod value;
mod walk;

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use psp_store::hash_of;

use crate::clock::now_ms;

use budget::Budget;
pub use budget::OutOfMemory;
use flush::Flushes;
use footprint::Footprint;
pub use item::{Content, Item, Mark};
pub use reaper::Reaper;
pub use segments::{Moves, Segment};
pub use shard::CacheStats;
use shard::{Dead, Hashed, Now, Shard};
pub use value::Value;

/// log2 of the number of shards.
const SHARD_BITS: u32 = 10;
const SHARDS: usize = 1 << SHARD_BITS;

/// Attempts of an update if other updates take the memory that it freed.
const ATTEMPTS_MAX: usize = 64;

/// The limits of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of all items, including the cache's own data about them.
    pub memory_bytes: usize,
    /// Whether to evict items when the memory is full. Otherwise stores then fail.
    pub evict: bool,
}

/// The effect of [`Cache::update`] on a key.
#[derive(Debug)]
pub enum Change {
    /// The key keeps its item, which may have changed in place.
    Keep,
    /// The content replaces the key's item.
    Put(Content),
    /// The key's item is removed.
    Remove,
}

/// All items of a server. See the [module](self) for its design.
#[derive(Debug)]
pub struct Cache {
    shards: Box<[Shard]>,
    budget: Budget,
    footprint: Footprint,
    evict: bool,
    flushes: Flushes,
    /// The first shard that the next eviction examines.
    hand: AtomicUsize,
    /// The approximate time in seconds, by [`now_ms`]. The reaper updates it.
    now_s: AtomicU32,
}

impl Cache {
    /// An empty cache.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        let cache = Self {
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
            budget: Budget::new(limits.memory_bytes),
            footprint: Footprint::new(),
            evict: limits.evict,
            flushes: Flushes::default(),
            hand: AtomicUsize::new(0),
            now_s: AtomicU32::new(0),
        };
        cache.tick();
        cache
    }

    /// Reads the key's item under the lock. `visit` may change anything except the item's length.
    /// The visit counts as a use if `visit` calls [`Item::mark_used`].
    pub fn with<R>(&self, key: &[u8], visit: impl FnOnce(&mut Item) -> R) -> Option<R> {
        let hashed = Hashed::new(hash_of(key));
        let (result, dead) = self.shard(hashed).with(hashed, key, &self.now(), visit);
        self.free(dead);
        result
    }

    /// Changes one key under its lock. `change` receives the key's item, if there is one, and a new
    /// CAS value. If memory must first be freed for the content that `change` puts, `change` runs
    /// again. It must therefore change nothing in place when it puts a content.
    ///
    /// # Errors
    /// There is no memory for the content that `change` puts. The key keeps its item.
    pub fn update<R>(
        &self,
        key: &[u8],
        mut change: impl FnMut(Option<&mut Item>, u64) -> (Change, R),
    ) -> Result<R, OutOfMemory> {
        let hashed = Hashed::new(hash_of(key));
        let mut reserved = self.budget.reserve(0)?;
        for _ in 0..ATTEMPTS_MAX {
            let outcome = self.shard(hashed).update(hashed, key, &self.now(), &mut reserved, &mut change);
            self.free(outcome.dead);
            match outcome.result {
                Ok(result) => return Ok(result),
                Err(lacking) => self.make_room(&mut reserved, lacking.bytes)?,
            }
        }
        Err(OutOfMemory)
    }

    /// Removes all items, now or at a future time by [`now_ms`]. A later call replaces a pending one. Items
    /// become invisible at once; their memory is freed step by step.
    pub fn flush(&self, due_ms: Option<u64>) {
        self.flushes.flush(due_ms);
    }

    /// Bytes of all items.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.budget.taken_bytes()
    }

    /// Bytes that all items may take.
    #[must_use]
    pub fn memory_bytes_max(&self) -> usize {
        self.budget.limit_bytes()
    }

    /// Changes the bytes that all items may take. If they have more, the reaper evicts some.
    pub fn set_memory_bytes_max(&self, bytes: usize) {
        self.budget.set_limit(bytes);
    }

    /// Number of items, including expired ones that have not been removed yet.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shards.iter().map(Shard::len).sum()
    }

    /// Whether there are no items.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Counters since the start. Locks one shard after the other.
    #[must_use]
    pub fn stats(&self) -> CacheStats {
        self.shards.iter().fold(CacheStats::default(), |sum, shard| sum.plus(shard.stats()))
    }

    /// The approximate time in seconds, by [`now_ms`].
    #[must_use]
    pub fn now_s(&self) -> u32 {
        self.now_s.load(Ordering::Relaxed)
    }

    fn tick(&self) {
        let now_s = u32::try_from(now_ms() / 1000).unwrap_or(u32::MAX);
        self.now_s.store(now_s, Ordering::Relaxed);
    }

    fn shard(&self, hashed: Hashed) -> &Shard {
        &self.shards[hashed.shard]
    }

    fn now(&self) -> Now {
        Now { epoch: self.flushes.epoch(), now_s: self.now_s() }
    }

    /// Drops an item or content that has left its shard, and frees its memory.
    fn free(&self, dead: Option<Dead>) {
        if let Some(dead) = dead {
            let bytes = dead.memory_bytes;
            drop(dead);
            self.budget.give(bytes);
            self.footprint.count_freed(bytes, &self.budget);
        }
    }
}

#[cfg(test)]
mod tests;
