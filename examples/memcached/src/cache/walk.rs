//! A walk over all items.

use std::ops::ControlFlow;

use psp_server::{checkpoint, is_abandoned};

use super::{Cache, Item};

/// Slots examined under one lock.
const SLOTS_PER_LOCK: usize = 64;

impl Cache {
    /// Calls `visit` for every live item, as [`walk`](Self::walk) does.
    pub fn for_each(&self, mut visit: impl FnMut(&Item)) {
        self.walk(|item| {
            visit(item);
            ControlFlow::Continue(())
        });
    }

    /// Calls `visit` for live items until it has enough. It holds no lock meanwhile, and visits an item that is
    /// present throughout exactly once. After every 64 slots, other requests may run on the worker.
    /// Stops if the client that asks has gone.
    pub fn walk(&self, mut visit: impl FnMut(&Item) -> ControlFlow<()>) {
        let mut found = Vec::with_capacity(SLOTS_PER_LOCK);
        for shard in &self.shards {
            let _stay = shard.walk();
            let mut next = Some(0);
            while let Some(start) = next {
                next = shard.copy(start, SLOTS_PER_LOCK, &self.now(), &mut found);
                let walked = found.drain(..).try_for_each(|item| visit(&item));
                checkpoint();
                if walked.is_break() || is_abandoned() {
                    return;
                }
            }
        }
    }
}
