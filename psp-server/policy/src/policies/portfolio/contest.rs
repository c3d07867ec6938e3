//! Which candidate does best on what arrived lately.
//!
//! All candidates are tried over a short tape, the better half of them over one twice as long, and so on (successive
//! halving). All of a round have the same requests. Those of the last round are tried at a higher load, too.
//!
//! What *holds* keeps the limits of all types at the higher load, and no type waits longer and longer there. It comes before
//! what does not, where the last candidates are those that are here for latencies. What is *ample* keeps them with room to
//! spare, too, and comes first. Among ample candidates the shortest type decides, elsewhere the type that is furthest from
//! its limit. Small differences are chance, so the first candidate and the one in force have a bonus.

use super::candidates::Candidate;
use super::figures::Figures;
use super::tape::{Request, at_load, demand};
use super::trial::Trial;
use crate::setup::SchedulerSetup;
use crate::study::Findings;

/// Requests of the first round.
const FIRST: usize = 4_096;
/// Part of a trial that does not count: it begins without a queue.
const WARM_UP: f64 = 0.25;
/// Candidates of the last round.
const LAST: usize = 3;
/// Candidates in the log.
const REPORTED: usize = 3;
/// Ample is at most this part of each limit.
const AMPLE: f64 = 0.6;
/// The higher load, by the load that arrived.
const HIGHER: f64 = 1.05;
/// The most [growth](Figures::growth) of a candidate that holds.
const GROWTH: f64 = 1.6;
/// The most by the least growth of any candidate: with all of them waits grow where the tape has more load at its end.
const GROWTH_BEYOND: f64 = 1.2;
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
    first: 0.8,
    in_force: 0.9,
};

/// How a candidate did.
#[derive(Debug, Clone, Copy)]
struct Tried {
    /// The largest slowdown at p99.9 of any type, by the slowdown that it may have.
    worst: f64,
    /// That of the shortest type.
    shortest: f64,
    standing: Standing,
}

/// How sure it is that a candidate keeps what slowdowns types may have. The best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    /// With room to spare, and at a higher load.
    Ample,
    /// At a higher load.
    Holds,
    /// Not at a higher load, or it is not known.
    Open,
}

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
    /// Arrivals that the tape repeats.
    pub(super) recorded: usize,
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
            let mut tried = self.round(&left, tape, is_last);
            tried.sort_by(|one, other| {
                let (one, other) = (self.merit(one), self.merit(other));
                one.0.cmp(&other.0).then(one.1.total_cmp(&other.1))
            });
            let tried = equals_last(tried);
            if is_last {
                return self.findings(&tried);
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

    /// The best of the candidates, which are in order. The log has three, with their worst slowdown in parts of what it may be.
    fn findings(&self, tried: &[(usize, Tried)]) -> Findings {
        let choice = tried.first().map_or(0, |(index, _)| *index);
        let best = tried.iter().take(REPORTED);
        let best: Vec<String> = best
            .map(|(index, tried)| format!("{} {:.2}", self.candidates[*index].name, tried.worst))
            .collect();
        Findings::new(choice, best.join(", "))
    }

    /// What candidates are ranked by, the least first.
    fn merit(&self, (index, tried): &(usize, Tried)) -> (Standing, f64) {
        let (figure, bonus) = match tried.standing {
            Standing::Ample => (tried.shortest, AMPLE_BONUS),
            Standing::Holds | Standing::Open => (tried.worst.max(LEAST), BONUS),
        };
        let factor = match *index {
            0 => bonus.first,
            index if self.candidates[index].bears_less && tried.standing == Standing::Open => {
                f64::INFINITY
            }
            index if self.candidates[index].name == self.in_force => bonus.in_force,
            _ => 1.0,
        };
        (tried.standing, figure * factor)
    }

    /// How these candidates do on a tape, the last one or a shorter one.
    fn round(&self, candidates: &[usize], tape: &[Request], is_last: bool) -> Vec<(usize, Tried)> {
        let figures_on = |tape: &[Request]| -> Vec<Figures> {
            let figures = candidates.iter().map(|&index| self.figures(index, tape));
            figures.collect()
        };
        let figures = figures_on(tape);
        // Beyond that every queue grows, even if the tape ends before it shows.
        let fits = !is_last || demand(tape, self.recorded) * HIGHER <= self.setup.present as f64;
        // A short tape tells only who is worth a longer one.
        let higher = is_last.then(|| figures_on(&at_load(tape, HIGHER)));
        let growths = higher.iter().flatten().map(|higher| higher.growth);
        let growth_max = GROWTH.min(growths.fold(f64::INFINITY, f64::min) * GROWTH_BEYOND);
        let of_candidates = candidates.iter().zip(figures).enumerate();
        let tried = of_candidates.map(|(number, (&index, figures))| {
            let higher = higher.as_ref().map(|higher| higher[number]);
            let stays =
                |higher: Figures| fits && higher.worst <= 1.0 && higher.growth <= growth_max;
            let holds = figures.worst <= 1.0 && higher.is_none_or(stays);
            let standing = match holds {
                true if figures.worst <= AMPLE && self.limits.any_ample => Standing::Ample,
                true => Standing::Holds,
                false => Standing::Open,
            };
            let tried = Tried {
                worst: figures.worst,
                shortest: figures.shortest,
                standing,
            };
            (index, tried)
        });
        tried.collect()
    }

    fn figures(&self, index: usize, tape: &[Request]) -> Figures {
        let limits = self.limits;
        let mut slowdowns = self.slowdowns(index, tape);
        Figures::new(&mut slowdowns, &limits.slowdowns, limits.shortest)
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

/// Puts candidates with the figures of a better one behind all others: they decide alike on this tape, though they may not on
/// a longer one.
fn equals_last(tried: Vec<(usize, Tried)>) -> Vec<(usize, Tried)> {
    let mut seen: Vec<[f64; 2]> = Vec::with_capacity(tried.len());
    let (mut ordered, equal): (Vec<_>, Vec<_>) = tried.into_iter().partition(|(_, tried)| {
        let figures = [tried.worst, tried.shortest];
        let is_known = tried.worst.is_finite() && seen.contains(&figures);
        seen.push(figures);
        !is_known
    });
    ordered.extend(equal);
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_candidates_that_decide_alike_the_best_comes_before_all_others() {
        let tried = |worst, shortest| Tried {
            worst,
            shortest,
            standing: Standing::Open,
        };
        let figures = [
            (0.4, 0.2),
            (0.4, 0.3),
            (0.4, 0.2),
            (f64::INFINITY, 0.2),
            (f64::INFINITY, 0.2),
        ];
        let all = figures.map(|(worst, shortest)| tried(worst, shortest));
        let all = equals_last(all.into_iter().enumerate().collect());
        let order: Vec<usize> = all.into_iter().map(|(index, _)| index).collect();
        // Of hopeless ones nothing is known.
        assert_eq!(order, [0, 1, 3, 4, 2]);
    }
}
