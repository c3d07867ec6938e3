//! The table of all figures.

use super::definition::Figure;
use super::{arachne, compared, distributed, lending, persephone, rack, shinjuku, synergy};

/// All figures: paper by paper, then psp's own.
pub fn all() -> impl Iterator<Item = &'static Figure> {
    [
        persephone::FIGURES,
        shinjuku::FIGURES,
        compared::FIGURES,
        synergy::FIGURES,
        arachne::FIGURES,
        lending::FIGURES,
        distributed::FIGURES,
        rack::FIGURES,
    ]
    .into_iter()
    .flatten()
}

/// The figure of that name.
#[must_use]
pub fn named(name: &str) -> Option<&'static Figure> {
    all().find(|figure| figure.name == name)
}
