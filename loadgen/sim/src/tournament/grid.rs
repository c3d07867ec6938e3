//! The cells of a tournament, and the searches that they need.

use std::collections::BTreeSet;
use std::fmt;

use psp_policy::Policy;
use rand::seq::SliceRandom;
use serde::{Deserialize, Serialize};

use super::entrants::settings_of;
use super::mixes::{Half, mix};
use crate::experiment::{Scope, Slo, Tolerance};
use crate::random::stream_rng;
use crate::simulator::{Costs, SimPlan};

/// Percentile of the slowdowns that must stay within the objective.
const PERCENTILE: f64 = 99.9;
/// Sigma of the time that a preemption takes, whose median is the cost of the cell.
const PREEMPT_SIGMA: f64 = 0.5;
/// Contexts of a worker where requests stay at home: the default of live servers.
const CONTEXTS: usize = 4096;
/// Seed of the order of cells.
const ORDER_SEED: u64 = 1;

/// What a tournament is made of. Every combination is a cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Grid {
    /// Number of the first mix.
    pub first_mix: u32,
    /// Mixes, of which `half` takes part.
    pub mixes: u32,
    /// Which of them take part.
    pub half: Half,
    /// Numbers of workers.
    pub workers: Vec<usize>,
    /// Objectives: limits of each type's slowdown at p99.9.
    pub slowdowns: Vec<f64>,
    /// Times from the decision to preempt to the freed worker, in microseconds: the medians.
    pub preempt_us: Vec<f64>,
    /// Whether any worker may resume a preempted request.
    pub migrates: Vec<bool>,
    /// Seeds. A policy's capacity in a cell is the mean over them.
    pub seeds: Vec<u64>,
    /// So many of the cells, drawn at random; all unless set.
    pub cells: Option<usize>,
}

/// A workload on a server, with an objective.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Cell {
    /// Number of the mix.
    pub mix: u32,
    /// Workers.
    pub workers: usize,
    /// Limit of each type's slowdown.
    pub slowdown: f64,
    /// What a preemption costs, in nanoseconds.
    pub preempt_ns: u64,
    /// Whether any worker may resume a preempted request.
    pub migrates: bool,
}

/// How closely each search looks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Extent {
    /// Measured arrivals of each simulation.
    pub requests: u64,
    /// Tolerance of the search, as a part of the capacity. Older journals have a `tolerance` of the load instead. They
    /// get 0 here, which no search has, so they do not count.
    #[serde(default)]
    pub relative_tolerance: f64,
}

impl Extent {
    /// How exact a search is.
    #[must_use]
    pub const fn tolerance(self) -> Tolerance {
        Tolerance::Relative(self.relative_tolerance)
    }
}

/// One search for the capacity of one policy.
#[derive(Debug, Clone, PartialEq)]
pub struct Search {
    /// Where. What makes no difference to the policy has one value for all cells.
    pub cell: Cell,
    /// Seed of arrivals and service times.
    pub seed: u64,
    /// The policy with its settings.
    pub policy: Policy,
}

/// Who takes part.
#[derive(Debug, Clone, PartialEq)]
pub struct Contest {
    /// The policy in question, with its settings.
    pub champion: Policy,
    /// All others, each with a range of settings if it has one.
    pub rivals: Vec<Policy>,
}

impl Default for Grid {
    /// The whole tournament.
    fn default() -> Self {
        Self {
            first_mix: 0,
            mixes: super::mixes::MIXES,
            half: Half::default(),
            workers: vec![2, 4, 8, 16, 32],
            slowdowns: vec![10.0, 20.0, 50.0],
            preempt_us: vec![0.2, 2.0, 5.0, 20.0],
            migrates: vec![false, true],
            seeds: vec![1, 2, 3],
            cells: None,
        }
    }
}

impl Grid {
    /// The cells in an order in which the first ones are a fair sample of all.
    #[must_use]
    pub fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        let mixes = self.first_mix..self.first_mix + self.mixes;
        for mix in mixes.filter(|&mix| self.half.has(mix)) {
            for &workers in &self.workers {
                for &slowdown in &self.slowdowns {
                    for &preempt_us in &self.preempt_us {
                        for &migrates in &self.migrates {
                            cells.push(Cell {
                                mix,
                                workers,
                                slowdown,
                                preempt_ns: (preempt_us * 1e3).round() as u64,
                                migrates,
                            });
                        }
                    }
                }
            }
        }
        let mut rng = stream_rng(ORDER_SEED, cells.len() as u64);
        cells.shuffle(&mut rng);
        cells.truncate(self.cells.unwrap_or(usize::MAX));
        cells
    }

    /// The searches that the cells need, each once.
    #[must_use]
    pub fn searches(&self, contest: &Contest) -> Vec<Search> {
        let mut known = BTreeSet::new();
        let mut searches = Vec::new();
        for cell in self.cells() {
            for policy in contest.policies() {
                for policy in cell.entrants(policy) {
                    for &seed in &self.seeds {
                        let search = Search::new(cell, seed, policy.clone());
                        if known.insert(search.key()) {
                            searches.push(search);
                        }
                    }
                }
            }
        }
        searches
    }
}

