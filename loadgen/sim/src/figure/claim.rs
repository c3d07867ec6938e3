//! Numbers in the text of a paper, and the same numbers of our figure.

use crate::chart::{Drawing, grouped};

/// A number of a paper.
#[derive(Debug, Clone, Copy)]
pub struct Claim {
    /// The number in the words of the paper.
    pub paper: &'static str,
    /// The index of the panel that shows it.
    pub panel: usize,
    /// The series, by its name.
    pub series: &'static str,
    /// How the number is read off the figure.
    pub reading: Reading,
}

/// How a number is read off a figure.
#[derive(Debug, Clone, Copy)]
pub enum Reading {
    /// The x up to which the series stays at or below this y.
    Reach(f64),
    /// The y at this x.
    At(f64),
    /// How many times lower y is at this x than y of a series (the same or another) at another x.
    Lower(f64, (&'static str, f64)),
    /// The x of the lowest point.
    Lowest,
}

impl Claim {
    pub(super) const fn new(paper: &'static str, panel: usize, series: &'static str, reading: Reading) -> Self {
        Self { paper, panel, series, reading }
    }

    /// What is compared, in words.
    #[must_use]
    pub fn subject(&self, drawing: &Drawing) -> String {
        let Self { series, .. } = self;
        let Some(panel) = drawing.panels.get(self.panel) else {
            return (*series).to_owned();
        };
        let (title, x, y) = (&panel.title, &panel.x.label, &panel.y.label);
        match self.reading {
            Reading::Reach(limit) => format!("{series}: {x} with {y} ≤ {limit} ({title})"),
            Reading::At(at) => format!("{series}: {y} at {at} ({title})"),
            Reading::Lower(at, (other, from)) => {
                format!("{series}: {y} at {at}, times lower than {other} at {from} ({title})")
            }
            Reading::Lowest => format!("{series}: {x} with the lowest {y} ({title})"),
        }
    }

    /// The number of our figure; `None` when the figure has no such point.
    #[must_use]
    pub fn value(&self, drawing: &Drawing) -> Option<f64> {
        let panel = drawing.panels.get(self.panel)?;
        let series = drawing.series_index(self.series)?;
        match self.reading {
            Reading::Reach(limit) => panel.reach(series, limit),
            Reading::At(x) => panel.value_at(series, x),
            Reading::Lower(at, (other, from)) => {
                let other = panel.value_at(drawing.series_index(other)?, from)?;
                Some(other / panel.value_at(series, at)?)
            }
            Reading::Lowest => {
                let points = panel.lines.get(series)?.iter();
                points.min_by(|one, other| one.1.total_cmp(&other.1)).map(|point| point.0)
            }
        }
    }
}

/// The header of [`rows`].
pub const HEADER: &str = "| number | paper | ours |\n| --- | --- | --- |\n";

/// A table of `claims` in Markdown, without a header.
#[must_use]
pub fn rows(claims: &[Claim], drawing: &Drawing) -> String {
    let row = |claim: &Claim| {
        let ours = claim.value(drawing).map_or_else(|| "none".to_owned(), short);
        format!("| {} | {} | {ours} |\n", claim.subject(drawing), claim.paper)
    };
    claims.iter().map(row).collect()
}

/// Three significant digits, or all digits before the point.
fn short(value: f64) -> String {
    let decimals = (2.0 - value.abs().max(1e-9).log10().floor()).clamp(0.0, 3.0);
    let rounding = 10f64.powf(decimals);
    grouped((value * rounding).round() / rounding)
}
