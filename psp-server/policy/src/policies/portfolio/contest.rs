//! Which candidate does best on what arrived lately.
//!
//! All candidates are tried over a short tape, the better half of them over one twice as long, and so on (successive
//! halving). All of a round have the same requests. Those of the last round are tried at a higher load, too.
//!
//! What *holds* keeps the limits of all types at the higher load, and no type waits longer and longer there. It comes before
//! what does not. What is *ample* keeps them with room to spare, too, and comes first. Among ample candidates the shortest
//! type decides, elsewhere the type that is furthest from its limit. Small differences are chance, so the first candidate
//! and the one in force have a bonus.

use super::candidates::Candidate;
use super::tape::{Request, at_load};
use super::trial::Trial;
use crate::setup::SchedulerSetup;
use crate::study::{Findings, Standing, Tried};

/// Requests of the first round.
const FIRST: usize = 4_096;
/// Part of a trial that does not count: it begins without a queue.
const WARM_UP: f64 = 0.25;
/// Candidates of the last round.
const LAST: usize = 3;
/// Percentile that counts.
const PERCENTILE: f64 = 0.999;
/// Slowdowns of which the percentile is simply taken.
const ENOUGH: usize = 4_000;
/// Of fewer, a tail is fitted to those above this percentile.
const TAIL: f64 = 0.9;
/// Ample is at most this part of each limit.
const AMPLE: f64 = 0.6;
/// The higher load, by the load that arrived.
const HIGHER: f64 = 1.05;
/// The mean slowdown of the later half of a type's requests may be so many times that of the earlier half.
const GROWTH: f64 = 1.3;
/// Recorded arrivals from which on a candidate can be ample: the tail of a short record says too little.
const AMPLE_ARRIVALS: u64 = 8_192;
/// Parts of a limit below this one count as this one.
const LEAST: f64 = 0.5;
/// What the figures of the first candidate and of the one in force are multiplied by, a lower figure being better.
const BONUS: Bonus = Bonus {
    first: 0.9,
    in_force: 0.95,
};
/// The same among ample candidates, where no type needs another.
const AMPLE_BONUS: Bonus = Bonus {
    first: 0.7,
    in_force: 0.85,
};

/// How much better another candidate has to be.
struct Bonus {
    first: f64,
    in_force: f64,
}

/// What slowdowns count, and by what.
#[derive(Debug, Clone)]
pub(super) struct Limits {
    /// Per type slot: the largest slowdown that is good.
    pub(super) slowdowns: Vec<f64>,
    /// Slot of the type with the least mean.
    pub(super) shortest: usize,
    /// Whether a candidate can be ample.
    pub(super) any_ample: bool,
}

/// A contest over a tape.
#[derive(Clone, Copy)]
pub(super) struct Contest<'a> {
    pub(super) setup: &'a SchedulerSetup<'a>,
    /// The first is preferred.
    pub(super) candidates: &'a [Candidate],
    /// Name of the candidate in force.
    pub(super) in_force: &'a str,
    pub(super) tape: &'a [Request],
    pub(super) limits: &'a Limits,
}

/// Whether a candidate can be ample after so many recorded arrivals.
pub(super) const fn any_ample(arrivals: u64) -> bool {
    arrivals >= AMPLE_ARRIVALS
}

