//! Scheduling between servers beside scheduling within them (`docs/scale.md`), as in Zhu et al., "RackSched: A
//! Microsecond-Scale Scheduler for Rack-Scale Computers", OSDI '20.

use super::definition::{Body, Figure};
use super::sweep::{PanelOf, Sweep, System, Unit};

const PANELS: &[PanelOf] = &[PanelOf::worst_type("High Bimodal", "high-bimodal"), PanelOf::worst_type("TPC-C", "tpcc")];

pub(super) const FIGURES: &[Figure] = &[
    by_load(
        "rack",
        "Between servers and within them: slowdown of the worst type, 8 servers of 8 workers",
        &["The load balancer sees at once how many requests each server has."],
        BETWEEN_AND_WITHIN,
    ),
    by_load(
        "rack-delay",
        "Late feedback: slowdown of the worst type, 8 servers of 8 workers under DARC",
        &[],
        LATE,
    ),
];

const BETWEEN_AND_WITHIN: &[System] = &[
    behind("c-FCFS, random", "c-fcfs", RANDOM),
    behind("c-FCFS, two choices", "c-fcfs", TWO_CHOICES),
    behind("c-FCFS, JSQ", "c-fcfs", JSQ),
    behind("DARC, random", "darc", RANDOM),
    behind("DARC, two choices", "darc", TWO_CHOICES),
    behind("DARC, JSQ", "darc", JSQ),
];

const LATE: &[System] = &[
    behind("random", "darc", RANDOM),
    behind("two choices, 10 us", "darc", TWO_CHOICES_10),
    behind("two choices, 100 us", "darc", TWO_CHOICES_100),
    behind("JSQ, 1 us", "darc", JSQ_1),
    behind("JSQ, 10 us", "darc", JSQ_10),
    behind("JSQ, 100 us", "darc", JSQ_100),
];

type Settings = &'static [&'static str];

const RANDOM: Settings = &["servers=8", "spread=random"];
const TWO_CHOICES: Settings = &["servers=8", "spread=two-choices"];
const TWO_CHOICES_10: Settings = &["servers=8", "spread=two-choices", "feedback-delay-ns=10000"];
const TWO_CHOICES_100: Settings = &["servers=8", "spread=two-choices", "feedback-delay-ns=100000"];
const JSQ: Settings = &["servers=8", "spread=jsq"];
const JSQ_1: Settings = &["servers=8", "spread=jsq", "feedback-delay-ns=1000"];
const JSQ_10: Settings = &["servers=8", "spread=jsq", "feedback-delay-ns=10000"];
const JSQ_100: Settings = &["servers=8", "spread=jsq", "feedback-delay-ns=100000"];

const fn behind(name: &'static str, policy: &'static str, set: Settings) -> System {
    System::plain(name, policy).set(set)
}

/// These systems at all loads.
const fn by_load(
    name: &'static str,
    title: &'static str,
    notes: &'static [&'static str],
    systems: &'static [System],
) -> Figure {
    Figure {
        name,
        title,
        notes,
        claims: &[],
        body: Body::Sweep(Sweep::by_load(8, Unit::Percent, PANELS, systems)),
    }
}
