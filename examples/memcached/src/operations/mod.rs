//! What commands of all three protocols do to the cache, without a word of any protocol.

mod arithmetic;
mod fetch;
mod removal;
mod storage;

pub use arithmetic::{Arithmetic, Computed, Number, Vivify};
pub use fetch::{Fetch, Fetched, Found};
pub use removal::{Delete, Deleted};
pub use storage::{Condition, Store, Stored};

use crate::cache::Cache;
use crate::counters::{Counter, WorkerCounters};

/// The cache, as a worker uses it.
#[derive(Debug, Clone, Copy)]
pub struct Operations<'a> {
    /// All items.
    pub cache: &'a Cache,
    /// The worker's counters.
    pub counters: &'a WorkerCounters,
    /// Longest item, as [`data_len_max`](psp_protocols::memcached::data_len_max) counts it.
    pub item_len_max: usize,
}

impl Operations<'_> {
    /// Counts a hit or a miss, and one of the commands that these belong to.
    fn count(&self, command: Option<Counter>, hit: bool, counters: [Counter; 2]) {
        let [hits, misses] = counters;
        if let Some(command) = command {
            self.counters.count(command);
        }
        self.counters.count(if hit { hits } else { misses });
    }

    /// Counts a key that was asked for.
    pub fn count_get(&self, hit: bool) {
        let counters = [Counter::GetHits, Counter::GetMisses];
        self.count(Some(Counter::CmdGet), hit, counters);
    }

    /// Counts a key whose expiration time was to be set.
    pub fn count_touch(&self, hit: bool) {
        let counters = [Counter::TouchHits, Counter::TouchMisses];
        self.count(Some(Counter::CmdTouch), hit, counters);
    }

    /// Counts a deletion.
    fn count_delete(&self, hit: bool) {
        self.count(None, hit, [Counter::DeleteHits, Counter::DeleteMisses]);
    }
}

#[cfg(test)]
mod tests;
