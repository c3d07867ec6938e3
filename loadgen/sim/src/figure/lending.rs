//! DARC with lending beside other policies on four workloads (`docs/lending.md`).

use super::definition::{Body, Figure};
use super::sweep::{Across, LOADS, PanelOf, Sweep, System, Unit};

/// The cost of a preemption, equal for all policies that preempt.
const PREEMPT: &[&str] = &["preempt-ns=700"];

pub(super) const FIGURES: &[Figure] = &[Figure {
    name: "lending",
    title: "DARC with lending: slowdown of the worst type by load, 14 workers",
    notes: &["0.7 us from the decision to preempt to the freed core."],
    claims: &[],
    body: Body::Sweep(Sweep {
        workers: 14,
        effort: 3,
        across: Across::Load(Unit::Percent, LOADS),
        panels: &[
            PanelOf::worst_type("High Bimodal", "high-bimodal"),
            PanelOf::worst_type("Extreme Bimodal", "extreme-bimodal"),
            PanelOf::worst_type("TPC-C", "tpcc"),
            PanelOf::worst_type("ZippyDB", "zippydb"),
        ],
        systems: &[
            System::plain("c-FCFS", "c-fcfs"),
            System::plain("EDF", "edf"),
            preemptive("MQ", "mq"),
            preemptive("Synergy", "synergy"),
            System::plain("DARC", "darc"),
            preemptive("DARC with lending", "darc-lending"),
        ],
    }),
}];

const fn preemptive(name: &'static str, policy: &'static str) -> System {
    System::plain(name, policy).set(PREEMPT)
}
