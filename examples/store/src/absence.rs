//! Watched keys of a shard that do not exist: which of them came, even if they are gone again.
//!
//! An entry tells by itself whether it is still the one that was watched. A key without one has a flag here, which all
//! its watchers share.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a key has come since it was watched.
pub(crate) type Came = Arc<AtomicBool>;

/// The flags of one shard, by the positions of the keys. Most shards have none, and a word for that.
#[derive(Debug, Default)]
#[expect(
    clippy::box_collection,
    reason = "a word in the place of three: a shard has no room for more"
)]
pub(crate) struct Absences(Option<Box<BTreeMap<u64, Came>>>);

impl Absences {
    /// A key at this position is watched, and does not exist.
    pub(crate) fn watch(&mut self, position: u64) -> Came {
        Arc::clone(self.0.get_or_insert_default().entry(position).or_default())
    }

    /// A key at this position came.
    #[inline]
    pub(crate) fn end(&mut self, position: u64) {
        if let Some(flags) = &mut self.0
            && let Some(came) = flags.remove(&position)
        {
            came.store(true, Ordering::Relaxed);
            self.forget_if_empty();
        }
    }

    /// The keys of which `has_come` came.
    pub(crate) fn end_those(&mut self, has_come: impl Fn(u64) -> bool) {
        if let Some(flags) = &mut self.0 {
            flags.retain(|position, came| {
                let stays = !has_come(*position);
                came.fetch_or(!stays, Ordering::Relaxed);
                stays
            });
            self.forget_if_empty();
        }
    }

    /// One of the watchers with this flag looks no more. Without others the flag goes.
    pub(crate) fn unwatch(&mut self, position: u64, came: &Came) {
        // The watcher's own reference, and the one in here.
        let is_last = Arc::strong_count(came) <= 2;
        if let Some(flags) = &mut self.0
            && is_last
            && flags.get(&position).is_some_and(|flag| Arc::ptr_eq(flag, came))
        {
            flags.remove(&position);
            self.forget_if_empty();
        }
    }

    fn forget_if_empty(&mut self) {
        self.0.take_if(|flags| flags.is_empty());
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}
