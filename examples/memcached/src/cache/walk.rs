//! A walk over all items.

use psp_server::{checkpoint, is_abandoned};

use super::{Cache, Item};

/// Slots examined under one lock.
const SLOTS_PER_LOCK: usize = 64;

impl Cache {
    /// Calls `visit` for every live item. It holds no lock meanwhile, and visits an item that is
    /// present throughout exactly once. After every 64 slots, other requests may run on the worker.
    /// Stops if the client that asks has gone.
    pub fn for_each(&self, mut visit: impl FnMut(&Item)) {
        let mut found = Vec::with_capacity(SLOTS_PER_LOCK);
        for shard in &self.shards {
            let mut next = Some(0);
            while let Some(start) = next {
                next = shard.copy(start, SLOTS_PER_LOCK, &self.now(), &mut found);
                found.drain(..).for_each(|item| visit(&item));
                checkpoint();
                if is_abandoned() {
                    return;
                }
            }
        }
    }
}
