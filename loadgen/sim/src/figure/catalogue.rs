//! The files with all figures.

use std::path::Path;
use std::sync::LazyLock;

use serde::Deserialize;
use toml::Spanned;

use crate::text;

use super::definition::Figure;
use super::error::FigureError;

/// Paper by paper, then psp's own.
static FILES: LazyLock<Vec<File>> = LazyLock::new(|| {
    let texts = [
        include_str!("../../figures/persephone.toml"),
        include_str!("../../figures/shinjuku.toml"),
        include_str!("../../figures/synergy.toml"),
        include_str!("../../figures/arachne.toml"),
        include_str!("../../figures/psp.toml"),
        include_str!("../../figures/overload.toml"),
    ];
    texts
        .into_iter()
        .map(|text| toml::from_str(text).expect("the tables are right"))
        .collect()
});

/// The figures of a paper.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// Figures and tables of the paper's evaluation that are not drawn here.
    #[serde(default)]
    elsewhere: Vec<Elsewhere>,
    #[serde(rename = "figure")]
    figures: Vec<Spanned<Figure>>,
}

/// A figure or table that is not drawn here.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Elsewhere {
    /// The paper, and its number there.
    pub figure: String,
    /// Where it is instead, or why it is not.
    #[serde(rename = "where")]
    pub place: String,
}

/// All figures: paper by paper, then psp's own.
pub fn all() -> impl Iterator<Item = &'static Figure> {
    FILES.iter().flat_map(|file| &file.figures).map(Spanned::get_ref)
}

/// Figures and tables of the papers' evaluations that are not here.
pub fn elsewhere() -> impl Iterator<Item = &'static Elsewhere> {
    FILES.iter().flat_map(|file| &file.elsewhere)
}

/// The figure of that name.
#[must_use]
pub fn named(name: &str) -> Option<&'static Figure> {
    all().find(|figure| figure.name == name)
}

/// The figures of a file like those of psp. `docs/figures.md` documents the format.
///
/// # Errors
///
/// [`FigureError::Read`], and [`FigureError::File`] for the first figure that cannot be drawn.
pub fn read(path: &Path) -> Result<Vec<Figure>, FigureError> {
    let shown = path.display().to_string();
    match text::read(path) {
        Ok(text) => parse(&shown, &text),
        Err(error) => Err(FigureError::Read { path: shown, reason: error.to_string() }),
    }
}

fn parse(path: &str, text: &str) -> Result<Vec<Figure>, FigureError> {
    let mistake = |at: usize, reason: String| FigureError::File {
        path: path.to_owned(),
        line: 1 + text[..at].matches('\n').count(),
        reason,
    };
    let file: File = toml::from_str(text).map_err(|error: toml::de::Error| {
        mistake(error.span().map_or(0, |span| span.start), error.message().to_owned())
    })?;
    for figure in &file.figures {
        let checked = figure.get_ref().check();
        checked.map_err(|error| mistake(figure.span().start, format!("{}: {error}", figure.get_ref().name)))?;
    }
    Ok(file.figures.into_iter().map(Spanned::into_inner).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINE: &str = r#"
[[figure]]
name = "mine"
title = "Mine"
claims = [{ paper = "5", series = "Short", reach = 10, within = [0.9, 1.1] }]
[figure.sweep]
workers = 4
across.load = { unit = "krps", at = [0.5, 0.9] }
panels = [
    { title = "All", workload = "tpcc", y = [1, 1e3] },
    { title = "Own", workload = { type = [{ name = "A", share = 1, service_us = 5 }] }, of = "A", y = [1, 1e3] },
]
systems = [
    "DARC",
    { name = "Short", like = "Shinjuku", costs = { like = "posted", network-ns = 0 }, set = ["quantum-us=2"] },
]
"#;

    #[test]
    fn every_definition_is_right() {
        for figure in all() {
            figure.check().unwrap_or_else(|error| panic!("{}: {error}", figure.name));
        }
        assert_eq!(parse("mine.toml", MINE).unwrap().len(), 1);
    }

    #[test]
    fn a_mistake_has_its_line() {
        for (right, wrong, line, reason) in [
            ("title = \"Mine\"", "titel = \"Mine\"", 4, "unknown field `titel`"),
            ("title = \"Mine\"", "title = 3", 4, "expected a string"),
            ("title = \"Mine\"", "title = \"Mine\"\ntitle = \"Mine\"", 5, "duplicate key"),
            ("workers = 4", "workers = 4\ncolour = \"red\"", 8, "unknown field `colour`"),
            ("workers = 4", "workers = 0", 2, "mine: a server needs at least one worker"),
            ("krps", "kilo", 8, "unknown variant `kilo`, expected one of `percent`, `krps`, `mrps`"),
            ("tpcc", "tpc-x", 10, "unknown workload `tpc-x`; there are high-bimodal"),
            (", workload = \"tpcc\"", "", 2, "mine: the panel `All` needs a workload"),
            ("y = [1, 1e3] },\n]", "y = [1, 1e3], z = 1 },\n]", 11, "unknown field `z`"),
            ("share = 1", "share = 2", 11, "share is 2"),
            ("of = \"A\"", "of = \"B\"", 2, "mine: no type is called `B`"),
            ("y = [1, 1e3] },\n]", "y = [0, 1e3] },\n]", 2, "cannot go from 0 to 1000"),
            ("\"DARC\"", "\"DARK\"", 14, "no system is called `DARK`; there are Concord"),
            ("like = \"Shinjuku\"", "policy = \"fifo\"", 15, "no policy is called `fifo`"),
            ("like = \"Shinjuku\", ", "", 15, "a system needs a `policy`"),
            ("\"posted\"", "\"postage\"", 15, "no costs are called `postage`; there are checkpoints"),
            ("network-ns", "network-us", 15, "unknown field `network-us`"),
            ("quantum-us=2", "quantum=2", 15, "no setting is called `quantum`"),
            (
                "series = \"Short\"",
                "series = \"Long\"",
                2,
                "mine: claim `5`: no series is called `Long`",
            ),
            (
                "reach = 10",
                "reach = 10, lowest = true",
                2,
                "mine: claim `5`: it has `reach`, `lowest`, or `at`",
            ),
            (
                "[figure.sweep]",
                "[figure.saturation]\nhz = 1\nworkers = []\npanels = []\nlines = []\n[figure.sweep]",
                2,
                "one table",
            ),
            ("\"mine\"", "\"../mine\"", 2, "letters, digits and hyphens"),
        ] {
            let error = parse("mine.toml", &MINE.replacen(right, wrong, 1)).unwrap_err().to_string();
            assert!(error.starts_with(&format!("mine.toml:{line}: ")), "{wrong}: {error}");
            assert!(error.contains(reason), "{wrong}: {error}");
        }
    }
}
