//! Memory of all Lua states together: each may hold what it has leased.
//!
//! ```text
//!   bytes of all states = leased by each + free
//!   a state's lease     = what it holds + half of what is free then
//! ```
//!
//! So any number of scripts that grow at once stay within the budget, and one alone has half of it. A state leases anew
//! when it begins a script and each time that its hook counts instructions: it gives back what others need, and gets
//! what others have given back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mlua::Lua;
use psp_program::GroupMemory;

use crate::memory;

/// Bytes that a script may hold at most.
const SCRIPT_BYTES_MAX: usize = 256 << 20;
/// All states have this part of what a control group has for data and buffers, or of the machine's memory.
const PART_DIVISOR: u64 = 4;
/// What a state may allocate in any case.
const SLACK_BYTES_MIN: usize = 64 << 10;
/// A lease stays as it is while what it leaves free differs from what it would be by less than this part.
const TOLERANCE_DIVISOR: usize = 4;

/// What the Lua states of a server may hold together.
#[derive(Debug)]
pub(super) struct Budget {
    bytes: usize,
    leased_bytes: AtomicUsize,
    /// What the process may hold in its control group.
    process_bytes_max: Option<u64>,
}

impl Default for Budget {
    fn default() -> Self {
        let process_bytes_max = GroupMemory::get().map(|group| group.usable_bytes());
        let whole = process_bytes_max.or_else(memory::system_bytes);
        let part = whole.and_then(|bytes| usize::try_from(bytes / PART_DIVISOR).ok());
        Self::of(part.unwrap_or(2 * SCRIPT_BYTES_MAX), process_bytes_max)
    }
}

impl Budget {
    const fn of(bytes: usize, process_bytes_max: Option<u64>) -> Self {
        Self { bytes, leased_bytes: AtomicUsize::new(0), process_bytes_max }
    }

    /// Whether states have more than their half. Then a new one is not made, and one that ends is not kept.
    pub(super) fn is_short(&self) -> bool {
        self.leased_bytes.load(Ordering::Relaxed) > self.bytes / 2
    }

    /// The lease of a state that holds `used_bytes` and has leased `own_bytes`, if all have leased `leased_bytes`.
    fn fitting(&self, used_bytes: usize, own_bytes: usize, leased_bytes: usize) -> usize {
        let others_bytes = leased_bytes.saturating_sub(own_bytes);
        let free_bytes = self.bytes.saturating_sub(others_bytes).saturating_sub(used_bytes);
        let bytes_max = SCRIPT_BYTES_MAX.min(self.bytes / 2);
        let slack_bytes = (free_bytes / 2).min(bytes_max.saturating_sub(used_bytes));
        used_bytes + slack_bytes.max(SLACK_BYTES_MIN)
    }

    /// The most that a state may lease that holds `used_bytes`, so that the process does not hold too much.
    fn growth_max(&self, used_bytes: usize) -> usize {
        let Some(bytes_max) = self.process_bytes_max else {
            return usize::MAX;
        };
        let room_bytes = bytes_max.saturating_sub(memory::allocated_bytes()) / 2;
        let room_bytes = usize::try_from(room_bytes).unwrap_or(usize::MAX);
        used_bytes.saturating_add(room_bytes.max(SLACK_BYTES_MIN))
    }
}

/// What one state has leased.
#[derive(Debug)]
pub(super) struct Share {
    budget: Arc<Budget>,
    /// Only the state's own thread writes it.
    bytes: AtomicUsize,
}

impl Share {
    /// Nothing yet.
    pub(super) const fn new(budget: Arc<Budget>) -> Self {
        Self { budget, bytes: AtomicUsize::new(0) }
    }

    /// Leases anew for what `lua` holds.
    ///
    /// # Errors
    /// `lua` has no limit.
    pub(super) fn fit(&self, lua: &Lua) -> mlua::Result<()> {
        match self.lease(lua.used_memory()) {
            None => Ok(()),
            Some(bytes) => lua.set_memory_limit(bytes).map(drop),
        }
    }

