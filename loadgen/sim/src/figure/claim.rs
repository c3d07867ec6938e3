//! Numbers in the text of a paper, and the same numbers of our figure.

use serde::Deserialize;

use crate::chart::{Drawing, Panel, grouped};

/// A number of a paper.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The number in the words of the paper.
    pub paper: String,
    /// How the title of the panel begins that shows it; the first panel unless set.
    panel: Option<String>,
    /// The series, by its name.
    pub series: String,

    /// The number is the x up to which the series stays at or below this y.
    reach: Option<f64>,
    /// It is the y at this x.
    at: Option<f64>,
    /// It is how many times lower that y is than the y of this series.
    than: Option<String>,
    /// The x of that other y; `at` unless set.
    than_at: Option<f64>,
    /// It is the x of the lowest point.
    #[serde(default)]
    lowest: bool,

    /// Our number divided by the paper's lies between these.
    within: Option<(f64, f64)>,
    /// It is divided by that of this series instead.
    beside: Option<String>,
    /// Our number differs from the paper's by this at most.
    apart: Option<f64>,
}

/// How a number is read off a figure.
enum Reading<'a> {
    Reach(f64),
    At(f64),
    Lower(f64, &'a str, f64),
    Lowest,
}

impl Claim {
    fn reading(&self) -> Option<Reading<'_>> {
        match (self.reach, self.at, &self.than, self.lowest) {
            (Some(limit), None, None, false) => Some(Reading::Reach(limit)),
            (None, Some(at), None, false) => Some(Reading::At(at)),
            (None, Some(at), Some(than), false) => Some(Reading::Lower(at, than, self.than_at.unwrap_or(at))),
            (None, None, None, true) => Some(Reading::Lowest),
            _ => None,
        }
    }

    fn panel<'a>(&self, drawing: &'a Drawing) -> Option<&'a Panel> {
        let begin = self.panel.as_deref().unwrap_or_default();
        drawing.panels.iter().find(|panel| panel.title.starts_with(begin))
    }

    /// Why the figure cannot have the number.
    pub(super) fn check(&self, drawing: &Drawing) -> Result<(), String> {
        let paper = &self.paper;
        if self.panel(drawing).is_none() {
            let panel = self.panel.as_deref().unwrap_or_default();
            return Err(format!("claim `{paper}`: no panel's title begins with `{panel}`"));
        }
        let mut series = [Some(&self.series), self.than.as_ref(), self.beside.as_ref()].into_iter().flatten();
        if let Some(name) = series.find(|name| drawing.series_index(name).is_none()) {
            return Err(format!("claim `{paper}`: no series is called `{name}`"));
        }
        let reading = self.reading().map(drop);
        reading.ok_or_else(|| format!("claim `{paper}`: it has `reach`, `lowest`, or `at` with or without `than`"))
    }

    /// What is compared, in words.
    #[must_use]
    pub fn subject(&self, drawing: &Drawing) -> String {
        let Self { series, .. } = self;
        let (Some(panel), Some(reading)) = (self.panel(drawing), self.reading()) else {
            return series.clone();
        };
        let (title, x, y) = (&panel.title, &panel.x.label, &panel.y.label);
        match reading {
            Reading::Reach(limit) => format!("{series}: {x} with {y} ≤ {limit} ({title})"),
            Reading::At(at) => format!("{series}: {y} at {at} ({title})"),
            Reading::Lower(at, other, from) => {
                format!("{series}: {y} at {at}, times lower than {other} at {from} ({title})")
            }
            Reading::Lowest => format!("{series}: {x} with the lowest {y} ({title})"),
        }
    }

    /// The number of our figure; `None` when the figure has no such point.
    #[must_use]
    pub fn value(&self, drawing: &Drawing) -> Option<f64> {
        self.value_of(&self.series, drawing)
    }

    fn value_of(&self, series: &str, drawing: &Drawing) -> Option<f64> {
        let panel = self.panel(drawing)?;
        let series = drawing.series_index(series)?;
        match self.reading()? {
            Reading::Reach(limit) => panel.reach(series, limit),
            Reading::At(x) => panel.value_at(series, x),
            Reading::Lower(at, other, from) => {
                let other = panel.value_at(drawing.series_index(other)?, from)?;
                Some(other / panel.value_at(series, at)?)
            }
            Reading::Lowest => {
                let points = panel.lines.get(series)?.iter();
                points.min_by(|one, other| one.1.total_cmp(&other.1)).map(|point| point.0)
            }
        }
    }

    /// Whether our number is as near the paper's as the claim says.
    ///
    /// # Errors
    ///
    /// What differs, and by how much.
    pub fn compare(&self, drawing: &Drawing) -> Result<(), String> {
        let ours = self.value(drawing);
        let (found, (from, to)) = match (self.within, &self.beside, self.apart) {
            (Some(range), None, None) => (ours.zip(self.number()).map(|(ours, paper)| ours / paper), range),
            (Some(range), Some(beside), None) => {
                (ours.zip(self.value_of(beside, drawing)).map(|(ours, beside)| ours / beside), range)
            }
            (None, None, Some(apart)) => {
                (ours.zip(self.number()).map(|(ours, paper)| (ours - paper).abs()), (0.0, apart))
            }
            _ => return Err(format!("{}: it has neither `within` nor `apart`", self.subject(drawing))),
        };
        let is_near = found.is_some_and(|found| (from..=to).contains(&found));
        is_near
            .then_some(())
            .ok_or_else(|| format!("{}: {found:?}, not from {from} to {to}", self.subject(drawing)))
    }

    /// The number with which the paper's words begin: 15.7 of `15.7 (figure 3)`, 16000 of `16 000`.
    fn number(&self) -> Option<f64> {
        let letters = self.paper.chars().filter(|letter| *letter != ' ');
        let digits: String = letters.take_while(|letter| letter.is_ascii_digit() || *letter == '.').collect();
        digits.parse().ok()
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
