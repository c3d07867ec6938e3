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

/// Figures and tables of the papers' evaluations that are not here, and why or where else.
pub const ELSEWHERE: &[(&str, &str)] = &[
    ("shinjuku-7c", "not drawn: a NIC of 40 Gbit/s is full, whatever the scheduling"),
    ("shinjuku-table-1", "docs/preemption.md, Beside the literature: costs of interrupts"),
    ("shinjuku-table-2", "docs/preemption.md, Beside the literature: costs of switches"),
    ("synergy-10", "live: synergy-10-live of psp-synthetic's tests"),
    ("synergy-table-1", "docs/preemption.md, Beside the literature: costs of interrupts"),
    ("arachne-2", "not drawn: threads created a second; a request of psp creates none"),
    ("arachne-3", "docs/benchmarks.md, on two cores; memcached on 16 there"),
    ("arachne-5", "docs/arbiter.md, Beside a batch program, on two cores"),
    (
        "arachne-6",
        "not drawn: one hot connection, and flows are equally busy here; synergy-10 has few flows",
    ),
    (
        "arachne-9",
        "not drawn: a signal beside blocked threads, whose contexts psp does not scan",
    ),
    ("arachne-10", "docs/arbiter.md, Time to grant"),
    ("arachne-11", "docs/arbiter.md, Time to grant: the whole time, not the steps of a socket"),
    ("arachne-table-2", "docs/waiting.md, Beside Arachne, Tokio and threads"),
];

/// The figure of that name.
#[must_use]
pub fn named(name: &str) -> Option<&'static Figure> {
    all().find(|figure| figure.name == name)
}
