//! DARC without a dispatcher beside DARC with one, Synergy and stealing, and what a dispatcher costs.

use super::costs::{CHECKPOINTS, at_server};
use super::definition::{Body, Figure};
use super::saturation::Saturation;
use super::sweep::{PanelOf, Sweep, System, Unit};

pub(super) const FIGURES: &[Figure] = &[
    Figure {
        name: "distributed",
        title: "DARC without a dispatcher: slowdown of the worst type by load, 14 workers",
        notes: &["The rate at which the dispatcher itself saturates is not part of this figure."],
        claims: &[],
        body: Body::Sweep(Sweep::by_load(
            14,
            Unit::Percent,
            &[
                PanelOf::worst_type("High Bimodal", "high-bimodal"),
                PanelOf::worst_type("TPC-C", "tpcc"),
                PanelOf::worst_type("ZippyDB", "zippydb"),
            ],
            &[
                with_costs("stealing", "stealing"),
                with_costs("Synergy", "synergy"),
                with_costs("DARC", "darc"),
                with_costs("distributed DARC, no lending", "darc-distributed").set(&["lends=false"]),
                with_costs("distributed DARC", "darc-distributed"),
            ],
        )),
    },
    Figure {
        name: "saturation",
        title: "What a dispatcher and workers of their own can bear, by cycles",
        notes: &[],
        claims: &[],
        body: Body::Saturation(Saturation {
            workers: &[1, 2, 4, 8, 12, 16, 24, 32, 48, 64],
            panels: &[("No service at all", 0.0), ("Requests of 1 us", 1_000.0), ("Requests of 10 us", 10_000.0)],
        }),
    },
];

const fn with_costs(name: &'static str, policy: &'static str) -> System {
    System::plain(name, policy).paying(at_server(CHECKPOINTS))
}
