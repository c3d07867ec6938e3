//! The figures of *Arachne: Core-Aware Thread Management* (OSDI '18) that show its core estimator.

use super::claim::{Claim, Reading};
use super::definition::{Body, Figure};
use super::ramp::{Line, Ramp};
use super::sweep::System;

pub(super) const FIGURES: &[Figure] = &[Figure {
    name: "arachne-4",
    title: "Arachne, figure 4: workers follow a load that rises and falls",
    notes: &["The paper's cores are one more: that of the dispatch thread."],
    claims: &[
        Claim::new(
            "1 (2 cores at low load)",
            0,
            "c-FCFS, 1 to 6",
            Reading::At(0.5),
        ),
        Claim::new(
            "6 (all available cores)",
            0,
            "c-FCFS, 1 to 6",
            Reading::At(10.0),
        ),
    ],
    body: Body::Ramp(Ramp {
        workers: 6,
        load: (0.01, 0.95),
        seconds: 20,
        types: [("GET", 0.9, 1.0), ("SCAN", 0.1, 10.0)],
        lines: &[
            line("c-FCFS, 1 to 6", "c-fcfs", (1, 6)),
            line("DARC, 1 to 6", "darc", (1, 6)),
            line("c-FCFS, 6", "c-fcfs", (6, 6)),
            line("DARC, 6", "darc", (6, 6)),
            line("c-FCFS, 1", "c-fcfs", (1, 1)),
        ],
        latency: (1.0, 1e5),
    }),
}];

const fn line(name: &'static str, policy: &'static str, workers: (usize, usize)) -> Line {
    Line {
        system: System::plain(name, policy),
        workers,
    }
}
