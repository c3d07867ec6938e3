//! Results of `psp-loadgen tournament`.

use std::fmt;

use psp_policy::Policy;
use serde::{Deserialize, Serialize};

use super::entrants::SEARCHED;
use super::grid::{Cell, Extent, Grid};
use super::mixes::mix;
use super::standings::{Score, Standings, Tally};
use crate::chart::{Axis, Drawing, Panel};
use crate::experiment::{CAPACITY_MIN, Found};
use crate::text::{Csv, Table, distinct};
use crate::workload::{ArrivalProcess, Distribution};

/// Name and version of [`TournamentReport`]'s JSON.
const SCHEMA: &str = "psp-tournament/2";
/// Cells in the table of those in which the champion is furthest behind.
const WORST: usize = 15;
/// Ratios that the drawing shows.
const RATIOS: [f64; 2] = [0.25, 4.0];

/// The results of one call of `psp-loadgen tournament`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TournamentReport {
    /// Name and version of the format.
    pub schema: String,
    /// The policy in question.
    pub champion: String,
    /// The cells.
    pub grid: Grid,
    /// How closely each search looked.
    pub extent: Extent,
    /// The settings that were searched.
    pub searched: String,
    /// Whether it was interrupted.
    pub interrupted: bool,
    /// What was found.
    #[serde(flatten)]
    pub standings: Standings,
}

impl TournamentReport {
    /// Combines what was found with how.
    #[must_use]
    pub fn new(champion: &Policy, grid: Grid, extent: Extent, standings: Standings, interrupted: bool) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            champion: super::entrants::label(champion),
            grid,
            extent,
            searched: SEARCHED.to_owned(),
            interrupted,
            standings,
        }
    }

    /// The conditions in words.
    #[must_use]
    pub fn title(&self) -> String {
        let Extent { requests, relative_tolerance } = self.extent;
        let seeds: Vec<String> = self.grid.seeds.iter().map(u64::to_string).collect();
        let missing = match self.standings.missing {
            0 => String::new(),
            missing => format!("; {missing} cells are not done"),
        };
        format!(
            "{}: {} cells of {} of mix-{} to mix-{}, {requests} requests after {} of warm-up, to within {} %, \
             seeds {}{missing}",
            self.champion,
            self.standings.scores.len(),
            self.grid.half,
            self.grid.first_mix,
            self.grid.first_mix + self.grid.mixes - 1,
            requests / 10,
            relative_tolerance * 100.0,
            seeds.join(", "),
        )
    }

    /// Titles and tables.
    #[must_use]
    pub fn tables(&self) -> Vec<(String, Table)> {
        vec![
            ("beside the best other policy".to_owned(), self.groups()),
            ("where it is furthest behind".to_owned(), self.worst()),
            ("all policies".to_owned(), self.policies()),
        ]
    }

    /// Groups of cells by one property each.
    fn groups(&self) -> Table {
        let heads = [
            "cells of",
            "",
            "cells",
            "wins",
            "ties",
            "losses",
            "mean",
            "95 % of it",
            "worst",
            ">= 0.97",
            "no loss",
            ">= 1.1",
            "undecided",
        ];
        let mut table = Table::new(2, heads);
        let mut push = |of: &str, which: &str, among: &dyn Fn(&Cell) -> bool| {
            let tally = self.standings.tally(among);
            if tally.cells + tally.undecided > 0 {
                table.push(row(of, which, &tally));
            }
        };
        push("all", "", &|_| true);
        let grid = &self.grid;
        for &workers in &grid.workers {
            push("workers", &workers.to_string(), &|cell| cell.workers == workers);
        }
        for &slowdown in &grid.slowdowns {
            push("SLO", &slowdown.to_string(), &|cell| cell.slowdown == slowdown);
        }
        for &us in &grid.preempt_us {
            let ns = us * 1e3;
            push("preemption, us", &us.to_string(), &|cell| (cell.preempt_ns as f64 - ns).abs() < 1.0);
        }
        for &migrates in &grid.migrates {
            let which = if migrates { "migrating" } else { "at home" };
            push("requests", which, &|cell| cell.migrates == migrates);
        }
        push("arrivals", "Poisson", &|cell| !is_bursty(cell));
        push("arrivals", "bursty", &is_bursty);
        push("types", "mostly fixed", &|cell| !varies(cell));
        push("types", "mostly varied", &varies);
        table
    }

    /// The decided cells with the lowest ratios.
    fn worst(&self) -> Table {
        let heads = [
            "mix",
            "requests",
            "best other",
            "workers",
            "SLO",
            "preemption, us",
            "its",
            "best",
            "ratio",
        ];
        let mut table = Table::new(3, heads);
        for (ratio, score) in self.by_ratio().into_iter().take(WORST) {
            let cell = &score.cell;
            let home = if cell.migrates { "migrating" } else { "at home" };
            table.push(vec![
                format!("mix-{}", cell.mix),
                home.to_owned(),
                score.rival().policy.clone(),
                cell.workers.to_string(),
                cell.slowdown.to_string(),
                (cell.preempt_ns as f64 / 1e3).to_string(),
                format!("{:.3}", score.champion()),
                format!("{:.3}", score.rival().load),
                format!("{ratio:.2}"),
            ]);
        }
        table
    }

    /// The decided cells, the lowest ratio first.
    fn by_ratio(&self) -> Vec<(f64, &Score)> {
        let decided = self.standings.scores.iter().filter(|score| score.is_decided());
        let mut scores: Vec<(f64, &Score)> = decided.map(|score| (score.ratio(), score)).collect();
        scores.sort_by(|one, other| one.0.total_cmp(&other.0));
        scores
    }

    /// Each policy beside the best of all.
    fn policies(&self) -> Table {
        let mut table = Table::new(1, ["policy", "best or tied", "mean of the best", "worst"]);
        let decided: Vec<&Score> = self.standings.scores.iter().filter(|score| score.is_decided()).collect();
        let Some(first) = decided.first() else {
            return table;
        };
        for (index, load) in first.loads.iter().enumerate() {
            let name = load.policy.split(' ').next().unwrap_or_default();
            let parts: Vec<f64> = decided
                .iter()
                .map(|score| score.loads[index].load.max(CAPACITY_MIN) / score.best())
                .collect();
            let least = 1.0 - self.extent.relative_tolerance;
            let is_best = |score: &&&Score| score.loads[index].load >= score.best() * least;
            let logs: f64 = parts.iter().map(|part| part.ln()).sum();
            table.push(vec![
                name.to_owned(),
                decided.iter().filter(is_best).count().to_string(),
                format!("{:.2}", (logs / parts.len() as f64).exp()),
                format!("{:.2}", parts.iter().copied().fold(f64::INFINITY, f64::min)),
            ]);
        }
        table
    }

    /// The ratios in ascending order, a line for each number of workers.
    #[must_use]
    pub fn drawing(&self) -> Drawing {
        let by_ratio = self.by_ratio();
        let workers = distinct(self.grid.workers.iter().copied());
        let line = |of: &Option<usize>| {
            let cells = by_ratio.iter();
            let ratios: Vec<f64> = cells
                .filter(|(_, score)| of.is_none_or(|workers| score.cell.workers == workers))
                .map(|(ratio, _)| ratio.clamp(RATIOS[0], RATIOS[1]))
                .collect();
            let count = ratios.len() as f64;
            let at = |(index, ratio): (usize, f64)| (100.0 * (index as f64 + 0.5) / count, ratio);
            ratios.into_iter().enumerate().map(at).collect()
        };
        let of: Vec<Option<usize>> = std::iter::once(None).chain(workers.iter().copied().map(Some)).collect();
        let name = |of: &Option<usize>| match of {
            None => "all".to_owned(),
            Some(workers) => format!("{workers} workers"),
        };
        Drawing {
            name: "tournament".to_owned(),
            title: format!("{} beside the best other policy", self.champion),
            series: of.iter().map(name).collect(),
            panels: vec![Panel {
                lines: of.iter().map(line).collect(),
                target: Some((1.0, "as good".to_owned())),
                ..Panel::new(
                    "capacity by that of the best other",
                    Axis::linear("cells, %", 0.0, 100.0),
                    Axis::log("ratio", RATIOS[0], RATIOS[1]),
                )
            }],
            columns: 1,
            footer: vec![self.title()],
        }
    }
}

