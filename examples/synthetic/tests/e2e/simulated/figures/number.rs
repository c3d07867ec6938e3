//! Numbers in the text of a paper, and the same of a live figure.

use psp_sim::chart::Drawing;

use super::figure::Figure;
use super::side::{Found, found_at};

/// A number of a paper.
#[derive(Debug)]
pub(super) struct Number {
    /// In the words of the paper.
    pub(super) paper: &'static str,
    /// The index of the panel that shows it.
    pub(super) panel: usize,
    pub(super) reading: Reading,
}

/// How a number is read off a figure.
#[derive(Debug)]
pub(super) enum Reading {
    /// The load up to which a series keeps the panel's objective, in thousand requests per second.
    Reach(&'static str),
    /// How many times further the first series keeps it than the second.
    Further(&'static str, &'static str),
    /// How many times lower the first series is than the second at this load, as a share of the capacity.
    Lower(&'static str, &'static str, f64),
}
use Reading::{Further, Lower, Reach};

impl Number {
    pub(super) const fn new(paper: &'static str, panel: usize, reading: Reading) -> Self {
        Self { paper, panel, reading }
    }

    /// The number of our figure, live and simulated; `None` where a line has no such point.
    fn values(&self, figure: &Figure, drawing: &Drawing, found: &[Found]) -> [Option<f64>; 2] {
        let panel = &figure.panels[self.panel];
        let series = |name: &str| {
            let mut all = figure.series.iter();
            all.position(|series| series.name == name)
                .unwrap_or_else(|| panic!("{} has no series {name}", figure.name))
        };
        std::array::from_fn(|side| {
            let drawn = &drawing.panels[side * figure.panels.len() + self.panel];
            let reach = |name| drawn.reach(series(name), panel.slo.expect("an objective"));
            match self.reading {
                Reach(name) => reach(name),
                Further(one, other) => Some(reach(one)? / reach(other)?),
                Lower(one, other, load) => {
                    let value = |name| {
                        let system = figure.series[series(name)].system;
                        let found = found_at(found, panel.case, system, load)
                            .unwrap_or_else(|| panic!("{} has no {name} at {load}", figure.name));
                        found.sides[side].value(panel.quantity, figure.tail)
                    };
                    Some(value(other) / value(one))
                }
            }
        })
    }

    /// Whether what reaches further or is lower in the paper does so here, on both sides.
    pub(super) fn is_in_order(&self, figure: &Figure, drawing: &Drawing, found: &[Found]) -> bool {
        let values = self.values(figure, drawing, found);
        match self.reading {
            Reach(_) => values.iter().all(Option::is_some),
            Further(..) | Lower(..) => { values.iter() }.all(|it| it.is_some_and(|it| it > 1.0)),
        }
    }

    /// Whether the series that reaches further keeps the objective up to its last point.
    fn is_least(&self, figure: &Figure, drawing: &Drawing, side: usize) -> bool {
        let (Reach(name) | Further(name, _)) = self.reading else {
            return false;
        };
        let drawn = &drawing.panels[side * figure.panels.len() + self.panel];
        let line = drawing.series_index(name).map(|index| &drawn.lines[index]);
        let last = line.and_then(|line| line.last());
        last.zip(figure.panels[self.panel].slo).is_some_and(|((_, y), slo)| *y <= slo)
    }

    /// A row of a table in Markdown.
    pub(super) fn row(&self, figure: &Figure, drawing: &Drawing, found: &[Found]) -> String {
        let panel = &figure.panels[self.panel];
        let what = match self.reading {
            Reach(name) => format!("{name}, thousand requests/s"),
            Further(one, other) => format!("{one} / {other}, load"),
            Lower(one, other, load) => format!("{other} / {one} at {:.0} % load", load * 100.0),
        };
        let values = self.values(figure, drawing, found);
        let cells = values.into_iter().enumerate().map(|(side, value)| {
            let Some(value) = value else {
                return "none".to_owned();
            };
            let digits = if value < 10.0 { 2 } else { 0 };
            let bound = if self.is_least(figure, drawing, side) {
                "≥ "
            } else {
                ""
            };
            format!("{bound}{value:.digits$}")
        });
        let cells: Vec<String> = cells.collect();
        let title = panel.title;
        format!("| {title}: {what} | {} | {} |\n", self.paper, cells.join(" | "))
    }
}
