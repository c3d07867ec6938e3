//! Lanes of aged requests, which [`Grouped`](super::grouped) puts behind its typed queues: one per type slot of the
//! first level, then those of the next. Most are empty, so it is known which are not.

use crate::parts::plan::{AGED_LEVELS, Aging};
use crate::parts::waiting::Waiting;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct AgedLanes {
    slots: usize,
    /// How many aged requests wait.
    waiting: usize,
    /// How many wait in each lane.
    in_lanes: Vec<usize>,
    /// Per type slot: levels at which some wait.
    levels: Vec<Levels>,
}

/// Some of the levels of aged requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Levels(u32);

/// The aged requests of a group's types, as [`Grouped::aged_of`](super::grouped::Grouped::aged_of) finds them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AgedOf<'a> {
    pub(crate) aging: Aging,
    pub(crate) members: &'a [usize],
    /// Levels at which some wait.
    pub(crate) levels: Levels,
    /// Workers that are idle or asked to stop.
    pub(crate) coming: usize,
    /// The first of those that any worker may run, and its level. `None` if workers that come, beside those that stay
    /// idle, run all of these.
    pub(crate) anywhere: Option<(usize, &'a Waiting)>,
}

impl AgedLanes {
    /// For so many type slots, whose lanes they come behind.
    pub(crate) fn new(slots: usize) -> Self {
        Self {
            slots,
            waiting: 0,
            in_lanes: vec![0; Self::lanes(slots) - slots],
            levels: vec![Levels::default(); slots],
        }
    }

    /// Lanes of so many type slots, with those that come first.
    pub(crate) const fn lanes(slots: usize) -> usize {
        (1 + AGED_LEVELS) * slots
    }

    /// Where requests of a type wait that are of a level.
    #[inline]
    pub(crate) const fn lane(&self, level: usize, slot: usize) -> usize {
        (1 + level) * self.slots + slot
    }

    /// The type whose requests wait in `lane`, aged or not.
    pub(crate) const fn slot(&self, lane: usize) -> usize {
        lane % self.slots
    }

    /// Whether any aged request waits.
    #[inline]
    pub(crate) const fn any(&self) -> bool {
        self.waiting > 0
    }

    /// Levels at which requests of these types wait.
    #[inline]
    pub(crate) fn levels(&self, slots: impl Iterator<Item = usize>) -> Levels {
        Levels(slots.fold(0, |levels, slot| levels | self.levels[slot].0))
    }

    /// One more waits. Returns its lane.
    pub(crate) fn put(&mut self, level: usize, slot: usize) -> usize {
        let lane = self.lane(level, slot);
        self.waiting += 1;
        self.in_lanes[lane - self.slots] += 1;
        self.levels[slot].0 |= 1 << level;
        lane
    }

    /// One of `lane` waits no longer. Nothing happens if the lane is not one of these.
    #[inline]
    pub(crate) fn take(&mut self, lane: usize) {
        let Some(aged) = lane.checked_sub(self.slots) else {
            return;
        };
        self.waiting -= 1;
        self.in_lanes[aged] -= 1;
        if self.in_lanes[aged] == 0 {
            self.levels[aged % self.slots].0 &= !(1 << (aged / self.slots));
        }
    }
}

impl Levels {
    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The lowest first.
    #[inline]
    pub(crate) fn iter(self) -> impl Iterator<Item = usize> {
        (0..AGED_LEVELS).filter(move |level| self.0 & (1 << level) != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_those_at_which_some_wait() {
        let mut aged = AgedLanes::new(3);
        let levels = |aged: &AgedLanes, slots: &[usize]| {
            let levels = aged.levels(slots.iter().copied());
            levels.iter().collect::<Vec<_>>()
        };
        let all = [(2, 0), (AGED_LEVELS - 1, 2), (0, 0), (2, 0), (2, 1)];
        let lanes = all.map(|(level, slot)| aged.put(level, slot));
        assert_eq!(lanes, [9, AgedLanes::lanes(3) - 1, 3, 9, 10]);
        assert_eq!(lanes.map(|lane| aged.slot(lane)), [0, 2, 0, 0, 1]);
        assert_eq!(levels(&aged, &[0, 1, 2]), [0, 2, AGED_LEVELS - 1]);
        assert_eq!(levels(&aged, &[1]), [2]);
        aged.take(9);
        aged.take(3);
        // That of a type is no lane of aged requests.
        aged.take(2);
        assert_eq!(levels(&aged, &[0]), [2]);
        for lane in [9, 10, lanes[1]] {
            assert!(aged.any());
            aged.take(lane);
        }
        assert!(!aged.any() && aged.levels(0..3).is_empty());
    }
}
