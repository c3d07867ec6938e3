//! Which candidate does best on what arrived lately.
//!
//! All candidates are tried over a short tape, the better half of them over one twice as long, and so on (successive
//! halving). All of a round have the same requests. Those of the last round are tried at a higher load, too, and those that have
//! room to spare at a much higher one.
//!
//! Where the load is low, most candidates are level with the best. They climb then: they are tried at higher and higher loads,
//! so that the load may rise, or a burst may come, before the next study.

use super::figures::Figures;
use super::ranking::{Climbed, Ranking, Standing, Tried, equals_later};
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
/// The higher load, by the load that arrived.
const HIGHER: f64 = 1.05;
/// The most [growth](Figures::growth) of a candidate that holds.
const GROWTH: f64 = 1.6;
/// The most by the least growth of any candidate: with all of them waits grow where the load is high.
const GROWTH_BEYOND: f64 = 1.2;
/// Recorded arrivals from which on a candidate can be ample: the tail of a short record says too little.
const AMPLE_ARRIVALS: u64 = 8_192;
/// An ample candidate keeps the limits at so many times the load that arrived. Level candidates are tried at so many times
/// the load, at so many times that, and so on.
const RUNG: f64 = 1.25;
/// The highest of these loads, in parts of what the workers can do.
const RUNG_LOAD_MAX: f64 = 0.95;
/// The most such loads. Where more would fit, the lowest are left out.
const RUNGS_MAX: i32 = 12;

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
    pub(super) ranking: Ranking<'a>,
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
        let mut left: Vec<usize> = (0..self.ranking.candidates.len()).collect();
        let mut length = FIRST.min(self.tape.len());
        loop {
            let is_last = length == self.tape.len() || left.len() <= LAST + 1;
            let tape = &self.tape[..if is_last { self.tape.len() } else { length }];
            let mut tried = self.round(&left, tape, is_last);
            let level = self.ranking.sort(&mut tried);
            self.climb(&mut tried[..level], tape);
            self.ranking.sort_level(&mut tried[..level]);
            let tried = equals_later(tried);
            if is_last {
                return self.findings(&tried);
            }
            let keep = tried.len().div_ceil(2).max(LAST);
            let kept = tried.iter().enumerate();
            let kept = kept.filter(|(rank, tried)| *rank < keep || tried.index == 0);
            left = kept.map(|(_, tried)| tried.index).collect();
            length = (2 * length).min(self.tape.len());
        }
    }

    /// The best of the candidates, which are in order. The log has three, with their worst slowdown in parts of what it may be.
    fn findings(&self, tried: &[Tried]) -> Findings {
        let choice = tried.first().map_or(0, |tried| tried.index);
        let best = tried.iter().take(REPORTED);
        let best: Vec<String> = best
            .map(|tried| {
                let name = &self.ranking.candidates[tried.index].name;
                format!("{name} {:.2}", tried.figures.worst)
            })
            .collect();
        Findings::new(choice, best.join(", "))
    }

    /// How these candidates do on a tape, the last one or a shorter one.
    fn round(&self, candidates: &[usize], tape: &[Request], is_last: bool) -> Vec<Tried> {
        let figures_on = |tape: &[Request]| -> Vec<Figures> {
            let figures = candidates.iter().map(|&index| self.figures(index, tape));
            figures.collect()
        };
        let figures = figures_on(tape);
        // Beyond that every queue grows, even if the tape ends before it shows.
        let fits = !is_last || demand(tape, self.recorded) * HIGHER <= self.setup.present as f64;
        // A short tape tells only who is worth a longer one.
        let higher = is_last.then(|| figures_on(&at_load(tape, HIGHER)));
        let much_higher = is_last.then(|| at_load(tape, RUNG.min(self.load_max(tape))));
        let growths = higher.iter().flatten().map(|higher| higher.growth);
        let growth_max = GROWTH.min(growths.fold(f64::INFINITY, f64::min) * GROWTH_BEYOND);
        let of_candidates = candidates.iter().zip(figures).enumerate();
        let tried = of_candidates.map(|(number, (&index, figures))| {
            let higher = higher.as_ref().map(|higher| higher[number]);
            let stays =
                |higher: Figures| fits && higher.parts.keep_limits() && higher.growth <= growth_max;
            let holds = figures.parts.keep_limits() && higher.is_none_or(stays);
            let keeps_limits = |tape| self.figures(index, tape).parts.keep_limits();
            let has_room = || {
                let is_far = self.limits.any_ample && figures.parts.have_room();
                is_far && much_higher.as_deref().is_none_or(keeps_limits)
            };
            let standing = match holds {
                true if has_room() => Standing::Ample,
                true => Standing::Holds,
                false => Standing::Open,
            };
            Tried {
                index,
                figures: figures.parts,
                standing,
                climbed: Climbed::default(),
            }
        });
        tried.collect()
    }

    /// Tries level candidates at higher and higher loads, until one of them is left, none keeps the limits, or the load is
    /// all that the workers can do.
    fn climb(&self, level: &mut [Tried], tape: &[Request]) {
        let most = self.load_max(tape);
        let mut left: Vec<&mut Tried> = level.iter_mut().collect();
        let mut load = RUNG.max(most / RUNG.powi(RUNGS_MAX - 1));
        for _ in 0..RUNGS_MAX {
            if left.len() <= 1 || load > most {
                break;
            }
            let tape = at_load(tape, load);
            left.retain_mut(|tried| {
                let parts = self.figures(tried.index, &tape).parts;
                let keeps = parts.keep_limits();
                tried.climbed = Climbed {
                    rungs: tried.climbed.rungs + u32::from(keeps),
                    worst: parts.worst,
                };
                keeps
            });
            load *= RUNG;
        }
    }

    /// The highest load that candidates are tried at, by that of the tape.
    fn load_max(&self, tape: &[Request]) -> f64 {
        RUNG_LOAD_MAX * self.setup.present as f64 / demand(tape, tape.len())
    }

    fn figures(&self, index: usize, tape: &[Request]) -> Figures {
        let limits = self.limits;
        let mut slowdowns = self.slowdowns(index, tape);
        Figures::new(&mut slowdowns, &limits.slowdowns, limits.shortest)
    }

    /// Per type: the slowdowns of its requests after the warm-up, in order of arrival.
    fn slowdowns(&self, index: usize, tape: &[Request]) -> Vec<Vec<f32>> {
        let Self { setup, limits, .. } = *self;
        let scheduler = self.ranking.candidates[index].scheduler(setup);
        let slowdowns = Trial::new(setup, scheduler, tape, &limits.slowdowns).run();
        let from = (tape.len() as f64 * WARM_UP) as usize;
        let mut of_types: Vec<Vec<f32>> = vec![Vec::new(); limits.slowdowns.len()];
        for (request, &slowdown) in tape.iter().zip(&slowdowns).skip(from) {
            of_types[request.slot].push(slowdown);
        }
        of_types
    }
}
