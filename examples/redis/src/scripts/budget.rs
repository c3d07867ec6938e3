//! Memory of all Lua states together: each may hold what it has leased.
//!
//! ```text
//!   bytes of all states = leased by each + free
//!   a state's lease     = what it holds + half of what is free then
//! ```
//!
//! So any number of scripts that grow at once stay within the budget, and one alone has half of it. A state leases anew
//! when it begins a script and each time that its hook counts instructions: it gives back what others need, and gets
//! what others have given back. A few kilobytes are left to each state, whatever others hold.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mlua::Lua;
use psp_program::GroupMemory;

use crate::memory;

/// Bytes that a script may hold at most.
const SCRIPT_BYTES_MAX: usize = 256 << 20;
/// All states have this part of what a control group has for data and buffers, or of the machine's memory.
const PART_DIVISOR: u64 = 4;
/// What a state may hold in any case: it has libraries, and a short script.
const LEASE_BYTES_MIN: usize = 192 << 10;
/// A lease stays as it is while what it leaves free differs from what it would be by less than this part.
const TOLERANCE_DIVISOR: usize = 4;

/// What the Lua states of a server may hold together.
#[derive(Debug)]
pub(super) struct Budget {
    bytes: usize,
    leased_bytes: AtomicUsize,
    /// What states held when they last leased.
    held_bytes: AtomicUsize,
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
        Self {
            bytes,
            leased_bytes: AtomicUsize::new(0),
            held_bytes: AtomicUsize::new(0),
            process_bytes_max,
        }
    }

    /// Whether states hold more than half. Then a new one is not made, and one that ends is not kept.
    pub(super) fn is_short(&self) -> bool {
        self.held_bytes.load(Ordering::Relaxed) > self.bytes / 2
    }

    /// The lease of a state that holds `used_bytes` and has leased `own_bytes`, if all have leased `leased_bytes`.
    fn fitting(&self, used_bytes: usize, own_bytes: usize, leased_bytes: usize) -> usize {
        let others_bytes = leased_bytes.saturating_sub(own_bytes);
        let free_bytes = self.bytes.saturating_sub(others_bytes).saturating_sub(used_bytes);
        let bytes_max = SCRIPT_BYTES_MAX.min(self.bytes / 2);
        (used_bytes + free_bytes / 2).min(bytes_max).max(LEASE_BYTES_MIN)
    }

    /// The most that a state may lease that holds `used_bytes`, so that the process does not hold too much.
    fn growth_max(&self, used_bytes: usize) -> usize {
        let Some(bytes_max) = self.process_bytes_max else {
            return usize::MAX;
        };
        let room_bytes = bytes_max.saturating_sub(memory::allocated_bytes()) / 2;
        let room_bytes = usize::try_from(room_bytes).unwrap_or(usize::MAX);
        used_bytes.saturating_add(room_bytes).max(LEASE_BYTES_MIN)
    }
}

/// What one state has leased.
#[derive(Debug)]
pub(super) struct Share {
    budget: Arc<Budget>,
    /// Only the state's own thread writes these.
    bytes: AtomicUsize,
    held_bytes: AtomicUsize,
}

impl Share {
    /// Nothing yet.
    pub(super) const fn new(budget: Arc<Budget>) -> Self {
        Self {
            budget,
            bytes: AtomicUsize::new(0),
            held_bytes: AtomicUsize::new(0),
        }
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
        let used_bytes = lua.used_memory();
        self.hold(used_bytes);
        change(&self.bytes, &self.budget.leased_bytes, used_bytes);
    }

    fn hold(&self, used_bytes: usize) {
        change(&self.held_bytes, &self.budget.held_bytes, used_bytes);
    }

