//! Keeps the memory of the process, not only that of the items, near the limit.
//!
//! Items of changing sizes leave gaps between them that fit no other item. Three measures hold the gaps down:
//!
//! ```text
//!   gaps beyond ...    measure
//!   half of the spare  the reaper copies items, which fills gaps and empties pages
//!   the spare          freed pages go back to the system at once;
//!                      then items get that much less of the limit, so that more are evicted
//! ```

use std::sync::atomic::{AtomicUsize, Ordering};

use super::budget::Budget;
use super::{Cache, SHARDS};
use crate::allocator::{Allocator, pack_this_thread};

/// Gaps that cost the items nothing, beside a share of the limit.
const SPARE_MIN: usize = 512 << 10;

/// The share of the limit that gaps may take beside the items: one part of so many.
const SPARE_PARTS: usize = 16;

/// The share of the limit that is freed between two looks at the gaps: one part of so many.
const LOOK_PARTS: usize = 32;

/// Fewest bytes that are freed between two looks.
const LOOK_MIN: usize = 512 << 10;

/// The share of the limit that the reaper copies in one round: one part of so many.
const COPY_PARTS: usize = 16;

/// Fewest bytes that the reaper copies in one round.
const COPY_MIN: usize = 1 << 20;

/// Bytes copied under one lock.
const COPY_PER_LOCK: usize = 64 << 10;

/// Rounds without copies after all items were copied in vain.
const ROUNDS_AFTER_FAILURE: u32 = 50;

/// Items that one round evicts at most.
const EVICTIONS_PER_ROUND: usize = 4096;

/// Watches the gaps between the items of a cache.
#[derive(Debug)]
pub(super) struct Footprint {
    allocator: Option<Allocator>,
    /// Bytes freed since the last look.
    freed: AtomicUsize,
}

/// Gaps that cost the items nothing.
const fn spare(limit: usize) -> usize {
    SPARE_MIN + limit / SPARE_PARTS
}

impl Footprint {
    pub(super) fn new() -> Self {
        Self { allocator: Allocator::new(), freed: AtomicUsize::new(0) }
    }

    /// Looks at the gaps when enough was freed since the last look.
    pub(super) fn count_freed(&self, bytes: usize, budget: &Budget) {
        let freed = self.freed.fetch_add(bytes, Ordering::Relaxed) + bytes;
        // Of the threads that find so much freed, one looks.
        if freed >= LOOK_MIN.max(budget.limit_bytes() / LOOK_PARTS)
            && self.freed.compare_exchange(freed, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            self.look(budget);
        }
    }

    /// Measures the gaps, and takes what exceeds the spare from the items.
    fn look(&self, budget: &Budget) {
        let Some(allocator) = &self.allocator else {
            return;
        };
        let limit = budget.limit_bytes();
        let mut gaps = allocator.usage().gaps();
        if gaps > spare(limit) {
            allocator.purge();
            gaps = allocator.usage().gaps();
        }
        budget.cede(ceded(gaps, spare(limit), limit));
    }
}

/// Bytes of the limit that gaps take from the items, which keep a quarter in any case.
fn ceded(gaps: usize, spare: usize, limit: usize) -> usize {
    gaps.saturating_sub(spare).min(limit / 4 * 3)
}

/// The reaper's progress in copying items.
#[derive(Debug, Default)]
pub(super) struct Compaction {
    shard: usize,
    slot: usize,
    /// Gaps when the pass over all items began.
    gaps_before: usize,
    /// Rounds to wait.
    pause: u32,
    packs: bool,
}

impl Cache {
    /// Runs one round of the measures against gaps.
    pub(super) fn tighten(&self, compaction: &mut Compaction) {
        let Some(allocator) = &self.footprint.allocator else {
            return;
        };
        if !compaction.packs {
            pack_this_thread();
            compaction.packs = true;
        }
        self.footprint.look(&self.budget);
        self.evict_excess();
        compaction.pause = compaction.pause.saturating_sub(1);
        let gaps = allocator.usage().gaps_in_pages();
        if compaction.pause == 0 && gaps > spare(self.budget.limit_bytes()) / 2 {
            self.copy_items(compaction, gaps);
        }
    }

    fn evict_excess(&self) {
        for _ in 0..EVICTIONS_PER_ROUND {
            if !self.evict || !self.budget.is_overdrawn() || !self.evict_one() {
                return;
            }
        }
    }

    /// Copies some items to fresh memory, which is where the allocator's pages are fullest.
    fn copy_items(&self, compaction: &mut Compaction, gaps: usize) {
        let mut left = COPY_MIN.max(self.budget.limit_bytes() / COPY_PARTS);
        if (compaction.shard, compaction.slot) == (0, 0) {
            compaction.gaps_before = gaps;
        }
        while left > 0 {
            let shard = &self.shards[compaction.shard];
            let (next, copied) = shard.relocate(compaction.slot, COPY_PER_LOCK.min(left));
            left = left.saturating_sub(copied);
            compaction.slot = next.unwrap_or(0);
            compaction.shard += usize::from(next.is_none());
            if compaction.shard == SHARDS {
                compaction.shard = 0;
                // At least a quarter less, or new gaps come as fast as old ones go.
                if gaps > compaction.gaps_before / 4 * 3 {
                    compaction.pause = ROUNDS_AFTER_FAILURE;
                }
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_beyond_the_spare_take_from_the_items_up_to_three_quarters() {
        for (gaps, expected) in [(0, 0), (10, 0), (11, 1), (50, 40), (1000, 75)] {
            assert_eq!(ceded(gaps, 10, 100), expected);
        }
    }
}
