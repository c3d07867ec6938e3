//! Which of the candidates that were tried is the best.
//!
//! A candidate that *holds* keeps the limits of all types at a higher load, and no type waits longer and longer there.
//! It comes before those that do not. Of these, the candidates that are here for latencies come last, but for one that
//! is in force and does well. An *ample* candidate keeps the limits with room to spare, and at a much higher load, and
//! comes first. Among ample candidates the shortest type decides, elsewhere the type that is furthest from its limit.
//! Small differences are chance, so the one in force has a bonus, and the first candidate a smaller one. For the same
//! reason the worst type's figure is taken together with that of earlier studies.
//!
//! *Level* candidates are as good as the best one. Of these, the one comes first that sustains the highest load.

use std::cmp::Reverse;

use super::candidates::Candidate;
use super::memory::{Said, together};

/// At most this part of each limit leaves room to spare. Smaller ones count as this one, but for the shortest type.
const ROOM: f64 = 0.6;
/// Of two candidates that decide alike, the second is no better than one that is so many times as bad.
const NEAR: f64 = 4.0;
/// An ample candidate is level with the best one if the shortest type has at most so many times its figure.
const LEVEL: f64 = 1.1;
/// What the figure of the first candidate is multiplied by, a lower figure being better.
const FIRST_BONUS: f64 = 0.9;
/// The same of the one in force, also if that is the first: what an earlier study chose stays where this one sees
/// little to choose.
const IN_FORCE_BONUS: f64 = 0.95 * FIRST_BONUS;

/// How a candidate did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Tried {
    /// Index of the candidate.
    pub(super) index: usize,
    pub(super) figures: Parts,
    /// The same at a much higher load, if it was tried there.
    pub(super) much_higher: Option<Parts>,
    pub(super) standing: Standing,
    pub(super) climbed: Climbed,
    /// The worst type's figure in earlier studies, as far as it is known. Only the last round asks for it.
    pub(super) earlier: Option<f64>,
    /// How often it preempted, before it climbed.
    pub(super) preemptions: u64,
}

/// Slowdowns at p99.9, by what they may be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Parts {
    /// The largest of any type.
    pub(super) worst: f64,
    /// That of the shortest type.
    pub(super) shortest: f64,
}

/// How sure it is that a candidate keeps what slowdowns types may have. The best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standing {
    /// With room to spare, and at a much higher load.
    Ample,
    /// At a higher load.
    Holds,
    /// Not at a higher load, or it is not known.
    Open,
}

/// How a level candidate did at higher and higher loads.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Climbed {
    /// Loads at which it kept all limits.
    pub(super) rungs: u32,
    /// As [`Parts::worst`], at the highest load that it was tried at.
    pub(super) worst: f64,
}

/// See the [module](self).
#[derive(Clone, Copy)]
pub(super) struct Ranking<'a> {
    /// The first is preferred.
    pub(super) candidates: &'a [Candidate],
    /// Name of the candidate in force.
    pub(super) in_force: &'a str,
    /// Of earlier studies.
    pub(super) told: &'a Said,
}

impl Parts {
    /// No type is beyond its limit.
    pub(super) fn keep_limits(&self) -> bool {
        self.worst <= 1.0
    }

    /// All types are far from their limits.
    pub(super) fn have_room(&self) -> bool {
        self.worst <= ROOM
    }
}

impl Tried {
    /// Before it climbs, if it does.
    pub(super) fn new(index: usize, figures: Parts, standing: Standing) -> Self {
        Self {
            index,
            figures,
            much_higher: None,
            standing,
            climbed: Climbed::default(),
            earlier: None,
            preemptions: 0,
        }
    }

    /// Both seem to have decided alike. Of hopeless ones that is not known.
    pub(super) fn decides_as(&self, other: &Self) -> bool {
        let figures = |tried: &Self| (tried.figures, tried.climbed);
        self.figures.worst.is_finite() && figures(self) == figures(other)
    }

    /// What it is compared by in this study.
    fn figure(&self) -> f64 {
        match self.standing {
            Standing::Ample => self.figures.shortest,
            Standing::Holds | Standing::Open => self.figures.worst.max(ROOM),
        }
    }

    /// What it is compared by: earlier studies count, too, unless the shortest type decides.
    fn figure_with_earlier(&self) -> f64 {
        match self.standing {
            Standing::Ample => self.figure(),
            Standing::Holds | Standing::Open => self.for_later(),
        }
    }

    /// What a later study is told.
    pub(super) fn for_later(&self) -> f64 {
        together(self.figures.worst.max(ROOM), self.earlier)
    }
}

