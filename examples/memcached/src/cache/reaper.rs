//! The thread that gives back the memory of expired and flushed items though nobody asks for them.
//!
//! It passes over shards in which nothing can be expired, and over a bounded number of places each
//! time: a cache of many items with short lives keeps it from spending more than some per cent of a
//! core. Correctness does not depend on it, for whoever finds an expired item does not see it, and
//! eviction takes what is expired as well.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use psp_store::Periodic;

use super::{Cache, SHARDS};

/// Time between two rounds.
const ROUND: Duration = Duration::from_millis(100);
/// Places that are looked at under one lock.
const PLACES_PER_LOCK: usize = 64;
/// Locks of one round in which something was looked at.
const LOCKS_PER_ROUND: usize = 1024;

/// A running reaper; it ends when this is dropped.
#[derive(Debug)]
pub struct Reaper {
    _thread: Periodic,
}

impl Reaper {
    /// Starts the reaper of `cache`.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub fn start(cache: Arc<Cache>) -> io::Result<Self> {
        let mut hand = 0;
        let round = move || {
            cache.tick();
            hand = cache.reap(hand);
        };
        Ok(Self {
            _thread: Periodic::start("psp-reaper", ROUND, round)?,
        })
    }
}

impl Cache {
    /// One round, from the shard `hand` on; where the next one starts.
    pub(super) fn reap(&self, mut hand: usize) -> usize {
        let mut locks = 0;
        for _ in 0..SHARDS {
            while let Some(dead) = self.shards[hand].reap(PLACES_PER_LOCK, &self.now()) {
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
