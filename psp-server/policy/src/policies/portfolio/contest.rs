//! Which candidate does best on what arrived lately.
//!
//! All candidates are tried over a short tape, the better half of them over one twice as long, and so on (successive
//! halving). All of a round have the same requests. Those of the last round are tried at a higher load, too, and those
//! that have room to spare at a much higher one.
//!
//! Where the load is low, most candidates are level with the best. They climb then: they are tried at higher and higher
//! loads, so that the load may rise, or a burst may come, before the next study.

use std::borrow::Cow;

use super::figures::Figures;
use super::memory::Said;
use super::ranking::{Climbed, Parts, Ranking, Standing, Tried, equals_later};
use super::tape::{Request, at_load, bounded, demand};
use super::trial::{Outcome, Trial};
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
/// The most by the least growth of any candidate within the limits: with all of them waits grow where the load is high.
const GROWTH_BEYOND: f64 = 1.2;
/// Recorded arrivals from which on a candidate can be ample: the tail of a short record says too little.
const AMPLE_ARRIVALS: u64 = 8_192;
/// An ample candidate keeps the limits at so many times the load that arrived. Level candidates are tried at so many
/// times the load, at so many times that, and so on.
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
    /// Finds the best of the candidates. A later study is told what is returned beside it.
    pub(super) fn run(&self) -> (Findings, Said) {
        let mut left: Vec<usize> = (0..self.ranking.candidates.len()).collect();
        let mut keep = left.len();
        let mut length = FIRST.min(self.tape.len());
        // Of all that are left, for each request.
        let mut turns = 0.0;
        loop {
            let is_last = length == self.tape.len() || keep <= LAST + 1;
            let tape = match is_last {
                true => bounded(self.tape, turns),
                false => Cow::Borrowed(&self.tape[..length]),
            };
            let mut tried = match is_last {
                true => self.last_round(&left, &tape),
                false => self.round(&left, &tape),
            };
            let level = self.ranking.sort(&mut tried);
            self.climb(&mut tried[..level], &tape);
            self.ranking.sort_level(&mut tried[..level]);
            let tried = equals_later(tried);
            if is_last {
                return (self.findings(&tried), self.said(&tried));
            }
            keep = keep.div_ceil(2).max(LAST);
            // A longer tape tells apart what decided alike. The last round is for few.
            let kept = self.ranking.survivors(&tried, keep, keep > LAST + 1);
            let preemptions: u64 = kept.iter().map(|tried| tried.preemptions).sum();
            turns = kept.len() as f64 + preemptions as f64 / length as f64;
            left = kept.iter().map(|tried| tried.index).collect();
            length = (2 * length).min(self.tape.len());
        }
    }

    /// The best of the candidates, which are in order. The log has three, with their worst slowdown in parts of what it
    /// may be.
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

    fn said(&self, tried: &[Tried]) -> Said {
        let name = |tried: &Tried| self.ranking.candidates[tried.index].name.clone();
        Said::new(tried.iter().map(|tried| (name(tried), tried.for_later())))
    }

    /// How these candidates do on a short tape, which tells only who is worth a longer one.
    fn round(&self, candidates: &[usize], tape: &[Request]) -> Vec<Tried> {
        let tried = candidates.iter().map(|&index| {
            let Figures { parts, preemptions, .. } = self.figures(index, tape);
            let is_ample = self.limits.any_ample && parts.have_room();
            let standing = match parts.keep_limits() {
                true if is_ample => Standing::Ample,
                true => Standing::Holds,
                false => Standing::Open,
            };
            Tried { preemptions, ..Tried::new(index, parts, standing) }
        });
        tried.collect()
    }

    /// How these candidates do on this tape, and at higher loads.
    fn last_round(&self, candidates: &[usize], tape: &[Request]) -> Vec<Tried> {
        let limits = self.limits;
        // Beyond that every queue grows, even if the tape ends before it shows.
        let fits = demand(self.tape, self.recorded) * HIGHER <= self.setup.present as f64;
        let may_hold = |figures: &Figures| fits && figures.parts.keep_limits();
        let higher = at_load(tape, HIGHER);
        let much_higher = at_load(tape, RUNG.min(self.load_max(tape)));
        let finalists = self.finalists(candidates, tape);
        let finalists = finalists.into_iter().map(|(index, figures)| {
            let higher = may_hold(&figures).then(|| self.figures(index, &higher));
            (index, figures.parts, higher)
        });
        let finalists: Vec<(usize, Parts, Option<Figures>)> = finalists.collect();
        let growths = finalists.iter().filter_map(|(.., higher)| *higher);
        let growths = growths.map(|higher| higher.growth);
        let growth_max = GROWTH.min(growths.fold(f64::INFINITY, f64::min) * GROWTH_BEYOND);
        let stays = |higher: Figures| higher.parts.keep_limits() && higher.growth <= growth_max;
        let tried = finalists.into_iter().map(|(index, parts, higher)| {
            let earlier = self.ranking.earlier(index);
            if !higher.is_some_and(stays) {
                return Tried { earlier, ..Tried::new(index, parts, Standing::Open) };
            }
            let is_far = limits.any_ample && parts.have_room();
            let much_higher = is_far.then(|| self.figures(index, &much_higher).parts);
            let is_ample = much_higher.as_ref().is_some_and(Parts::keep_limits);
            let standing = if is_ample { Standing::Ample } else { Standing::Holds };
            Tried { much_higher, earlier, ..Tried::new(index, parts, standing) }
        });
        tried.collect()
    }

    /// The candidates of the last round, and how they do on its tape. Of those that decide alike on it the one is there
    /// that is preferred.
    fn finalists(&self, candidates: &[usize], tape: &[Request]) -> Vec<(usize, Figures)> {
        let mut finalists: Vec<(usize, Figures)> = Vec::with_capacity(candidates.len());
        let mut is_beaten = false;
        for &index in candidates {
            let figures = self.figures_unless(is_beaten, index, tape);
            // One that sustains less may come last though it keeps the limits.
            is_beaten |= figures.parts.keep_limits() && !self.ranking.sustains_less(index);
            let alike = |(_, other): &&mut (usize, Figures)| figures.are_of_the_same_turns(other);
            match finalists.iter_mut().find(alike) {
                Some((first, _)) => *first = self.ranking.preferred(*first, index),
                None => finalists.push((index, figures)),
            }
        }
        finalists
    }

    /// Tries level candidates at higher and higher loads, until one of them is left, none keeps the limits, or the load
    /// is all that the workers can do.
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
                let known = tried.much_higher.filter(|_| load == RUNG);
                let parts = known.unwrap_or_else(|| self.figures(tried.index, &tape).parts);
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
        self.figures_unless(false, index, tape)
    }

    /// How a candidate does. That of one that `is_beaten` by another is infinite, if it would be far beyond the limits.
    fn figures_unless(&self, is_beaten: bool, index: usize, tape: &[Request]) -> Figures {
        let Self { setup, limits, .. } = *self;
        let scheduler = self.ranking.candidates[index].scheduler(setup);
        let from = (tape.len() as f64 * WARM_UP) as usize;
        let mut trial = Trial::new(setup, scheduler, tape, &limits.slowdowns);
        if is_beaten {
            trial = trial.until_far(from);
        }
        let Outcome { slowdowns, turns } = trial.run();
        // Per type: those after the warm-up, in order of arrival.
        let mut of_types: Vec<Vec<f32>> = vec![Vec::new(); limits.slowdowns.len()];
        for (request, &slowdown) in tape.iter().zip(&slowdowns).skip(from) {
            of_types[request.slot].push(slowdown);
        }
        let preemptions = turns.saturating_sub(tape.len() as u64);
        Figures::new(&mut of_types, &limits.slowdowns, limits.shortest, preemptions)
    }
}