impl Contest<'_> {
    /// Finds the best of the candidates.
    pub(super) fn run(&self) -> Findings {
        let mut left: Vec<usize> = (0..self.candidates.len()).collect();
        let mut length = FIRST.min(self.tape.len());
        loop {
            let is_last = length == self.tape.len() || left.len() <= LAST + 1;
            let tape = &self.tape[..if is_last { self.tape.len() } else { length }];
            let mut tried: Vec<(usize, Tried)> = left
                .iter()
                .map(|&index| (index, self.tried(index, tape, is_last)))
                .collect();
            tried.sort_by(|one, other| {
                let (one, other) = (self.merit(one), self.merit(other));
                one.0.cmp(&other.0).then(one.1.total_cmp(&other.1))
            });
            if is_last {
                return Findings {
                    choice: tried.first().map_or(0, |(index, _)| *index),
                    tried: tried.into_iter().map(|(_, tried)| tried).collect(),
                };
            }
            let keep = tried.len().div_ceil(2).max(LAST);
            left = tried
                .iter()
                .enumerate()
                .filter(|(rank, (index, _))| *rank < keep || *index == 0)
                .map(|(_, (index, _))| *index)
                .collect();
            length = (2 * length).min(self.tape.len());
        }
    }

    /// What candidates are ranked by, the least first.
    fn merit(&self, (index, tried): &(usize, Tried)) -> (Standing, f64) {
        let (figure, bonus) = match tried.standing {
            Standing::Ample => (tried.shortest, AMPLE_BONUS),
            Standing::Holds | Standing::Open => (tried.worst.max(LEAST), BONUS),
        };
        let factor = match *index {
            0 => bonus.first,
            _ if tried.name == self.in_force => bonus.in_force,
            _ => 1.0,
        };
        (tried.standing, figure * factor)
    }

    fn tried(&self, index: usize, tape: &[Request], is_last: bool) -> Tried {
        let parts = self.parts(index, tape);
        let furthest = worst(&parts);
        // A short tape tells only who is worth a longer one.
        let holds = furthest <= 1.0 && (!is_last || self.holds(index, &at_load(tape, HIGHER)));
        let standing = match holds {
            true if furthest <= AMPLE && self.limits.any_ample => Standing::Ample,
            true => Standing::Holds,
            false => Standing::Open,
        };
        Tried {
            name: self.candidates[index].name.clone(),
            worst: furthest,
            shortest: parts[self.limits.shortest],
            standing,
        }
    }

    /// Whether all types keep their limits, and none waits longer and longer.
    fn holds(&self, index: usize, tape: &[Request]) -> bool {
        let mut of_types = self.slowdowns(index, tape);
        let grows = of_types.iter().any(|slowdowns| {
            let (early, late) = slowdowns.split_at(slowdowns.len() / 2);
            mean(late) > mean(early) * GROWTH
        });
        !grows && worst(&self.by_limit(&mut of_types)) <= 1.0
    }

    /// Per type: its slowdown at the percentile that counts, by its limit.
    fn parts(&self, index: usize, tape: &[Request]) -> Vec<f64> {
        self.by_limit(&mut self.slowdowns(index, tape))
    }

    fn by_limit(&self, of_types: &mut [Vec<f32>]) -> Vec<f64> {
        let of_types = of_types.iter_mut().zip(&self.limits.slowdowns);
        let parts = of_types.map(|(slowdowns, limit)| high(slowdowns) / limit);
        parts.collect()
    }

    /// Per type: the slowdowns of its requests after the warm-up, in order of arrival.
    fn slowdowns(&self, index: usize, tape: &[Request]) -> Vec<Vec<f32>> {
        let Self { setup, limits, .. } = *self;
        let scheduler = self.candidates[index].scheduler(setup);
        let slowdowns = Trial::new(setup, scheduler, tape, &limits.slowdowns).run();
        let from = (tape.len() as f64 * WARM_UP) as usize;
        let mut of_types: Vec<Vec<f32>> = vec![Vec::new(); limits.slowdowns.len()];
        for (request, &slowdown) in tape.iter().zip(&slowdowns).skip(from) {
            of_types[request.slot].push(slowdown);
        }
        of_types
    }
}

/// 1 of none.
fn mean(slowdowns: &[f32]) -> f64 {
    let total: f64 = slowdowns.iter().map(|&slowdown| f64::from(slowdown)).sum();
    if slowdowns.is_empty() {
        1.0
    } else {
        total / slowdowns.len() as f64
    }
}

fn worst(parts: &[f64]) -> f64 {
    parts.iter().copied().fold(0.0, f64::max)
}

/// The percentile that counts; 0 of none. Of few slowdowns it is at least what an exponential tail with the mean of their
/// largest tenth has: the largest of a hundred says nothing of one in a thousand.
fn high(slowdowns: &mut [f32]) -> f64 {
    let index = |part: f64| (slowdowns.len() as f64 * part).ceil() as usize;
    let (tail, rank) = (index(TAIL), index(PERCENTILE));
    if rank == 0 {
        return 0.0;
    }
    let measured = f64::from(*slowdowns.select_nth_unstable_by(rank - 1, f32::total_cmp).1);
    if slowdowns.len() >= ENOUGH || tail == slowdowns.len() {
        return measured;
    }
    let (_, from, above) = slowdowns.select_nth_unstable_by(tail, f32::total_cmp);
    let from = f64::from(*from);
    let excess = above.iter().map(|&slowdown| f64::from(slowdown) - from);
    let mean = excess.sum::<f64>() / above.len().max(1) as f64;
    let fitted = from + mean * ((1.0 - TAIL) / (1.0 - PERCENTILE)).ln();
    measured.max(fitted)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Quantiles of an exponential distribution with a mean of 1.
    fn exponential(count: usize) -> Vec<f32> {
        let part = |index: usize| (index as f64 + 0.5) / count as f64;
        (0..count)
            .map(|index| -(1.0 - part(index)).ln() as f32)
            .collect()
    }

    #[test]
    fn of_few_slowdowns_the_tail_is_fitted() {
        let expected = 1000_f64.ln();
        for count in [100, 1_000, 10_000] {
            let high = high(&mut exponential(count));
            assert!((high - expected).abs() < 0.5, "{high} of {count}");
        }
        assert_eq!(high(&mut []), 0.0);
        assert_eq!(high(&mut [3.0]), 3.0);
        assert_eq!(high(&mut [1.0; 200]), 1.0);
    }

    #[test]
    fn one_that_never_ended_is_beyond_every_limit() {
        let mut slowdowns = exponential(500);
        slowdowns[7] = f32::INFINITY;
        assert_eq!(high(&mut slowdowns), f64::INFINITY);
        let mut slowdowns = exponential(10_000);
        slowdowns[..20].fill(f32::INFINITY);
        assert_eq!(high(&mut slowdowns), f64::INFINITY);
    }
}
