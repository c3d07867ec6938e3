//! All items one after the other.

use psp_server::checkpoint;

use super::{Cache, Item};

/// Places that are looked at under one lock.
const PLACES_PER_LOCK: usize = 64;

impl Cache {
    /// Calls `visit` for every live item, with no lock held. An item that is there throughout is
    /// visited exactly once. Other requests may have the worker after every 64 places.
    pub fn for_each(&self, mut visit: impl FnMut(&Item)) {
        let mut found = Vec::with_capacity(PLACES_PER_LOCK);
        for shard in &self.shards {
            let mut place = Some(0);
            while let Some(start) = place {
                place = shard.copy(start, PLACES_PER_LOCK, &self.now(), &mut found);
                found.drain(..).for_each(|item| visit(&item));
                checkpoint();
            }
        }
    }
}
