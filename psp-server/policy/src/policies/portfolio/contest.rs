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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::policies::c_fcfs::CFcfs;
    use crate::policies::portfolio::candidates::Candidate;
    use crate::policies::sq::Sq;
    use crate::request_type::{TypeSpec, TypeTable};
    use crate::settings;
    use crate::setup::Preemption;
    use Standing::{Ample, Holds, Open};

    const WORKERS: usize = 4;
    /// In place of a number of workers: a candidate that uses all, and preempts.
    const PREEMPTS: usize = 0;

    /// Candidates that use so many of the workers each, and how often they were tried.
    struct Field {
        candidates: Vec<Candidate>,
        tried: Arc<[AtomicUsize]>,
        types: TypeTable,
        limits: Limits,
        tape: Vec<Request>,
        told: Said,
    }

    impl Field {
        /// A tape of requests of 1 µs that arrive so many nanoseconds apart, and may take 2 µs.
        fn new(uses: &[usize], gap_ns: u64, requests: u64) -> Self {
            let tried: Arc<[AtomicUsize]> = uses.iter().map(|_| AtomicUsize::new(0)).collect();
            let candidate = |(number, &workers): (usize, &usize)| {
                let tried = Arc::clone(&tried);
                let count = move || tried[number].fetch_add(1, Ordering::Relaxed);
                let name = number.to_string();
                if workers == PREEMPTS {
                    return Candidate::new(name, |setup| Sq::new(setup, &settings::Sq::default().quantum_us(0.3)));
                }
                Candidate::new(name, move |setup| {
                    count();
                    CFcfs::new(&SchedulerSetup { workers, present: workers, ..setup.clone() })
                })
            };
            let request = |number| Request { arrived_ns: gap_ns * number, service_ns: 1_000, slot: 0 };
            Self {
                candidates: uses.iter().enumerate().map(candidate).collect(),
                types: [TypeSpec::new("ONE")].into_iter().collect(),
                limits: Limits {
                    slowdowns: vec![2.0, f64::INFINITY],
                    shortest: 0,
                    any_ample: true,
                },
                tape: (1..=requests).map(request).collect(),
                told: Said::default(),
                tried,
            }
        }

        fn limit(mut self, slowdown: f64) -> Self {
            self.limits.slowdowns[0] = slowdown;
            self
        }

        fn contest<R>(&self, body: impl FnOnce(&Contest<'_>, &[usize]) -> R) -> R {
            let setup = SchedulerSetup::new(WORKERS, &self.types).queue_capacity(1 << 16);
            let setup = setup.preemption(Some(Preemption::new(1)));
            let all: Vec<usize> = (0..self.candidates.len()).collect();
            let in_force = &self.candidates[all.len() - 1].name;
            let contest = Contest {
                setup: &setup,
                ranking: Ranking { candidates: &self.candidates, in_force, told: &self.told },
                tape: &self.tape,
                recorded: self.tape.len(),
                limits: &self.limits,
            };
            body(&contest, &all)
        }

        fn tries(&self) -> Vec<usize> {
            self.tried.iter().map(|tried| tried.load(Ordering::Relaxed)).collect()
        }

        fn last_round(&self) -> Vec<Tried> {
            self.contest(|contest, all| contest.last_round(all, contest.tape))
        }

        fn standings(&self) -> Vec<Standing> {
            self.last_round().iter().map(|tried| tried.standing).collect()
        }
    }

    #[test]
    fn each_round_has_the_better_half_on_a_tape_twice_as_long_and_the_last_is_for_few() {
        // There is work for 3.3 workers: those that use fewer are hopeless. The last round tries the others three
        // times. The first and the last candidate, which is in force, stay.
        let few = [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 4, 1];
        let cases: [(&[usize], u64, &[usize]); 7] = [
            (&few, 4_096, &[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 3, 1]),
            (&few, 8_192, &[2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 4, 2]),
            (&few, 16_384, &[3, 3, 2, 2, 2, 1, 1, 1, 1, 1, 5, 3]),
            (&few, 20_000, &[3, 3, 2, 2, 2, 1, 1, 1, 1, 1, 5, 3]),
            (&few[4..], 12_288, &[2, 2, 2, 1, 1, 1, 4, 2]),
            // Those that decide alike stay while there are many.
            (&[4; 10], 16_384, &[5, 5, 2, 2, 2, 2, 2, 2, 2, 5]),
            (&[4; 8], 8_192, &[4, 4, 4, 1, 1, 1, 1, 4]),
        ];
        for (uses, requests, tries) in cases {
            let field = Field::new(uses, 300, requests);
            let (findings, said) = field.contest(|contest, _| contest.run());
            assert_eq!(field.tries(), tries, "{uses:?} {requests}");
            if uses.len() == few.len() {
                assert_eq!((findings.choice(), findings.to_string().as_str()), (10, "10 0.50, 0 inf, 1 inf"));
                assert_eq!(said.figure("10"), Some(0.6));
            }
        }
    }

    #[test]
    fn a_round_tells_who_keeps_the_limits_and_who_has_room_and_how_often_they_preempt() {
        let round = |field: &Field| field.contest(|contest, all| contest.round(all, contest.tape));
        for (limit, any_ample, expected) in
            [(2.0, true, Ample), (2.0, false, Holds), (1.5, true, Holds), (0.9, true, Open)]
        {
            let mut field = Field::new(&[4], 300, 400).limit(limit);
            field.limits.any_ample = any_ample;
            let tried = round(&field);
            assert_eq!((tried[0].standing, tried[0].figures.worst), (expected, 1.0 / limit));
            assert_eq!(tried[0].preemptions, 0);
        }
        // There is more than the workers can do.
        assert!(round(&Field::new(&[PREEMPTS], 240, 400))[0].preemptions > 0);
    }

    #[test]
    fn those_hold_that_keep_the_limits_at_a_higher_load_where_no_queue_grows() {
        let standings = |uses: &[usize], gap_ns, requests| Field::new(uses, gap_ns, requests).limit(100.0).standings();
        assert_eq!(standings(&[4], 290, 400), [Ample]);
        // That is 3.8 workers, and with an error of a twentieth and at the higher load more than there are.
        assert_eq!(standings(&[4], 260, 400), [Open]);
        // Work for three and more at a higher load: it grows to one and a half times, and to more with time.
        assert_eq!(standings(&[3], 340, 120), [Holds]);
        assert_eq!(standings(&[4, 3], 340, 120), [Ample, Open]);
        assert_eq!(standings(&[3], 340, 400), [Open]);
        // One has no room, or there are too few arrivals to say so.
        assert_eq!(Field::new(&[4], 290, 400).limit(1.5).standings(), [Holds]);
        let mut field = Field::new(&[4], 290, 400);
        field.limits.any_ample = false;
        assert_eq!(field.standings(), [Holds]);
        // What does not keep the limits is tried once.
        let field = Field::new(&[3], 300, 400);
        assert_eq!((field.standings(), field.tries()), (vec![Open], vec![1]));

        let said = [("0".to_owned(), 7.0), ("1".to_owned(), 9.0)];
        let field = Field {
            told: Said::new(said.into_iter()),
            ..Field::new(&[4, 3], 300, 400)
        };
        let tried = field.last_round();
        assert_eq!([tried[0].earlier, tried[1].earlier], [Some(7.0), Some(9.0)]);
        assert_eq!(tried[0].much_higher.map(|parts| parts.worst), Some(0.5));
    }

    #[test]
    fn trials_end_early_once_one_that_sustains_as_much_keeps_the_limits() {
        // With three workers a few of the last slowdowns are more than four times as large as they may be.
        for (uses, sustains_less, whole) in [
            ([4, 3], false, [true, false]),
            ([3, 4], false, [true, true]),
            ([3, 3], false, [true, true]),
            ([4, 3], true, [true, true]),
        ] {
            let mut field = Field::new(&uses, 325, 400).limit(1.05);
            field.candidates[0].sustains_less = sustains_less;
            let finalists = field.contest(|contest, all| contest.finalists(all, contest.tape));
            let found: Vec<bool> = finalists.iter().map(|(_, figures)| figures.parts.worst.is_finite()).collect();
            assert_eq!(found, whole, "{uses:?}");
        }
        // Of those that preempt alike, one is left.
        let field = Field::new(&[4, 4, PREEMPTS, PREEMPTS], 240, 400);
        let finalists = field.contest(|contest, all| contest.finalists(all, contest.tape));
        assert_eq!(finalists.iter().map(|(index, _)| *index).collect::<Vec<_>>(), [0, 1, 3]);
    }

    #[test]
    fn level_candidates_climb_until_one_is_left_or_the_workers_can_do_no_more() {
        let climb = |uses: &[usize], gap_ns, much_higher: Option<Parts>| {
            let field = Field::new(uses, gap_ns, 400);
            field.contest(|contest, all| {
                let parts = Parts { worst: 0.2, shortest: 0.2 };
                let new = |&index| Tried { much_higher, ..Tried::new(index, parts, Holds) };
                let mut tried: Vec<Tried> = all.iter().map(new).collect();
                contest.climb(&mut tried, contest.tape);
                tried.iter().map(|tried| tried.climbed).collect::<Vec<_>>()
            })
        };
        let rungs = |uses: &[usize], gap_ns| climb(uses, gap_ns, None).iter().map(|it| it.rungs).collect::<Vec<_>>();
        // With its error the work is for 1.05 workers, and all can do 3.6 times as much.
        assert_eq!(rungs(&[4, 4], 1_000), [5, 5]);
        assert_eq!(rungs(&[4, 2, 3], 1_000), [5, 3, 4]);
        assert_eq!(rungs(&[2, 1, 1], 1_000), [1, 0, 0]);
        assert_eq!(rungs(&[4], 1_000), [0]);
        // Where they can do thousands of times as much, only the highest loads are tried.
        assert_eq!(rungs(&[4, 3, 2], 3_000_000), [12, 11, 9]);
        // At the first of these loads it may be known how they do.
        let known = Parts { worst: 9.0, shortest: 0.2 };
        assert_eq!(climb(&[4, 4], 1_000, Some(known)), [Climbed { rungs: 0, worst: 9.0 }; 2]);
        assert_eq!(climb(&[4, 4], 1_000, None)[0].worst, 0.5);
        let most = Field::new(&[4], 1_000, 400).contest(|contest, _| contest.load_max(contest.tape));
        assert!((most - 0.95 * 4.0 / 1.05).abs() < 1e-9, "{most}");
    }
}
