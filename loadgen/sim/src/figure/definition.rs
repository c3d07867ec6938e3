//! A figure: what it shows, and how it is computed.

use serde::Deserialize;

use crate::chart::Drawing;

use super::claim::Claim;
use super::connections::Connections;
use super::error::FigureError;
use super::job::{Job, Scale};
use super::kind::Kind;
use super::over_time::OverTime;
use super::phases::Phases;
use super::ramp::Ramp;
use super::saturation::Saturation;
use super::sweep::Sweep;
use super::tradeoff::TradeOff;
use super::waits::Waits;

/// A figure of a paper.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// Its name on the command line: the paper and the figure's number there.
    pub name: String,
    /// Its title.
    pub title: String,
    /// Notes for the reader.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Numbers of the paper.
    #[serde(default)]
    pub claims: Vec<Claim>,
    /// Requests of a point with which the claims hold.
    #[serde(default)]
    pub claims_requests: u64,
    // One of these.
    pub(super) sweep: Option<Sweep>,
    phases: Option<Phases>,
    ramp: Option<Ramp>,
    connections: Option<Connections>,
    tradeoff: Option<TradeOff>,
    waits: Option<Waits>,
    pub(super) saturation: Option<Saturation>,
    #[serde(rename = "over-time")]
    over_time: Option<OverTime>,
}

impl Figure {
    fn kind(&self) -> Result<&dyn Kind, FigureError> {
        fn of<Table: Kind>(table: &Option<Table>) -> Option<&dyn Kind> {
            table.as_ref().map(|table| table as _)
        }
        let kinds = [
            of(&self.sweep),
            of(&self.phases),
            of(&self.ramp),
            of(&self.connections),
            of(&self.tradeoff),
            of(&self.waits),
            of(&self.saturation),
            of(&self.over_time),
        ];
        let mut kinds = kinds.into_iter().flatten();
        kinds.next().filter(|_| kinds.next().is_none()).ok_or_else(|| {
            let tables = "sweep, phases, ramp, connections, tradeoff, waits, saturation or over-time";
            FigureError::invalid(format!("a figure has one table that says what it draws: {tables}"))
        })
    }

    /// The drawing without points.
    pub(super) fn frame(&self, scale: &Scale) -> Result<Drawing, FigureError> {
        let kind = self.kind()?;
        let mut panels = kind.panels(scale)?;
        let series = kind.series();
        for panel in &mut panels {
            panel.lines = vec![Vec::new(); series.len()];
        }
        Ok(Drawing {
            name: self.name.clone(),
            title: self.title.clone(),
            series,
            columns: kind.columns(panels.len()),
            panels,
            footer: kind.conditions(scale).into_iter().chain(self.notes.iter().cloned()).collect(),
        })
    }

    pub(super) fn jobs(&self, scale: &Scale) -> Result<Vec<Job>, FigureError> {
        self.kind()?.jobs(scale)
    }

    /// Whether it can be drawn.
    pub(super) fn check(&self) -> Result<(), FigureError> {
        let scale = Scale { requests: 10_000, seed: 1 };
        let drawing = self.frame(&scale)?;
        let is_plain = |letter: char| letter.is_alphanumeric() || "-_.".contains(letter);
        if self.name.is_empty() || !self.name.chars().all(is_plain) {
            return Err(FigureError::invalid(
                "a name may have letters, digits and hyphens, underscores and dots".to_owned(),
            ));
        }
        self.jobs(&scale)?;
        for axis in drawing.panels.iter().flat_map(|panel| [&panel.x, &panel.y]) {
            let (from, to) = (axis.from, axis.to);
            if !(from < to && to.is_finite() && from >= 0.0 && (from > 0.0 || !axis.log)) {
                let label = &axis.label;
                return Err(FigureError::invalid(format!("the axis `{label}` cannot go from {from} to {to}")));
            }
        }
        for claim in &self.claims {
            claim.check(&drawing).map_err(FigureError::invalid)?;
        }
        Ok(())
    }
}