    /// The new lease of a state that holds `used_bytes`, if it is another.
    fn lease(&self, used_bytes: usize) -> Option<usize> {
        let Budget { leased_bytes, .. } = &*self.budget;
        self.hold(used_bytes);
        let own_bytes = self.bytes.load(Ordering::Relaxed);
        let mut all_bytes = leased_bytes.load(Ordering::Relaxed);
        let mut growth_max = None;
        loop {
            let mut bytes = self.budget.fitting(used_bytes, own_bytes, all_bytes);
            let slack_bytes = own_bytes.saturating_sub(used_bytes);
            if own_bytes > 0 && bytes.abs_diff(own_bytes) <= slack_bytes / TOLERANCE_DIVISOR {
                return None;
            }
            if bytes > own_bytes {
                // The allocator takes microseconds to add up its figures: only once.
                let growth_max = *growth_max.get_or_insert_with(|| self.budget.growth_max(used_bytes));
                bytes = bytes.min(growth_max.max(own_bytes));
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
}

impl Drop for Share {
    fn drop(&mut self) {
        self.hold(0);
        change(&self.bytes, &self.budget.leased_bytes, 0);
    }
}

/// Changes a part of a sum to `bytes`.
fn change(part: &AtomicUsize, sum: &AtomicUsize, bytes: usize) {
    let before = part.swap(bytes, Ordering::Relaxed);
    if bytes > before {
        sum.fetch_add(bytes - before, Ordering::Relaxed);
    } else {
        sum.fetch_sub(before - bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BYTES: usize = 64 << 20;

    /// A state that holds, and has leased, so much.
    fn holding(budget: &Arc<Budget>, bytes: usize) -> Share {
        let share = Share::new(Arc::clone(budget));
        share.hold(bytes);
        change(&share.bytes, &budget.leased_bytes, bytes);
        share
    }

    #[test]
    fn one_alone_has_half_and_never_more() {
        let share = Share::new(Arc::new(Budget::of(BYTES, None)));
        assert_eq!(share.lease(100 << 10), Some(BYTES / 2));
        for _ in 0..10_000 {
            assert_eq!(share.lease(BYTES / 2), None);
        }
        assert!(!share.budget.is_short());
    }

    #[test]
    fn what_others_give_back_may_be_leased() {
        let budget = Arc::new(Budget::of(BYTES, None));
        let held = holding(&budget, 48 << 20);
        assert!(budget.is_short());
        let share = Share::new(Arc::clone(&budget));
        assert_eq!(share.lease(0), Some(8 << 20));
        drop(held);
        assert!(!budget.is_short());
        assert_eq!(share.lease(1 << 20), Some(BYTES / 2));
        drop(share);
        assert_eq!(budget.leased_bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn nothing_grows_where_the_process_holds_too_much_or_others_hold_all() {
        for budget in [Budget::of(BYTES, Some(0)), Budget::of(BYTES, None)] {
            let budget = Arc::new(budget);
            let _all = holding(&budget, BYTES);
            let share = Share::new(budget);
            assert_eq!(share.lease(1 << 10), Some(LEASE_BYTES_MIN));
            for _ in 0..10_000 {
                assert!(share.lease(LEASE_BYTES_MIN).is_none_or(|lease| lease == LEASE_BYTES_MIN));
            }
        }
    }

    #[test]
    fn short_scripts_leave_room_for_others() {
        let budget = Arc::new(Budget::of(BYTES, None));
        let shares: Vec<_> = (0..100).map(|_| Share::new(Arc::clone(&budget))).collect();
        assert!(shares.iter().all(|share| share.lease(100 << 10).is_some()));
        assert!(!budget.is_short());
    }

    proptest! {
        #[test]
        fn states_that_use_their_leases_stay_within_the_budget(
            steps in proptest::collection::vec((0..20_usize, 50..=100_usize), 1..1000),
        ) {
            let budget = Arc::new(Budget::of(BYTES, None));
            let mut states: Vec<(Share, usize)> = (0..20).map(|_| (Share::new(Arc::clone(&budget)), 0)).collect();
            for (index, percent) in steps {
                let (share, used_bytes) = &mut states[index];
                let lease = share.lease(*used_bytes);
                let bytes = share.bytes.load(Ordering::Relaxed);
                prop_assert!(lease.is_none_or(|lease| lease == bytes));
                *used_bytes = bytes / 100 * percent;
                let all: usize = states.iter().map(|(share, _)| share.bytes.load(Ordering::Relaxed)).sum();
                prop_assert_eq!(all, budget.leased_bytes.load(Ordering::Relaxed));
                prop_assert!(all <= BYTES + states.len() * LEASE_BYTES_MIN, "{}", all);
            }
        }
    }
}