impl Ranking<'_> {
    /// Puts the best first. Returns how many are level with the best.
    pub(super) fn sort(&self, tried: &mut [Tried]) -> usize {
        let best = tried.iter().map(|tried| tried.standing).min();
        let figure_max = match best {
            Some(Standing::Ample) => {
                let ample = tried.iter().filter(|tried| tried.standing == Standing::Ample);
                ample.map(Tried::figure).fold(f64::INFINITY, f64::min) * LEVEL
            }
            Some(Standing::Holds) => ROOM,
            // None has anything to spare.
            Some(Standing::Open) | None => f64::NEG_INFINITY,
        };
        let is_level = |tried: &Tried| Some(tried.standing) == best && tried.figure() <= figure_max;
        sort_by(tried, |tried| {
            let is_last = tried.standing == Standing::Open && self.is_risky(tried);
            let figure = tried.figure_with_earlier() * self.bonus(tried.index);
            ((!is_level(tried), tried.standing, is_last), figure)
        });
        tried.iter().filter(|tried| is_level(tried)).count()
    }

    /// The same with level candidates, once they have climbed.
    pub(super) fn sort_level(&self, tried: &mut [Tried]) {
        sort_by(tried, |tried| {
            let Climbed { rungs, worst } = tried.climbed;
            let figure = worst.max(ROOM) * self.bonus(tried.index);
            ((Reverse(rungs), self.sustains_less(tried.index)), figure)
        });
    }

    /// Those that are tried again: the first `keep`, the first candidate of all and the one in force, which did well on
    /// longer tapes; `with_equals`, those too that decide as one of the first `keep` does, whom a longer tape may tell
    /// apart.
    pub(super) fn survivors(&self, tried: &[Tried], keep: usize, with_equals: bool) -> Vec<Tried> {
        let (first, others) = tried.split_at(keep.min(tried.len()));
        let is_equal = |tried: &Tried| first.iter().any(|other| tried.decides_as(other));
        let stays =
            |tried: &&Tried| tried.index == 0 || self.is_in_force(tried.index) || with_equals && is_equal(tried);
        let others = others.iter().filter(stays);
        first.iter().chain(others).copied().collect()
    }

    /// What an earlier study said of a candidate. One that it did not try to the end was no better there than the one
    /// in force, and counts as that does.
    pub(super) fn earlier(&self, index: usize) -> Option<f64> {
        let name = &self.candidates[index].name;
        let of_one_in_force = || self.told.figure(self.in_force);
        self.told.figure(name).or_else(of_one_in_force)
    }

    /// It sustains less than others, and nothing says that it sustains this.
    fn is_risky(&self, tried: &Tried) -> bool {
        let does_well = self.is_in_force(tried.index) && tried.figures.have_room();
        self.sustains_less(tried.index) && !does_well
    }

    pub(super) fn sustains_less(&self, index: usize) -> bool {
        self.candidates[index].sustains_less
    }

    fn is_in_force(&self, index: usize) -> bool {
        self.candidates[index].name == self.in_force
    }

    /// Which of two candidates that decide alike: there is nothing to choose between them, so the first of all comes
    /// before the one in force.
    pub(super) fn preferred(&self, one: usize, other: usize) -> usize {
        let rank = |index| (self.sustains_less(index), index != 0, self.bonus(index));
        if rank(other) < rank(one) { other } else { one }
    }

    /// What the figure of a candidate is multiplied by.
    fn bonus(&self, index: usize) -> f64 {
        if self.is_in_force(index) {
            IN_FORCE_BONUS
        } else if index == 0 {
            FIRST_BONUS
        } else {
            1.0
        }
    }
}

/// The least first.
fn sort_by<K: Ord>(tried: &mut [Tried], rank: impl Fn(&Tried) -> (K, f64)) {
    tried.sort_by(|one, other| {
        let (one, other) = (rank(one), rank(other));
        one.0.cmp(&other.0).then(one.1.total_cmp(&other.1))
    });
}

