//! The thread that frees the memory of expired and flushed items that no request touches, and closes gaps
//! between items.
//!
//! It skips shards without expired items and examines a bounded number of slots per round. Even a
//! cache of many short-lived items thus costs it only a few per cent of a core. Correctness does
//! not depend on the reaper: requests do not see expired items, and eviction removes them too.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use psp_store::Periodic;

use super::footprint::Compaction;
use super::{Cache, SHARDS};

/// Time between two rounds.
const ROUND: Duration = Duration::from_millis(100);
/// Slots examined under one lock.
const SLOTS_PER_LOCK: usize = 64;
/// Locks per round under which slots were examined.
const LOCKS_PER_ROUND: usize = 1024;

/// A running reaper. It ends when this value is dropped.
#[derive(Debug)]
pub struct Reaper {
    _thread: Periodic,
}

impl Reaper {
    /// Starts the reaper of `cache`.
    ///
    /// # Errors
    /// The system refuses to start a thread.
    pub fn start(cache: Arc<Cache>) -> io::Result<Self> {
        let mut hand = 0;
        let mut compaction = Compaction::default();
        let round = move || {
            cache.tick();
            hand = cache.reap(hand);
            cache.tighten(&mut compaction);
        };
        Ok(Self { _thread: Periodic::start("psp-reaper", ROUND, round)? })
    }
}

impl Cache {
    /// Runs one round from the shard `hand` on. Returns the shard at which the next round starts.
    pub(super) fn reap(&self, mut hand: usize) -> usize {
        let mut locks = 0;
        for _ in 0..SHARDS {
            while let Some(dead) = self.shards[hand].reap(SLOTS_PER_LOCK, &self.now()) {
                dead.into_iter().for_each(|dead| self.free(Some(dead)));
                locks += 1;
                if locks == LOCKS_PER_ROUND {
                    return hand;
                }
            }
            hand = (hand + 1) % SHARDS;
        }
        hand
    }
}