fn is_bursty(cell: &Cell) -> bool {
    matches!(mix(cell.mix).arrivals, ArrivalProcess::Bursty(_))
}

/// Whether more than half of the requests are of types whose own service times vary.
fn varies(cell: &Cell) -> bool {
    let mix = mix(cell.mix);
    let varied = mix.types.iter().filter(|ty| ty.distribution != Distribution::Fixed);
    varied.map(|ty| ty.share).sum::<f64>() > 0.5
}

fn row(of: &str, which: &str, tally: &Tally) -> Vec<String> {
    let percent = |part: f64| format!("{:.0} %", part * 100.0);
    let ratio = |ratio: f64| {
        if ratio.is_finite() {
            format!("{ratio:.2}")
        } else {
            "-".to_owned()
        }
    };
    let [near, even, ahead] = tally.at_least.map(percent);
    vec![
        of.to_owned(),
        which.to_owned(),
        tally.cells.to_string(),
        tally.wins.to_string(),
        (tally.cells - tally.wins - tally.losses).to_string(),
        tally.losses.to_string(),
        ratio(tally.mean),
        tally.within.map_or_else(
            || "-".to_owned(),
            |within| format!("{:.2} to {:.2}", tally.mean / within, tally.mean * within),
        ),
        ratio(tally.worst),
        near,
        even,
        ahead,
        tally.undecided.to_string(),
    ]
}

impl Found for TournamentReport {
    /// One line for each cell and policy.
    fn csv(&self) -> String {
        let heads = ["mix", "workers", "slowdown", "preempt_ns", "migrates", "policy", "capacity_load"];
        let mut csv = Csv::new(heads);
        for score in &self.standings.scores {
            let cell = &score.cell;
            for load in &score.loads {
                csv.push([
                    cell.mix.to_string(),
                    cell.workers.to_string(),
                    cell.slowdown.to_string(),
                    cell.preempt_ns.to_string(),
                    cell.migrates.to_string(),
                    load.policy.clone(),
                    load.load.to_string(),
                ]);
            }
        }
        csv.into_text()
    }

    fn markdown(&self) -> String {
        let tables = self.tables();
        let tables = tables.iter().map(|(title, table)| format!("\n{title}\n\n{}", table.markdown()));
        std::iter::once(self.title() + "\n").chain(tables).collect()
    }
}

impl fmt::Display for TournamentReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\nsearched: {}", self.title(), self.searched)?;
        for (title, table) in self.tables() {
            write!(f, "\n{title}\n\n{table}")?;
        }
        Ok(())
    }
}
