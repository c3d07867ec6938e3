//! Computes figures: all simulations of all figures, on all cores.

use std::ops::ControlFlow;

use crate::chart::Drawing;

use super::definition::Figure;
use super::error::FigureError;
use super::job::{self, Job, Point, Scale};

/// Figures before their simulations.
pub struct Plot {
    drawings: Vec<Drawing>,
    jobs: Vec<Job>,
    /// Which drawing each job belongs to.
    owners: Vec<usize>,
}

impl Plot {
    /// Prepares `figures`.
    ///
    /// # Errors
    ///
    /// [`FigureError`] when a definition cannot be drawn.
    pub fn new(figures: &[&Figure], scale: &Scale) -> Result<Self, FigureError> {
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

    /// The final value of the progress: about the number of simulated requests.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.jobs.iter().map(|job| job.steps).sum()
    }

    /// Runs all simulations on all cores. `observe` makes an observer of progress for each, which
    /// may stop it. Points of stopped simulations are missing, and the footer says so.
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
