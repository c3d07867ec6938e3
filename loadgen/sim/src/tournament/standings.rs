//! How a policy does beside the best other one, cell by cell and over groups of cells.

use psp_policy::Policy;
use serde::{Deserialize, Serialize};

use super::entrants::label;
use super::grid::{Cell, Contest, Grid, Search};
use super::journal::Journal;
use crate::experiment::CAPACITY_MIN;

/// Quantile of the normal distribution for an interval of 95 %.
const NORMAL_95: f64 = 1.96;

/// The capacity of a policy in a cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// The policy with its best settings.
    pub policy: String,
    /// The highest load that kept the objective, on average over the seeds.
    pub load: f64,
}

/// A cell in which every policy was searched.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// The cell.
    #[serde(flatten)]
    pub cell: Cell,
    /// Each policy, the champion first.
    pub loads: Vec<Load>,
}

impl Score {
    /// The champion's capacity.
    #[must_use]
    pub fn champion(&self) -> f64 {
        self.loads[0].load
    }

    /// The best of the others; the champion itself if there are none.
    #[must_use]
    pub fn rival(&self) -> &Load {
        let rivals = self.loads.iter().skip(1);
        let best = rivals.max_by(|one, other| one.load.total_cmp(&other.load));
        best.unwrap_or(&self.loads[0])
    }

    /// The best capacity of all.
    #[must_use]
    pub fn best(&self) -> f64 {
        self.champion().max(self.rival().load)
    }

    /// Whether any policy sustains enough load for a ratio.
    #[must_use]
    pub fn is_decided(&self) -> bool {
        self.best() >= CAPACITY_MIN
    }

    /// The champion's capacity by that of the best other policy. None counts as [`CAPACITY_MIN`].
    #[must_use]
    pub fn ratio(&self) -> f64 {
        self.champion().max(CAPACITY_MIN) / self.rival().load.max(CAPACITY_MIN)
    }

    /// How far the champion is ahead, as a part of the best capacity; below zero if it is behind.
    fn ahead(&self) -> f64 {
        (self.champion() - self.rival().load) / self.best()
    }
}

/// The cells that were searched.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Standings {
    /// Cells of which some searches are missing.
    pub missing: usize,
    /// The others.
    pub scores: Vec<Score>,
    /// Tolerance of the search, as a part of the capacity. Capacities that differ by no more are a tie.
    pub relative_tolerance: f64,
}

/// A group of cells in figures. Undecided cells count nowhere else.
#[derive(Debug, Clone, PartialEq)]
pub struct Tally {
    /// Decided cells.
    pub cells: usize,
    /// Cells in which no policy sustains a load to speak of.
    pub undecided: usize,
    /// Cells in which the champion is ahead by more than the tolerance.
    pub wins: usize,
    /// Cells in which it is behind by more than that.
    pub losses: usize,
    /// Geometric mean of the ratios: first over the cells of a mix, then over mixes.
    pub mean: f64,
    /// Factor of its interval of 95 % over mixes; `None` with fewer than two.
    pub within: Option<f64>,
    /// The lowest ratio.
    pub worst: f64,
    /// Parts of the cells with a ratio of at least 0.97, 1 less a tie, and 1.1.
    pub at_least: [f64; 3],
}

impl Standings {
    /// What `journal` knows of the cells of `grid`.
    #[must_use]
    pub fn new(grid: &Grid, contest: &Contest, journal: &Journal, relative_tolerance: f64) -> Self {
        let cells = grid.cells();
        let score = |&cell: &Cell| {
            let load = |policy| best_load(cell, policy, &grid.seeds, journal);
            let loads: Option<Vec<Load>> = contest.policies().map(load).collect();
            Some(Score { cell, loads: loads? })
        };
        let scores: Vec<Score> = cells.iter().filter_map(score).collect();
        Self {
            missing: cells.len() - scores.len(),
            scores,
            relative_tolerance,
        }
    }

    /// The figures of the cells that are `among` them.
    #[must_use]
    pub fn tally(&self, among: impl Fn(&Cell) -> bool) -> Tally {
        let among = self.scores.iter().filter(|score| among(&score.cell));
        let (decided, undecided): (Vec<&Score>, Vec<&Score>) = among.partition(|score| score.is_decided());
        let ratios: Vec<f64> = decided.iter().map(|score| score.ratio()).collect();
        let count = |is: &dyn Fn(&Score) -> bool| decided.iter().filter(|score| is(score)).count();
        let part = |count: usize| count as f64 / decided.len().max(1) as f64;
        let at_least = |least: f64| part(ratios.iter().filter(|&&ratio| ratio >= least).count());
        let losses = count(&|score| score.ahead() < -self.relative_tolerance);
        let (mean, within) = mean_over_mixes(&decided);
        Tally {
            cells: decided.len(),
            undecided: undecided.len(),
            wins: count(&|score| score.ahead() > self.relative_tolerance),
            losses,
            mean,
            within,
            worst: ratios.iter().copied().fold(f64::INFINITY, f64::min),
            at_least: [at_least(0.97), part(decided.len() - losses), at_least(1.1)],
        }
    }
}

