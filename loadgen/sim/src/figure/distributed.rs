//! DARC without a dispatcher beside DARC with one, Synergy and stealing, and what a dispatcher costs.

use super::definition::{Body, Figure};
use super::saturation::Saturation;
use super::sweep::{Across, LOADS, PanelOf, Sweep, System, Unit};

/// The costs of all systems; each pays those of its own ways.
const COSTS: [&str; 8] = [
    "classify-ns=100",
    "dispatch-ns=100",
    "channel-ns=50",
    "steal-ns=100",
    "hand-over-ns=200",
    "propagation-ns=100",
    "preempt-ns=50",
    "switch-ns=20",
];

pub(super) const FIGURES: &[Figure] = &[
    Figure {
        name: "distributed",
        title: "DARC without a dispatcher: slowdown of the worst type by load, 14 workers",
        notes: &["The rate at which the dispatcher itself saturates is not part of this figure."],
        claims: &[],
        body: Body::Sweep(Sweep {
            workers: 14,
            effort: 1,
            across: Across::Load(Unit::Percent, LOADS),
            panels: &[
                PanelOf::worst_type("High Bimodal", "high-bimodal"),
                PanelOf::worst_type("TPC-C", "tpcc"),
                PanelOf::worst_type("ZippyDB", "zippydb"),
            ],
            systems: &[
                with_costs("stealing", "stealing"),
                with_costs("Synergy", "synergy"),
                with_costs("DARC", "darc"),
                System {
                    name: "distributed DARC, no lending",
                    policy: "darc-distributed",
                    set: &without_lending(),
                },
                with_costs("distributed DARC", "darc-distributed"),
            ],
        }),
    },
    Figure {
        name: "saturation",
        title: "What a dispatcher and workers of their own can bear, by cycles",
        notes: &[],
        claims: &[],
        body: Body::Saturation(Saturation {
            workers: &[1, 2, 4, 8, 12, 16, 24, 32, 48, 64],
            panels: &[
                ("No service at all", 0.0),
                ("Requests of 1 us", 1_000.0),
                ("Requests of 10 us", 10_000.0),
            ],
        }),
    },
];

const fn with_costs(name: &'static str, policy: &'static str) -> System {
    System {
        name,
        policy,
        set: &COSTS,
    }
}

const fn without_lending() -> [&'static str; 9] {
    let [a, b, c, d, e, f, g, h] = COSTS;
    ["lends=false", a, b, c, d, e, f, g, h]
}