impl Contest {
    /// All policies, the champion first.
    pub fn policies(&self) -> impl Iterator<Item = &Policy> {
        std::iter::once(&self.champion).chain(&self.rivals)
    }
}

impl Cell {
    /// The settings with which a policy takes part here.
    #[must_use]
    pub fn entrants(&self, policy: &Policy) -> Vec<Policy> {
        settings_of(policy, &mix(self.mix), self.workers, self.preempt_ns)
    }

    /// Its objective.
    #[must_use]
    pub const fn slo(&self) -> Slo {
        Slo {
            slowdown: self.slowdown,
            percentile: PERCENTILE,
            scope: Scope::PerType,
        }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { mix, workers, slowdown, preempt_ns, migrates } = *self;
        let home = if migrates { "migrating" } else { "at home" };
        let preempt_us = preempt_ns as f64 / 1e3;
        write!(f, "mix-{mix}, {workers} workers, SLO {slowdown}, {preempt_us} us, {home}")
    }
}

/// The name of a search for the capacity of `policy`, with all its settings.
pub(super) fn key(cell: &Cell, seed: u64, policy: &str) -> String {
    format!("{cell}, seed {seed}: {policy}")
}

impl Search {
    /// The search for a policy's capacity in `cell`.
    #[must_use]
    pub fn new(mut cell: Cell, seed: u64, policy: Policy) -> Self {
        if !policy.can_preempt() {
            (cell.preempt_ns, cell.migrates) = (0, true);
        }
        Self { cell, seed, policy }
    }

    /// What tells it from other searches of the same extent.
    #[must_use]
    pub fn key(&self) -> String {
        key(&self.cell, self.seed, &self.policy.spelled())
    }

    /// The simulation. Its load is for the search to choose.
    #[must_use]
    pub fn plan(&self, extent: Extent) -> SimPlan {
        let Cell { mix: number, workers, slowdown, preempt_ns, migrates } = self.cell;
        let mut workload = mix(number);
        for ty in &mut workload.types {
            ty.slo_ns = Some((ty.service_ns as f64 * slowdown) as u64);
        }
        let mut plan = SimPlan::new(workload, self.policy.clone(), workers, 1.0).requests(extent.requests);
        plan.seed = self.seed;
        plan.costs = Costs { preempt_ns, preempt_sigma: PREEMPT_SIGMA, ..Costs::default() };
        plan.preemption = true;
        plan.migrates = migrates;
        plan.contexts = (!migrates).then_some(CONTEXTS);
        plan.hints = true;
        plan
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid() -> Grid {
        Grid {
            mixes: 4,
            workers: vec![2, 4],
            slowdowns: vec![10.0],
            preempt_us: vec![0.2, 2.0],
            seeds: vec![1, 2],
            ..Grid::default()
        }
    }

    #[test]
    fn cells_are_all_combinations_of_the_half() {
        let mut grid = grid();
        let cells = grid.cells();
        assert_eq!(cells.len(), 2 * 2 * 2 * 2);
        assert!(cells.iter().all(|cell| cell.mix % 2 == 1));
        grid.cells = Some(3);
        assert_eq!(grid.cells(), cells[..3]);
        grid.first_mix = 4;
        assert!(grid.cells().iter().all(|cell| [5, 7].contains(&cell.mix)));
        grid.half = Half::All;
        grid.cells = None;
        assert_eq!(grid.cells().len(), 2 * cells.len());
    }

    #[test]
    fn what_makes_no_difference_is_searched_once() {
        let contest = Contest {
            champion: Policy::darc_lending(),
            rivals: vec![Policy::c_fcfs()],
        };
        let searches = grid().searches(&contest);
        let of = |name: &str| {
            let of = searches.iter().filter(|search| search.policy.name() == name);
            of.count()
        };
        assert_eq!(of("darc-lending"), 16 * 2);
        assert_eq!(of("c-fcfs"), 4 * 2, "neither cost nor home matters to it");
    }

    #[test]
    fn every_search_can_be_simulated() {
        let contest = Contest {
            champion: Policy::darc_lending(),
            rivals: Policy::NAMES.iter().map(|name| name.parse().unwrap()).collect(),
        };
        let extent = Extent { requests: 100, relative_tolerance: 0.1 };
        let grid = Grid { mixes: 2, ..Grid::default() };
        for search in grid.searches(&contest) {
            let plan = search.plan(extent);
            plan.validate().unwrap_or_else(|error| panic!("{}: {error}", search.key()));
        }
    }
}