/// Geometric mean, and the factor of its interval. Cells of one mix are much alike, so mixes are the sample.
fn mean_over_mixes(decided: &[&Score]) -> (f64, Option<f64>) {
    let mut mixes: Vec<u32> = decided.iter().map(|score| score.cell.mix).collect();
    mixes.sort_unstable();
    mixes.dedup();
    let of_mix = |mix: &u32| {
        let cells = decided.iter().filter(|score| score.cell.mix == *mix);
        average(cells.map(|score| score.ratio().ln()))
    };
    let logs: Vec<f64> = mixes.iter().map(of_mix).collect();
    let mean = average(logs.iter().copied());
    let within = (logs.len() > 1).then(|| {
        let squares: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
        let count = logs.len() as f64;
        (NORMAL_95 * (squares / (count - 1.0) / count).sqrt()).exp()
    });
    (mean.exp(), within)
}

/// The mean; not a number without values.
fn average(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    sum / count
}

/// The best of a policy's entrants; `None` if a search is missing.
fn best_load(cell: Cell, policy: &Policy, seeds: &[u64], journal: &Journal) -> Option<Load> {
    let mut best: Option<Load> = None;
    for entrant in cell.entrants(policy) {
        let search = |&seed: &u64| journal.load(&Search::new(cell, seed, entrant.clone()));
        let loads: Option<Vec<f64>> = seeds.iter().map(search).collect();
        let load = average(loads?.into_iter());
        if best.as_ref().is_none_or(|best| load > best.load) {
            let policy = label(&entrant);
            best = Some(Load { policy, load });
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    fn score(mix: u32, champion: f64, rivals: [f64; 2]) -> Score {
        let load = |policy: &str, load| Load { policy: policy.to_owned(), load };
        Score {
            cell: Cell {
                mix,
                workers: 2,
                slowdown: 10.0,
                preempt_ns: 2_000,
                migrates: true,
            },
            loads: vec![load("darc-lending", champion), load("sq", rivals[0]), load("mq", rivals[1])],
        }
    }

    fn standings(scores: Vec<Score>) -> Standings {
        Standings { missing: 0, scores, relative_tolerance: 0.02 }
    }

    #[test]
    fn wins_ties_and_losses_add_up() {
        let standings = standings(vec![
            score(1, 0.8, [0.4, 0.2]),
            score(1, 0.5, [0.505, 0.1]),
            score(3, 0.2, [0.1, 0.4]),
            score(3, 0.02, [0.0, 0.03]),
        ]);
        let tally = standings.tally(|_| true);
        assert_eq!((tally.cells, tally.undecided), (3, 1));
        assert_eq!((tally.wins, tally.losses), (1, 1));
        assert_eq!(tally.worst, 0.5);
        assert_eq!(tally.at_least.map(|part| (part * 3.0).round()), [2.0, 2.0, 1.0]);
        assert_eq!(standings.scores[2].rival().policy, "mq");
        let none = standings.tally(|cell| cell.mix == 5);
        assert_eq!((none.cells, none.within), (0, None));
        assert!(none.mean.is_nan());
    }

    #[test]
    fn each_mix_weighs_the_same() {
        let standings = standings(vec![
            score(1, 0.8, [0.4, 0.2]),
            score(1, 0.8, [0.4, 0.2]),
            score(1, 0.8, [0.4, 0.2]),
            score(3, 0.2, [0.4, 0.2]),
        ]);
        let tally = standings.tally(|_| true);
        assert!((tally.mean - 1.0).abs() < 1e-9, "{tally:?}");
        assert!(tally.within.is_some_and(|within| within > 2.0));
    }

    #[test]
    fn a_load_of_nothing_has_a_ratio() {
        assert_eq!(score(1, 0.0, [0.5, 0.2]).ratio(), 1.0 / 16.0);
        assert_eq!(score(1, 0.5, [0.0, 0.0]).ratio(), 16.0);
    }
}
