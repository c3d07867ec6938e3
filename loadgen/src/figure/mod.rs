//! The figures of the papers, drawn from the policies that run in production.
//!
//! ```text
//!   persephone ─┐                                        ┌─► chart   SVG
//!   shinjuku  ──┼─► Figure ─► jobs ─► points ─► Drawing ─┼─► csv_rows
//!   synergy  ───┘   (table)   all cores                  └─► claim   the paper's numbers and ours
//! ```
//!
//! A figure is a row in the table of its paper: the systems that are compared, as one would name
//! them to `psp-loadgen sim`, the loads, and what is drawn. `docs/figures.md` shows all of them.

pub mod chart;
pub mod claim;
mod connections;
pub mod drawing;
mod job;
mod lending;
mod persephone;
mod phases;
mod shinjuku;
mod sweep;
mod synergy;
mod ticks;

pub use connections::connections_needed;
pub use job::Scale;

use std::ops::ControlFlow;

use thiserror::Error;

use crate::sim::{SimError, UnknownPolicy};
use crate::sim_settings::SettingError;
use crate::workload::WorkloadError;

use claim::Claim;
use connections::Connections;
use drawing::Drawing;
use job::{Job, Point};
use phases::Phases;
use sweep::{Sweep, System};

/// A figure of a paper.
#[derive(Debug)]
pub struct Figure {
    /// Its name on the command line: the paper and the figure's number there.
    pub name: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// What else has to be known to read it.
    pub notes: &'static [&'static str],
    /// Numbers that the paper gives for it.
    pub claims: &'static [Claim],
    body: Body,
}

#[derive(Debug)]
enum Body {
    Sweep(Sweep),
    Phases(Phases),
    Connections(Connections),
}

/// Why a figure cannot be drawn.
#[derive(Debug, Error)]
pub enum FigureError {
    /// A policy is not what the simulator calls it.
    #[error(transparent)]
    Policy(#[from] UnknownPolicy),
    /// A setting is none of the policy's.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// A workload is not known.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// A simulation failed.
    #[error(transparent)]
    Simulation(#[from] SimError),
}

/// All figures: paper by paper, then psp's own.
pub fn all() -> impl Iterator<Item = &'static Figure> {
    [
        persephone::FIGURES,
        shinjuku::FIGURES,
        synergy::FIGURES,
        lending::FIGURES,
    ]
    .into_iter()
    .flatten()
}

/// The figure of that name.
#[must_use]
pub fn named(name: &str) -> Option<&'static Figure> {
    all().find(|figure| figure.name == name)
}

/// Figures whose numbers are still to be computed.
pub struct Plot {
    drawings: Vec<Drawing>,
    jobs: Vec<Job>,
    /// Which drawing each job is for.
    owners: Vec<usize>,
}

impl Plot {
    /// Prepares `figures`.
    ///
    /// # Errors
    ///
    /// [`FigureError`], when a table names what there is not.
    pub fn new(figures: &[&'static Figure], scale: &Scale) -> Result<Self, FigureError> {
        let mut plot = Self {
            drawings: Vec::with_capacity(figures.len()),
            jobs: Vec::new(),
            owners: Vec::new(),
        };
        for (owner, figure) in figures.iter().enumerate() {
            plot.drawings.push(figure.frame(scale)?);
            plot.jobs.extend(figure.jobs(scale)?);
            plot.owners.resize(plot.jobs.len(), owner);
        }
        Ok(plot)
    }

    /// What the progress ends with: about the number of requests that are simulated.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.jobs.iter().map(|job| job.steps).sum()
    }

    /// Computes on all cores. `observe` gives each computation somebody to tell how far it is, and
    /// who may end it. What was ended is missing, and the footer says so.
    ///
    /// # Errors
    ///
    /// [`FigureError::Simulation`].
    pub fn run<Observer: FnMut(u64) -> ControlFlow<()>>(
        mut self,
        observe: impl Fn() -> Observer + Sync,
    ) -> Result<Vec<Drawing>, FigureError> {
        let results = job::run(&self.jobs, observe)?;
        for (owner, points) in self.owners.iter().zip(results) {
            let drawing = &mut self.drawings[*owner];
            let Some(points) = points else {
                let missing = "Interrupted: points are missing.".to_owned();
                if drawing.footer.last() != Some(&missing) {
                    drawing.footer.push(missing);
                }
                continue;
            };
            for Point { panel, series, at } in points {
                drawing.panels[panel].lines[series].push(at);
            }
        }
        for drawing in &mut self.drawings {
            for line in drawing.panels.iter_mut().flat_map(|panel| &mut panel.lines) {
                line.sort_by(|one, other| one.0.total_cmp(&other.0));
            }
        }
        Ok(self.drawings)
    }
}

impl Figure {
    /// The drawing without its points.
    fn frame(&self, scale: &Scale) -> Result<Drawing, FigureError> {
        let (series, panels, columns, conditions) = match &self.body {
            Body::Sweep(sweep) => (
                sweep.series(),
                sweep.panels()?,
                columns(sweep.panels.len()),
                simulated(sweep.workers, sweep.systems, &sweep.words(scale)),
            ),
            Body::Phases(phases) => (
                phases.series(),
                phases.panels(scale),
                1,
                simulated(phases.workers, phases.systems, &phases.words(scale)),
            ),
            Body::Connections(connections) => (
                vec![connections.name.to_owned()],
                vec![connections.panel()],
                1,
                vec![connections.conditions(scale)],
            ),
        };
        let notes = self.notes.iter().map(|note| (*note).to_owned());
        Ok(Drawing {
            name: self.name,
            title: self.title.to_owned(),
            series,
            panels,
            columns,
            footer: conditions.into_iter().chain(notes).collect(),
        })
    }

    fn jobs(&self, scale: &Scale) -> Result<Vec<Job>, FigureError> {
        match &self.body {
            Body::Sweep(sweep) => sweep.jobs(scale),
            Body::Phases(phases) => phases.jobs(scale),
            Body::Connections(connections) => Ok(connections.jobs(scale)),
        }
    }
}

/// Panels side by side, so that none stands alone below others.
const fn columns(panels: usize) -> usize {
    match panels {
        0..=3 => panels,
        4 => 2,
        _ => 3,
    }
}

/// The conditions of simulations, for the footer.
fn simulated(workers: usize, systems: &[System], extent: &str) -> Vec<String> {
    let conditions =
        format!("Simulated with psp's policies: {workers} workers, Poisson arrivals, {extent}.");
    let settings = systems.iter().filter_map(System::settings);
    std::iter::once(conditions).chain(settings).collect()
}
