//! A figure: what it shows, and how it is computed.

use crate::chart::Drawing;

use super::claim::Claim;
use super::connections::Connections;
use super::error::FigureError;
use super::job::{Job, Scale};
use super::phases::Phases;
use super::ramp::{Line, Ramp};
use super::saturation::Saturation;
use super::sweep::{Sweep, System};
use super::tradeoff::TradeOff;
use super::waits::Waits;

/// A figure of a paper.
#[derive(Debug)]
pub struct Figure {
    /// Its name on the command line: the paper and the figure's number there.
    pub name: &'static str,
    /// Its title.
    pub title: &'static str,
    /// Notes for the reader.
    pub notes: &'static [&'static str],
    /// Numbers of the paper.
    pub claims: &'static [Claim],
    pub(super) body: Body,
}

#[derive(Debug)]
pub(super) enum Body {
    Sweep(Sweep),
    Phases(Phases),
    Ramp(Ramp),
    Connections(Connections),
    TradeOff(TradeOff),
    Waits(Waits),
    Saturation(Saturation),
}

impl Figure {
    /// The drawing without points.
    pub(super) fn frame(&self, scale: &Scale) -> Result<Drawing, FigureError> {
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
            Body::Ramp(ramp) => {
                let systems: Vec<System> = ramp.lines.iter().map(|line: &Line| line.system).collect();
                (ramp.series(), ramp.panels(), 3, simulated(ramp.workers, &systems, &ramp.words(scale)))
            }
            Body::TradeOff(tradeoff) => (
                tradeoff.series(),
                tradeoff.panels(),
                tradeoff.systems.len(),
                simulated(tradeoff.ramp.workers, tradeoff.systems, &tradeoff.words(scale)),
            ),
            Body::Waits(waits) => (waits.series(), vec![waits.panel()], 1, waits.conditions(scale)),
            Body::Connections(connections) => (
                vec![connections.name.to_owned()],
                vec![connections.panel()],
                1,
                vec![connections.conditions(scale)],
            ),
            Body::Saturation(saturation) => (
                saturation.series(),
                saturation.panels(),
                columns(saturation.panels.len()),
                vec![saturation.conditions()],
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

    pub(super) fn jobs(&self, scale: &Scale) -> Result<Vec<Job>, FigureError> {
        match &self.body {
            Body::Sweep(sweep) => sweep.jobs(scale),
            Body::Phases(phases) => phases.jobs(scale),
            Body::Ramp(ramp) => ramp.jobs(scale),
            Body::Connections(connections) => Ok(connections.jobs(scale)),
            Body::TradeOff(tradeoff) => tradeoff.jobs(scale),
            Body::Waits(waits) => waits.jobs(scale),
            Body::Saturation(saturation) => Ok(saturation.jobs()),
        }
    }
}

/// Panels side by side, so that no panel stands alone in a row.
const fn columns(panels: usize) -> usize {
    match panels {
        0..=3 => panels,
        4 => 2,
        _ => 3,
    }
}

/// The conditions of simulations, for the footer.
fn simulated(workers: usize, systems: &[System], extent: &str) -> Vec<String> {
    let conditions = format!("Simulated with psp's policies: {workers} workers, Poisson arrivals, {extent}.");
    let settings = System::settings(systems);
    std::iter::once(conditions).chain(settings).collect()
}
