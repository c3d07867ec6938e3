//! Databases that exchange their keys, and walks that go on meanwhile.
//!
//! A *content* is all keys of a database, wherever they are. Content n begins in database n. A swap locks all shards of
//! both databases and exchanges what they hold, shard by shard, so that every other operation sees it before the swap
//! or after it. What walks over a database shard by shard without a lock follows the content with which it began:
//!
//! ```text
//!              shard 0   1   2   3 ..                     0   1   2   3 ..
//!   database 0       A   A   A   A      swap ─►           B   B   B   B
//!   database 1       B   B   B   B                        A   A   A   A
//!                    └───┴─► KEYS of database 0 ──────────────────┴───┴─►
//! ```

use std::sync::atomic::{AtomicU64, Ordering, fence};

use crate::keyspace::{Keyspace, SHARDS, Shard, State};
use crate::locks::ShardLocks;

/// How often a database was swapped, twice; odd during a swap.
#[derive(Debug, Default)]
pub(crate) struct Swaps(AtomicU64);

impl Swaps {
    fn now(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Whether there was no swap since. What the caller read of the shards before is as it was then.
    fn are_still(&self, swaps: u64) -> bool {
        fence(Ordering::Acquire);
        self.0.load(Ordering::Relaxed) == swaps
    }

    /// A swap begins or ends. All shards are locked.
    fn step(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
        fence(Ordering::Release);
    }

    /// Reads the counters of shards, all before a swap or all after it.
    pub(crate) fn consistent<R>(&self, read: impl Fn() -> R) -> R {
        loop {
            let swaps = self.now();
            let result = read();
            if swaps.is_multiple_of(2) && self.are_still(swaps) {
                return result;
            }
            // A swap takes some ten microseconds.
            std::thread::yield_now();
        }
    }
}

/// A walk over the content that a keyspace has at its begin.
#[derive(Debug)]
pub(crate) struct Walk<'k> {
    keyspace: &'k Keyspace,
    content: u32,
    swaps: u64,
}

impl Walk<'_> {
    /// Whether the content has nothing in this shard. A content that has moved is looked at.
    pub(crate) fn is_empty(&self, index: usize) -> bool {
        self.keyspace.shards[index].len.load(Ordering::Relaxed) == 0 && self.keyspace.swaps.are_still(self.swaps)
    }

    /// Locks a shard of the content.
    pub(crate) fn visit<R>(&self, index: usize, visit: impl FnOnce(&Shard, &mut State) -> R) -> R {
        let mut visit = Some(visit);
        if let Some(result) = self.visit_in(&self.keyspace.shards, index, &mut visit) {
            return result;
        }
        // It may move on between two looks.
        loop {
            let all = self.keyspace.shared.roots.read().clone();
            let found = all.iter().find_map(|shards| self.visit_in(shards, index, &mut visit));
            if let Some(result) = found {
                return result;
            }
        }
    }

    /// Calls `visit` if these shards hold the content.
    fn visit_in<R>(
        &self,
        shards: &[Shard],
        index: usize,
        visit: &mut Option<impl FnOnce(&Shard, &mut State) -> R>,
    ) -> Option<R> {
        let shard = &shards[index];
        let mut state = shard.state.lock();
        if state.content != self.content {
            return None;
        }
        visit.take().map(|visit| visit(shard, &mut state))
    }
}

impl Keyspace {
    /// A walk over the keys that are here now.
    pub(crate) fn walk(&self) -> Walk<'_> {
        let swaps = self.swaps.now();
        let content = self.shards[0].state.lock().content;
        Walk { keyspace: self, content, swaps }
    }

    /// Exchanges the contents of two databases, all of whose shards are locked.
    pub(crate) fn swap_locked(&self, other: &Self, locks: &mut ShardLocks<'_>) {
        self.swaps.step();
        other.swaps.step();
        let numbers = [self.number(), other.number()];
        for index in 0..SHARDS {
            let [mine, theirs] = locks.pair_mut(numbers.map(|number| (number, index)));
            std::mem::swap(mine, theirs);
            std::mem::swap(&mut mine.absences, &mut theirs.absences);
            mine.end_absences();
            theirs.end_absences();
            self.shards[index].publish(mine, 1);
            other.shards[index].publish(theirs, 1);
        }
        let len_max = self.key_len_max().max(other.key_len_max());
        for keyspace in [self, other] {
            keyspace.key_len_max.fetch_max(len_max, Ordering::Relaxed);
            keyspace.swaps.step();
        }
    }
}
