//! Watched keys of a shard that do not exist: which of them came, even if they are gone again.
//!
//! An entry tells by itself whether it is still the one that was watched. A key without one has a flag here, which all
//! its watchers share.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a key has come since it was watched.
pub(crate) type Came = Arc<AtomicBool>;

/// The flags of one shard, by the positions of the keys.
#[derive(Debug, Default)]
pub(crate) struct Absences(BTreeMap<u64, Came>);

impl Absences {
    /// A key at this position is watched, and does not exist.
    pub(crate) fn watch(&mut self, position: u64) -> Came {
        Arc::clone(self.0.entry(position).or_default())
    }

    /// A key at this position came.
    #[inline]
    pub(crate) fn end(&mut self, position: u64) {
        if !self.0.is_empty()
            && let Some(came) = self.0.remove(&position)
        {
            came.store(true, Ordering::Relaxed);
        }
    }

    /// The keys of which `has_come` came.
    pub(crate) fn end_those(&mut self, has_come: impl Fn(u64) -> bool) {
        self.0.retain(|position, came| {
            let stays = !has_come(*position);
            came.fetch_or(!stays, Ordering::Relaxed);
            stays
        });
    }

    /// One of the watchers with this flag looks no more. Without others the flag goes.
    pub(crate) fn unwatch(&mut self, position: u64, came: &Came) {
        // The watcher's own reference, and the one in here.
        let is_last = Arc::strong_count(came) <= 2;
        if is_last && self.0.get(&position).is_some_and(|flag| Arc::ptr_eq(flag, came)) {
            self.0.remove(&position);
        }
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