    /// Keeps only what `lua` holds.
    pub(super) fn shrink(&self, lua: &Lua) {
        self.set(lua.used_memory());
    }

    /// The new lease of a state that holds `used_bytes`, if it is another.
    fn lease(&self, used_bytes: usize) -> Option<usize> {
        let Budget { leased_bytes, .. } = &*self.budget;
        let own_bytes = self.bytes.load(Ordering::Relaxed);
        let mut all_bytes = leased_bytes.load(Ordering::Relaxed);
        let mut growth_max = None;
        loop {
            let mut bytes = self.budget.fitting(used_bytes, own_bytes, all_bytes);
            let slack_bytes = own_bytes.saturating_sub(used_bytes);
            if own_bytes > used_bytes && bytes.abs_diff(own_bytes) <= slack_bytes / TOLERANCE_DIVISOR {
                return None;
            }
            if bytes > own_bytes {
                // The allocator takes microseconds to add up its figures: only once.
                let growth_max = *growth_max.get_or_insert_with(|| self.budget.growth_max(used_bytes));
                bytes = bytes.min(growth_max);
            }
            let changed_bytes = (all_bytes + bytes).saturating_sub(own_bytes);
            match leased_bytes.compare_exchange_weak(all_bytes, changed_bytes, Ordering::Relaxed, Ordering::Relaxed) {
                Err(other) => all_bytes = other,
                Ok(_) => {
                    self.bytes.store(bytes, Ordering::Relaxed);
                    return Some(bytes);
                }
            }
        }
    }

    fn set(&self, bytes: usize) {
        let before = self.bytes.swap(bytes, Ordering::Relaxed);
        let leased_bytes = &self.budget.leased_bytes;
        if bytes > before {
            leased_bytes.fetch_add(bytes - before, Ordering::Relaxed);
        } else {
            leased_bytes.fetch_sub(before - bytes, Ordering::Relaxed);
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BYTES: usize = 64 << 20;

    #[test]
    fn one_alone_has_half() {
        let share = Share::new(Arc::new(Budget::of(BYTES, None)));
        assert_eq!(share.lease(100 << 10), Some(BYTES / 2));
        assert_eq!(share.lease(20 << 20), None);
        assert!(!share.budget.is_short());
    }

    #[test]
    fn what_others_give_back_may_be_leased() {
        let budget = Arc::new(Budget::of(BYTES, None));
        let held = Share::new(Arc::clone(&budget));
        held.set(48 << 20);
        assert!(budget.is_short());
        let share = Share::new(Arc::clone(&budget));
        assert_eq!(share.lease(0), Some(8 << 20));
        drop(held);
        assert_eq!(share.lease(1 << 20), Some(BYTES / 2));
        drop(share);
        assert_eq!(budget.leased_bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn nothing_grows_where_the_process_holds_too_much() {
        let share = Share::new(Arc::new(Budget::of(BYTES, Some(0))));
        assert_eq!(share.lease(1 << 20), Some((1 << 20) + SLACK_BYTES_MIN));
    }

    proptest! {
        #[test]
        fn states_that_use_their_leases_stay_within_the_budget(
            steps in proptest::collection::vec((0..20_usize, 0..=100_usize), 1..400),
        ) {
            let budget = Arc::new(Budget::of(BYTES, None));
            let mut states: Vec<(Share, usize)> = (0..20).map(|_| (Share::new(Arc::clone(&budget)), 0)).collect();
            for (index, percent) in steps {
                let (share, used_bytes) = &mut states[index];
                let lease = share.lease(*used_bytes);
                let bytes = share.bytes.load(Ordering::Relaxed);
                prop_assert!(lease.is_none_or(|lease| lease == bytes));
                prop_assert!(bytes >= *used_bytes);
                *used_bytes = bytes / 100 * percent;
                let all: usize = states.iter().map(|(share, _)| share.bytes.load(Ordering::Relaxed)).sum();
                prop_assert_eq!(all, budget.leased_bytes.load(Ordering::Relaxed));
                prop_assert!(all <= BYTES + states.len() * 4 * SLACK_BYTES_MIN, "{}", all);
            }
        }
    }
}
