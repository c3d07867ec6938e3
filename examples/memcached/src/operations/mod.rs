//! The effects of commands on the cache, independent of the three protocols.

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

/// The cache with the worker's counters.
#[derive(Debug, Clone, Copy)]
pub struct Operations<'a> {
    /// All items.
    pub cache: &'a Cache,
    /// The worker's counters.
    pub counters: &'a WorkerCounters,
    /// Longest item, counted as in [`data_len_max`](psp_protocols::memcached::data_len_max).
    pub item_len_max: usize,
}

impl Operations<'_> {
    /// Counts a hit or a miss, and a command of the kind given.
    fn count(&self, command: Option<Counter>, hit: bool, counters: [Counter; 2]) {
        let [hits, misses] = counters;
        if let Some(command) = command {
            self.counters.count(command);
        }
        self.counters.count(if hit { hits } else { misses });
    }

    /// Counts a requested key.
    pub fn count_get(&self, hit: bool) {
        let counters = [Counter::GetHits, Counter::GetMisses];
        self.count(Some(Counter::CmdGet), hit, counters);
    }

    /// Counts a request to set a key's expiration time.
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
