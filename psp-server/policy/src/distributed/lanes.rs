//! Lanes of a worker's own queue.
//!
//! A policy has one lane for all types, or one for each. A set of lanes is one word, so there are at most 64: types
//! from the 64th slot on share the last lane.

/// Lanes that a worker's own queue has at most.
pub const LANES_MAX: usize = 64;

/// The lane of the type at `slot`, where each type has one.
#[must_use]
pub const fn lane_of(slot: usize) -> usize {
    if slot < LANES_MAX { slot } else { LANES_MAX - 1 }
}

/// Some lanes of a worker's own queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LaneSet(u64);

impl LaneSet {
    /// No lane.
    pub const NONE: Self = Self(0);
    /// Every lane.
    pub const ALL: Self = Self(u64::MAX);

    /// One lane.
    #[must_use]
    pub const fn of(lane: usize) -> Self {
        Self(1 << lane)
    }

    /// As one word.
    #[must_use]
    pub const fn word(self) -> u64 {
        self.0
    }

    /// From [`LaneSet::word`].
    #[must_use]
    pub const fn from_word(word: u64) -> Self {
        Self(word)
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether `lane` is one of them.
    #[must_use]
    pub const fn contains(self, lane: usize) -> bool {
        self.0 >> lane & 1 == 1
    }

    /// Those that are in both sets.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Those that are in either set.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The lanes, in ascending order.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        let rest = |&word: &u64| Some(word & word.wrapping_sub(1));
        std::iter::successors(Some(self.0), rest)
            .take_while(|&word| word != 0)
            .map(|word| word.trailing_zeros() as usize)
    }
}

impl FromIterator<usize> for LaneSet {
    fn from_iter<I: IntoIterator<Item = usize>>(lanes: I) -> Self {
        let add = |set: Self, lane| set.or(Self::of(lane));
        lanes.into_iter().fold(Self::NONE, add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_what_was_put_in() {
        let set: LaneSet = [3, 63, 0, 3].into_iter().collect();
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 3, 63]);
        assert!(set.contains(63) && !set.contains(1));
        assert_eq!(set.and(LaneSet::of(3)), LaneSet::of(3));
        assert!(LaneSet::NONE.is_empty() && LaneSet::ALL.contains(63));
        assert_eq!([0, 63, 64, 900].map(lane_of), [0, 63, 63, 63]);
    }
}
