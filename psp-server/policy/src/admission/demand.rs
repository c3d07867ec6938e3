//! What each type asks for, and what it is entitled to.
//!
//! A type asks for the workers' time that its arrivals take, refused ones included. Types share all workers fairly: a
//! type that asks for less than an equal part gets what it asks for, and the others share what is left in equal parts
//! (max-min fairness). A type's *entitlement* is what it would get so if it asked for all: its equal part, and whatever
//! others leave of theirs. Entitlements add up to more than there is as long as types ask for less.

use super::places::LEVELS;

/// How much of an average an interval's demand is.
const WEIGHT: f64 = 0.125;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Demand {
    /// Per type slot and level: service of the arrivals since the interval began, in nanoseconds, and as a part of all
    /// workers' time.
    arrived_ns: Vec<[f64; LEVELS]>,
    offered_by_level: Vec<[f64; LEVELS]>,
    /// Per type slot: that of all levels.
    offered: Vec<f64>,
    /// Per type slot: service given since the interval began, in nanoseconds, and as a part of all workers' time.
    served_ns: Vec<f64>,
    used: Vec<f64>,
    entitled: Vec<f64>,
    /// Slots by what they ask for.
    ascending: Vec<usize>,
    /// Intervals so far; the first ones weigh more.
    intervals: u32,
}

impl Demand {
    pub(super) fn new(slots: usize) -> Self {
        Self {
            arrived_ns: vec![[0.0; LEVELS]; slots],
            offered_by_level: vec![[0.0; LEVELS]; slots],
            offered: vec![0.0; slots],
            served_ns: vec![0.0; slots],
            used: vec![0.0; slots],
            entitled: vec![1.0; slots],
            ascending: (0..slots).collect(),
            intervals: 0,
        }
    }

    /// Requests arrived whose service takes so long.
    #[inline]
    pub(super) fn arrived(&mut self, slot: usize, level: usize, service_ns: f64) {
        self.arrived_ns[slot][level] += service_ns;
    }

    /// Requests ended that took so long.
    #[inline]
    pub(super) fn served(&mut self, slot: usize, service_ns: f64) {
        self.served_ns[slot] += service_ns;
    }

    /// Part of all workers' time that the type's arrivals ask for.
    pub(super) fn offered(&self, slot: usize) -> f64 {
        self.offered[slot]
    }

    /// The same of requests of this level and those above.
    pub(super) fn offered_above(&self, slot: usize, level: usize) -> f64 {
        self.offered_by_level[slot][..=level].iter().sum()
    }

    /// Part of all workers' time that the type has had.
    pub(super) fn used(&self, slot: usize) -> f64 {
        self.used[slot]
    }

    /// Part of all workers' time that all types have had.
    pub(super) fn used_by_all(&self) -> f64 {
        self.used.iter().sum::<f64>().min(1.0)
    }

    /// Part of all workers' time that the type may have.
    #[inline]
    pub(super) fn entitled(&self, slot: usize) -> f64 {
        self.entitled[slot]
    }

    /// An interval ended in which all workers together had so much time.
    pub(super) fn close(&mut self, workers_ns: f64) {
        self.intervals = self.intervals.saturating_add(1);
        let weight = WEIGHT.max(1.0 / f64::from(self.intervals));
        let average = |parts: &mut [f64], sums_ns: &mut [f64]| {
            for (part, sum_ns) in parts.iter_mut().zip(sums_ns) {
                *part += weight * (std::mem::take(sum_ns) / workers_ns - *part);
            }
        };
        average(self.offered_by_level.as_flattened_mut(), self.arrived_ns.as_flattened_mut());
        for (offered, by_level) in self.offered.iter_mut().zip(&self.offered_by_level) {
            *offered = by_level.iter().sum();
        }
        average(&mut self.used, &mut self.served_ns);
        self.share();
    }

    fn share(&mut self) {
        let Self { offered, entitled, ascending, .. } = self;
        ascending.sort_unstable_by(|&one, &other| offered[one].total_cmp(&offered[other]).then(one.cmp(&other)));
        for (slot, entitled) in entitled.iter_mut().enumerate() {
            // Others that ask for less than the equal part of what is left get it. The rest and this type share.
            let (mut left, mut sharing) = (1.0, ascending.len() as f64);
            for &other in ascending.iter().filter(|other| **other != slot) {
                if offered[other] > left / sharing {
                    break;
                }
                left -= offered[other];
                sharing -= 1.0;
            }
            *entitled = left / sharing;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entitled(offered: &[f64]) -> Vec<f64> {
        let mut demand = Demand::new(offered.len());
        for (slot, offered) in offered.iter().enumerate() {
            demand.arrived(slot, 3, *offered);
        }
        demand.close(1.0);
        (0..offered.len()).map(|slot| (demand.entitled(slot) * 1e3).round() / 1e3).collect()
    }

    /// What a type gets that asks for all, found by filling slowly.
    fn filled(offered: &[f64], slot: usize) -> f64 {
        let taken = |level: f64| {
            let others = offered.iter().enumerate().filter(|(other, _)| *other != slot);
            level + others.map(|(_, offered)| offered.min(level)).sum::<f64>()
        };
        let steps = (0..=1_000_000).map(|step| f64::from(step) / 1e6);
        steps.take_while(|level| taken(*level) <= 1.0 + 1e-9).last().unwrap()
    }

    #[test]
    fn a_type_may_have_what_others_leave_and_an_equal_part_at_least() {
        for (offered, expected) in [
            (&[0.012, 1.188][..], &[0.5, 0.988][..]),
            (&[0.5, 2.5], &[0.5, 0.5]),
            (&[0.2, 0.5, 0.5], &[0.333, 0.4, 0.4]),
            (&[0.0, 0.0, 0.0], &[1.0, 1.0, 1.0]),
            (&[3.0], &[1.0]),
        ] {
            assert_eq!(entitled(offered), expected, "{offered:?}");
        }
    }

    #[test]
    fn entitlements_are_those_of_filling_up() {
        for offered in [
            &[0.395, 0.038, 1.38, 0.55, 0.63][..],
            &[0.1, 0.1, 0.1, 0.1],
            &[0.9, 0.05, 0.3, 0.02, 0.02, 0.6],
            &[0.0, 2.0, 0.4, 0.4],
        ] {
            for (slot, entitled) in entitled(offered).into_iter().enumerate() {
                let expected = filled(offered, slot);
                assert!((entitled - expected).abs() < 1e-3, "{offered:?} {slot}: {entitled}, {expected}");
            }
        }
    }

    #[test]
    fn demand_is_an_average_over_intervals() {
        let mut demand = Demand::new(2);
        for _ in 0..50 {
            demand.arrived(0, 1, 50.0);
            demand.arrived(0, 8, 30.0);
            demand.close(100.0);
        }
        assert!((demand.offered(0) - 0.8).abs() < 1e-9);
        assert!((demand.offered_above(0, 7) - 0.5).abs() < 1e-9);
        demand.close(100.0);
        assert!((demand.offered(0) - 0.7).abs() < 1e-9);
        assert_eq!(demand.offered(1), 0.0);
    }
}
