//! A live figure: what it draws, and the numbers that the paper's text gives for it.

use psp_sim::chart::Drawing;

use super::case::Case;
use super::number::Number;
use super::side::Found;

/// A figure of a paper, drawn from live servers.
#[derive(Debug)]
pub(super) struct Figure {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// The quantile on the vertical axes.
    pub(super) tail: f64,
    pub(super) series: &'static [Series],
    /// Drawn twice: live, and simulated.
    pub(super) panels: &'static [PanelOf],
    /// Numbers of the paper.
    pub(super) numbers: &'static [Number],
}

/// One line in the panels of a [`Figure`].
#[derive(Debug)]
pub(super) struct Series {
    /// Its name in the figure.
    pub(super) name: &'static str,
    /// The system of the panels' cases. A case without it has no such line.
    pub(super) system: &'static str,
    /// Which worker, where workers are drawn. Other panels have the lines of [`Share::Mean`] alone.
    pub(super) share: Share,
}

/// A worker's time spent on service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Share {
    /// All workers on average.
    Mean,
    /// The busiest worker.
    Most,
    /// The idlest worker.
    Least,
}

/// One panel of a [`Figure`].
#[derive(Debug)]
pub(super) struct PanelOf {
    pub(super) title: &'static str,
    pub(super) case: &'static Case,
    pub(super) quantity: Quantity,
    /// Ends of the vertical axis.
    pub(super) range: (f64, f64),
    /// A line across at this value: the objective.
    pub(super) slo: Option<f64>,
}

/// The quantity on a vertical axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quantity {
    /// Of all requests.
    Slowdown,
    /// Of all requests, in microseconds before dilation.
    Latency,
    /// The same of one type, by its index.
    LatencyOf(usize),
    /// Preemptions for each request.
    Preemptions,
    /// Time that workers spent on service, in percent.
    Busy,
}

impl Series {
    pub(super) const fn new(name: &'static str, system: &'static str) -> Self {
        Self { name, system, share: Share::Mean }
    }
}

impl PanelOf {
    pub(super) const fn slo(self, slo: f64) -> Self {
        Self { slo: Some(slo), ..self }
    }
}

impl Figure {
    /// The cases of its panels, each once.
    pub(super) fn cases(&self) -> Vec<&'static Case> {
        let mut cases: Vec<&'static Case> = self.panels.iter().map(|panel| panel.case).collect();
        cases.dedup_by(|one, other| std::ptr::eq(*one, *other));
        cases
    }

    /// The paper's numbers beside ours.
    pub(super) fn table(&self, drawing: &Drawing, found: &[Found]) -> String {
        let rows = self.numbers.iter().map(|it| it.row(self, drawing, found));
        let header = "| number | paper | live | the same, simulated |\n| --- | --- | --- | --- |\n";
        std::iter::once(header.to_owned()).chain(rows).collect()
    }

    /// The numbers that put systems in another order than the paper.
    pub(super) fn wrong_order(&self, drawing: &Drawing, found: &[Found]) -> Vec<String> {
        let numbers = self.numbers.iter();
        let wrong = numbers.filter(|it| !it.is_in_order(self, drawing, found));
        wrong.map(|it| format!("{}: {}", self.name, it.row(self, drawing, found))).collect()
    }
}
