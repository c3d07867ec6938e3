//! Demoulin et al., "When Idling is Ideal: Optimizing Tail-Latency for Heavy-Tailed Datacenter
//! Workloads with Perséphone", SOSP '21.

use super::claim::{Claim, Reading};
use super::costs::TO_COMPLETION;
use super::definition::{Body, Figure};
use super::phases::{PhaseOf, Phases};
use super::sweep::{Across, LOADS_FINE, Of, PanelOf, Quantity, Sweep, System, TAIL, Unit};

pub(super) const FIGURES: &[Figure] = &[
    Figure {
        name: "persephone-1",
        title: "Perséphone figure 1: throughput at a slowdown, Extreme Bimodal, 16 workers",
        notes: &["The paper has the axes the other way round. No costs but those named."],
        claims: &[
            Claim::new("2.1", 2, "c-FCFS", Reading::Reach(10.0)),
            Claim::new("3.7", 2, "TS (5 us, 1 us), typed queues", Reading::Reach(10.0)),
            Claim::new("3.7", 2, "TS (5 us, 1 us), one queue", Reading::Reach(10.0)),
            Claim::new("3.7", 2, "TS (1 us within 5 us), typed queues", Reading::Reach(10.0)),
            Claim::new("5.1", 2, "DARC", Reading::Reach(10.0)),
        ],
        body: Body::Sweep(Sweep {
            workers: 16,
            effort: 5,
            across: Across::Load(Unit::Mrps, LOADS_FINE),
            panels: &[
                extreme("Short requests (0.5 us)", Of::Type(0)),
                extreme("Long requests (500 us)", Of::Type(1)),
                extreme("Every type (the worse of both)", Of::WorstType),
            ],
            systems: &[
                System::plain("d-FCFS", "d-fcfs"),
                System::plain("c-FCFS", "c-fcfs"),
                System::plain("TS (5 us, 1 us), typed queues", "mq").set(&["quantum-us=5", "preempt-ns=1000"]),
                System::plain("TS (5 us, 1 us), one queue", "sq").set(&["quantum-us=5", "preempt-ns=1000"]),
                System::plain("TS (1 us within 5 us), typed queues", "mq").set(&["quantum-us=4", "preempt-ns=1000"]),
                System::plain("DARC", "darc"),
            ],
        }),
    },
    Figure {
        name: "persephone-4",
        title: "Perséphone figure 4: the degree of work conservation, 14 workers",
        notes: &["Without any reserved worker DARC-static is fixed priority."],
        claims: &[
            Claim::new("1", 0, "DARC-static", Reading::Lowest),
            Claim::new("1 (at 95 %)", 2, "DARC-static", Reading::Lowest),
            Claim::new("2", 1, "DARC-static", Reading::Lowest),
            Claim::new("4.4", 2, "DARC-static", Reading::Lower(1.0, ("DARC-static", 0.0))),
            Claim::new("15.7 (figure 3)", 2, "DARC-static", Reading::Lower(1.0, ("c-FCFS", 1.0))),
            Claim::new("1.5", 1, "DARC-static", Reading::Lower(2.0, ("DARC-static", 0.0))),
        ],
        body: Body::Sweep(Sweep {
            workers: 14,
            effort: 1,
            across: Across::Setting {
                policy: "darc-static",
                key: "reserved",
                label: "Workers reserved for short requests",
                last: 13,
            },
            panels: &[
                reserved("(a) High Bimodal, 95 % load", "high-bimodal", 0.95),
                reserved("(b) Extreme Bimodal, 95 % load", "extreme-bimodal", 0.95),
                reserved("High Bimodal, 92 % load", "high-bimodal", 0.92),
                reserved("Extreme Bimodal, 92 % load", "extreme-bimodal", 0.92),
            ],
            systems: &[
                System::plain("DARC-static", "darc-static").paying(TO_COMPLETION),
                System::plain("c-FCFS", "c-fcfs").paying(TO_COMPLETION),
            ],
        }),
    },
    Figure {
        name: "persephone-7",
        title: "Perséphone figure 7: a changing workload, 80 % load, 14 workers",
        notes: &["The paper's phases take 5 s, and its windows 50 000 samples. The last phase is cut \
             short: it has most of the requests."],
        claims: &[],
        body: Body::Phases(Phases {
            workers: 14,
            load: 0.8,
            types: ["A", "B"],
            phases: &[
                PhaseOf { types: [(0.5, 500.0), (0.5, 0.5)], part: 1.0 },
                PhaseOf { types: [(0.5, 0.5), (0.5, 500.0)], part: 1.0 },
                PhaseOf { types: [(0.995, 0.5), (0.005, 500.0)], part: 1.0 },
                PhaseOf { types: [(1.0, 0.5), (0.0, 500.0)], part: 0.5 },
            ],
            systems: &[
                System::plain("DARC", "darc").set(&["hints=false", "samples-min=5000"]),
                System::plain("c-FCFS", "c-fcfs"),
            ],
            latency_us: (0.1, 1e5),
        }),
    },
    Figure {
        name: "persephone-9",
        title: "Perséphone figure 9: a random classifier, High Bimodal, 8 workers",
        notes: &[],
        claims: &[],
        body: Body::Sweep(Sweep::by_load(
            8,
            Unit::Percent,
            &[
                PanelOf {
                    quantity: Quantity::Slowdown(Of::All),
                    ..high("All requests", (1.0, 1e4))
                },
                PanelOf {
                    quantity: Quantity::Latency(Of::Type(0)),
                    ..high("Short requests (1 us)", (1.0, 1e4))
                },
                PanelOf {
                    quantity: Quantity::Latency(Of::Type(1)),
                    ..high("Long requests (100 us)", (1e2, 1e4))
                },
            ],
            &[
                System::plain("DARC", "darc").paying(TO_COMPLETION).set(&["hints=false"]),
                System::plain("DARC-random", "darc")
                    .paying(TO_COMPLETION)
                    .set(&["hints=false", "classifier=random"]),
                System::plain("c-FCFS", "c-fcfs").paying(TO_COMPLETION),
            ],
        )),
    },
    Figure {
        name: "persephone-10",
        title: "Perséphone figure 10: what preemption costs, Extreme Bimodal, 16 workers",
        notes: &["TS n us: one queue; a long request gives way as soon as another request waits and goes \
             to the tail. Half of n passes before the worker learns of it, the other half is lost."],
        claims: &[
            Claim::new("30 % less than without overhead", 0, "TS 1 us", Reading::Reach(10.0)),
            Claim::new("as DARC or better", 0, "TS 0 us", Reading::Reach(10.0)),
            Claim::new("5.1 (figure 1)", 0, "DARC", Reading::Reach(10.0)),
        ],
        body: Body::Sweep(Sweep::by_load(
            16,
            Unit::Mrps,
            &[
                extreme("Short requests (0.5 us)", Of::Type(0)),
                extreme("Long requests (500 us)", Of::Type(1)),
            ],
            &[
                System::plain("TS 0 us", "sq").set(&AT_ONCE),
                System::plain("TS 1 us", "sq").set(&after_half_of("propagation-ns=500", "preempt-ns=500")),
                System::plain("TS 2 us", "sq").set(&after_half_of("propagation-ns=1000", "preempt-ns=1000")),
                System::plain("TS 4 us", "sq").set(&after_half_of("propagation-ns=2000", "preempt-ns=2000")),
                System::plain("DARC", "darc"),
                System::plain("c-FCFS", "c-fcfs"),
            ],
        )),
    },
];

/// A quantum at once where requests wait; no short request takes as long.
const AT_ONCE: [&str; 2] = ["quantum-us=0.501", "requeue=tail"];

const fn after_half_of(propagation: &'static str, preempt: &'static str) -> [&'static str; 4] {
    let [quantum, requeue] = AT_ONCE;
    [quantum, requeue, propagation, preempt]
}

const fn extreme(title: &'static str, of: Of) -> PanelOf {
    PanelOf {
        title,
        workload: "extreme-bimodal",
        load: None,
        quantity: Quantity::Slowdown(of),
        percentile: TAIL,
        range: (1.0, 1e4),
        slo: Some(10.0),
    }
}

const fn overall(title: &'static str, workload: &'static str, range: (f64, f64)) -> PanelOf {
    PanelOf {
        title,
        workload,
        load: None,
        quantity: Quantity::Slowdown(Of::All),
        percentile: TAIL,
        range,
        slo: None,
    }
}

const fn reserved(title: &'static str, workload: &'static str, load: f64) -> PanelOf {
    PanelOf { load: Some(load), ..overall(title, workload, (1.0, 1e5)) }
}

const fn high(title: &'static str, range: (f64, f64)) -> PanelOf {
    overall(title, "high-bimodal", range)
}