/// Puts candidates with the figures of a better one behind those that are at most [`NEAR`] times as bad: they decide
/// alike on this tape, though they may not on a longer one.
pub(super) fn equals_later(tried: Vec<Tried>) -> Vec<Tried> {
    let mut seen: Vec<Tried> = Vec::with_capacity(tried.len());
    let (equal, mut ordered): (Vec<_>, Vec<_>) = tried.into_iter().partition(|tried| {
        let is_known = seen.iter().any(|other| tried.decides_as(other));
        seen.push(*tried);
        is_known
    });
    for tried in equal {
        let near = tried.figures.worst.max(ROOM) * NEAR;
        let is_better = |other: &Tried| tried.decides_as(other);
        let better = ordered.iter().position(is_better).unwrap_or(0);
        let is_worse = |other: &Tried| other.figures.worst > near;
        let worse = ordered[better..].iter().position(is_worse);
        ordered.insert(worse.map_or(ordered.len(), |after| better + after), tried);
    }
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request_type::TypeTable;
    use crate::setup::{Preemption, SchedulerSetup};

    fn tried(index: usize, standing: Standing, worst: f64, shortest: f64) -> Tried {
        Tried::new(index, Parts { worst, shortest }, standing)
    }

    fn indexes(tried: &[Tried]) -> Vec<usize> {
        tried.iter().map(|tried| tried.index).collect()
    }

    #[test]
    fn of_candidates_that_decide_alike_the_best_comes_before_all_that_are_near() {
        let order = |figures: &[(f64, f64)]| {
            let all = figures.iter().enumerate();
            let all = all.map(|(index, &(worst, shortest))| tried(index, Standing::Open, worst, shortest));
            indexes(&equals_later(all.collect()))
        };
        let hopeless = (f64::INFINITY, 0.2);
        // Of hopeless ones nothing is known.
        let figures = [(0.4, 0.2), (0.4, 0.3), (0.4, 0.2), hopeless, hopeless];
        assert_eq!(order(&figures), [0, 1, 2, 3, 4]);
        // The third decides as the second does, and may do better than the last two on a longer tape.
        let figures = [(0.7, 0.1), (9.0, 0.1), (9.0, 0.1), (36.0, 0.1), (36.1, 0.1), hopeless];
        assert_eq!(order(&figures), [0, 1, 3, 2, 4, 5]);
        let figures = [(3.0, 0.1), (3.0, 0.1), (3.0, 0.1), (12.1, 0.1)];
        assert_eq!(order(&figures), [0, 1, 2, 3]);
    }

    /// Ranks with the real candidates, of which the third and fourth are eager.
    fn with_ranking(rank: impl FnOnce(Ranking<'_>)) {
        let types = TypeTable::new();
        let setup = SchedulerSetup::new(4, &types).preemption(Some(Preemption::new(1_000)));
        let candidates = super::super::candidates::candidates(&setup, 10_000.0, 10.0);
        assert!(candidates[2].sustains_less && candidates[3].sustains_less && !candidates[4].sustains_less);
        rank(Ranking {
            candidates: &candidates,
            in_force: &candidates[5].name,
            told: &Said::default(),
        });
    }

    #[test]
    fn those_that_decide_as_one_of_the_best_stay_until_the_last_round() {
        let open = |index, worst| tried(index, Standing::Open, worst, 0.1);
        let hopeless = f64::INFINITY;
        with_ranking(|ranking| {
            let survivors = |tried: &[Tried], keep, with_equals| indexes(&ranking.survivors(tried, keep, with_equals));
            let all = [open(1, 0.7), open(4, 2.0), open(6, 0.7), open(3, 2.1)];
            assert_eq!(survivors(&all, 2, true), [1, 4, 6]);
            assert_eq!(survivors(&all, 2, false), [1, 4]);
            // The first of all candidates stays, as the one in force does; of hopeless ones nothing is known.
            let all = [open(2, 0.7), open(1, hopeless), open(6, hopeless), open(5, hopeless), open(0, 9.0)];
            assert_eq!(survivors(&all, 2, true), [2, 1, 5, 0]);
            assert_eq!(survivors(&all, 9, false), [2, 1, 6, 5, 0]);
        });
    }

    #[test]
    fn level_are_ample_ones_that_are_as_fast_and_else_all_that_are_far_from_their_limits() {
        use Standing::{Ample, Holds, Open};
        with_ranking(|ranking| {
            let mut all = [
                tried(0, Open, 0.3, 0.2),
                tried(1, Ample, 0.5, 0.3),
                tried(4, Ample, 0.5, 0.21),
                tried(5, Ample, 0.5, 0.2),
                tried(6, Holds, 0.5, 0.1),
            ];
            assert_eq!(ranking.sort(&mut all), 2);
            assert_eq!(indexes(&all), [5, 4, 1, 6, 0]);
            let mut all = [
                tried(0, Holds, 0.7, 0.2),
                tried(1, Holds, 0.2, 0.1),
                tried(4, Holds, 0.6, 0.3),
                tried(5, Holds, 0.61, 0.2),
            ];
            assert_eq!(ranking.sort(&mut all), 2);
            assert_eq!(indexes(&all), [1, 4, 5, 0]);
        });
    }

    #[test]
    fn none_is_level_where_none_holds_and_eager_ones_come_last() {
        let open = |index, worst| tried(index, Standing::Open, worst, 0.1);
        with_ranking(|ranking| {
            let mut all = [open(2, 0.6), open(4, 3.0), open(0, 3.2), open(5, 9.0)];
            assert_eq!(ranking.sort(&mut all), 0);
            assert_eq!(indexes(&all), [0, 4, 5, 2]);
            // The one in force stays while it does well.
            let in_force = &ranking.candidates[2].name;
            let ranking = Ranking { in_force, ..ranking };
            ranking.sort(&mut all);
            assert_eq!(indexes(&all), [2, 0, 4, 5]);
            let mut all = [open(2, 0.61), open(0, 3.2)];
            ranking.sort(&mut all);
            assert_eq!(indexes(&all), [0, 2]);
        });
    }

    #[test]
    fn the_one_in_force_stays_where_another_is_better_by_little() {
        let open = |index, worst| tried(index, Standing::Open, worst, 0.1);
        with_ranking(|ranking| {
            let best = |in_force: usize, figures: [(usize, f64); 2]| {
                let mut tried = figures.map(|(index, worst)| open(index, worst));
                let in_force = &ranking.candidates[in_force].name;
                let ranking = Ranking { in_force, ..ranking };
                ranking.sort(&mut tried);
                tried[0].index
            };
            assert_eq!(best(5, [(4, 1.0), (5, 1.16)]), 5);
            assert_eq!(best(5, [(4, 1.0), (5, 1.18)]), 4);
            // The first candidate has a bonus beside all others, which is smaller.
            assert_eq!(best(5, [(0, 1.0), (5, 1.04)]), 5);
            assert_eq!(best(5, [(0, 1.0), (5, 1.06)]), 0);
            assert_eq!(best(5, [(4, 1.0), (0, 1.1)]), 0);
            assert_eq!(best(5, [(4, 1.0), (0, 1.12)]), 4);
            assert_eq!(best(0, [(4, 1.0), (0, 1.16)]), 0);
            assert_eq!(best(0, [(4, 1.0), (0, 1.18)]), 4);
        });
    }

    #[test]
    fn earlier_studies_count_but_not_for_ample_candidates() {
        with_ranking(|ranking| {
            let told = [(4, 2.0), (5, 0.7)];
            let told = told.map(|(index, figure)| (ranking.candidates[index].name.clone(), figure));
            let ranking = Ranking { told: &Said::new(told.into_iter()), ..ranking };
            // That of the one in force stands for those that are not known.
            let earlier = [4, 5, 6].map(|index| ranking.earlier(index));
            assert_eq!(earlier, [Some(2.0), Some(0.7), Some(0.7)]);
            let order = |standing, figures: [(usize, f64); 3]| {
                let mut all = figures.map(|(index, figure)| Tried {
                    earlier: ranking.earlier(index),
                    ..tried(index, standing, figure, figure)
                });
                ranking.sort(&mut all);
                indexes(&all)
            };
            let figures = [(4, 1.0), (6, 1.8), (5, 2.0)];
            assert_eq!(order(Standing::Open, figures), [5, 6, 4]);
            assert_eq!(order(Standing::Ample, figures), [4, 5, 6]);
        });
    }

    #[test]
    fn of_candidates_that_decide_alike_an_eager_one_is_the_last_choice() {
        with_ranking(|ranking| {
            let preferred = [(1, 0), (4, 5), (5, 0), (2, 4), (4, 3), (4, 6)];
            let preferred = preferred.map(|(one, other)| ranking.preferred(one, other));
            assert_eq!(preferred, [0, 5, 0, 4, 4, 4]);
        });
    }

    #[test]
    fn of_level_ones_the_one_comes_first_that_sustains_the_most() {
        with_ranking(|ranking| {
            let climbed = |index, rungs, worst| Tried {
                climbed: Climbed { rungs, worst },
                ..tried(index, Standing::Ample, 0.2, 0.1)
            };
            let mut all = [
                climbed(0, 1, 1.2),
                climbed(2, 3, 0.6),
                climbed(4, 3, 0.9),
                climbed(5, 3, 0.92),
                climbed(6, 2, 7.0),
            ];
            ranking.sort_level(&mut all);
            // The one in force has a bonus, and eager ones come last.
            assert_eq!(indexes(&all), [5, 4, 2, 6, 0]);
            let mut all = [climbed(4, 3, 8.9), climbed(5, 3, 10.0), climbed(6, 3, 8.5)];
            ranking.sort_level(&mut all);
            assert_eq!(indexes(&all), [6, 5, 4]);
        });
    }
}
