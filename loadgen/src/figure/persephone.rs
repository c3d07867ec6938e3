//! Demoulin et al., "When Idling is Ideal: Optimizing Tail-Latency for Heavy-Tailed Datacenter
//! Workloads with Perséphone", SOSP '21.

use super::claim::{Claim, Reading};
use super::phases::{PhaseOf, Phases};
use super::sweep::{
    Across, LOADS, LOADS_FINE, Of, PanelOf, Quantity, Source, Sweep, System, TAIL, Unit,
};
use super::{Body, Figure};

pub(super) const FIGURES: &[Figure] = &[
    Figure {
        name: "persephone-1",
        title: "Perséphone figure 1: throughput at a slowdown, Extreme Bimodal, 16 workers",
        notes: &["The paper has the axes the other way round. No costs but those named."],
        claims: &[
            Claim {
                paper: "2.1",
                panel: 2,
                series: "c-FCFS",
                reading: Reading::Reach(10.0),
            },
            Claim {
                paper: "3.7",
                panel: 2,
                series: "TS (5 us, 1 us), typed queues",
                reading: Reading::Reach(10.0),
            },
            Claim {
                paper: "3.7",
                panel: 2,
                series: "TS (5 us, 1 us), one queue",
                reading: Reading::Reach(10.0),
            },
            Claim {
                paper: "5.1",
                panel: 2,
                series: "DARC",
                reading: Reading::Reach(10.0),
            },
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
                System {
                    name: "TS (5 us, 1 us), typed queues",
                    policy: "mq",
                    set: &["quantum-us=5", "preempt-ns=1000"],
                },
                System {
                    name: "TS (5 us, 1 us), one queue",
                    policy: "sq",
                    set: &["quantum-us=5", "preempt-ns=1000"],
                },
                System::plain("DARC", "darc"),
            ],
        }),
    },
    Figure {
        name: "persephone-4",
        title: "Perséphone figure 4: the degree of work conservation, 95 % load, 14 workers",
        notes: &["Without any reserved worker DARC-static is fixed priority."],
        claims: &[
            Claim {
                paper: "1",
                panel: 0,
                series: "DARC-static",
                reading: Reading::Lowest,
            },
            Claim {
                paper: "2",
                panel: 1,
                series: "DARC-static",
                reading: Reading::Lowest,
            },
            Claim {
                paper: "4.4",
                panel: 0,
                series: "DARC-static",
                reading: Reading::Lower(1.0, ("DARC-static", 0.0)),
            },
            Claim {
                paper: "1.5",
                panel: 1,
                series: "DARC-static",
                reading: Reading::Lower(2.0, ("DARC-static", 0.0)),
            },
        ],
        body: Body::Sweep(Sweep {
            workers: 14,
            effort: 1,
            across: Across::Setting {
                policy: "darc-static",
                key: "reserved",
                label: "Workers reserved for short requests",
                last: 13,
                load: 0.95,
            },
            panels: &[
                overall("High Bimodal", "high-bimodal", (1.0, 1e4)),
                overall("Extreme Bimodal", "extreme-bimodal", (1.0, 1e6)),
            ],
            systems: &[
                System::plain("DARC-static", "darc-static"),
                System::plain("c-FCFS", "c-fcfs"),
            ],
        }),
    },
    Figure {
        name: "persephone-7",
        title: "Perséphone figure 7: a changing workload, 80 % load, 14 workers",
        notes: &[
            "The paper's phases take 5 s, and its windows 50 000 samples. The last phase is cut \
             short: it has most of the requests.",
        ],
        claims: &[],
        body: Body::Phases(Phases {
            workers: 14,
            load: 0.8,
            types: ["A", "B"],
            phases: &[
                PhaseOf {
                    types: [(0.5, 500.0), (0.5, 0.5)],
                    part: 1.0,
                },
                PhaseOf {
                    types: [(0.5, 0.5), (0.5, 500.0)],
                    part: 1.0,
                },
                PhaseOf {
                    types: [(0.995, 0.5), (0.005, 500.0)],
                    part: 1.0,
                },
                PhaseOf {
                    types: [(1.0, 0.5), (0.0, 500.0)],
                    part: 0.5,
                },
            ],
            systems: &[
                System {
                    name: "DARC",
                    policy: "darc",
                    set: &["hints=false", "samples-min=5000"],
                },
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
        body: Body::Sweep(Sweep {
            workers: 8,
            effort: 1,
            across: Across::Load(Unit::Percent, LOADS),
            panels: &[
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
            systems: &[
                System {
                    name: "DARC",
                    policy: "darc",
                    set: &["hints=false"],
                },
                System {
                    name: "DARC-random",
                    policy: "darc",
                    set: &["hints=false", "classifier=random"],
                },
                System::plain("c-FCFS", "c-fcfs"),
            ],
        }),
    },
    Figure {
        name: "persephone-10",
        title: "Perséphone figure 10: what preemption costs, Extreme Bimodal, 16 workers",
        notes: &[
            "TS n us: a long request gives way as soon as a short one waits; half of n passes \
             before the worker learns of it, and the other half is lost.",
        ],
        claims: &[],
        body: Body::Sweep(Sweep {
            workers: 16,
            effort: 1,
            across: Across::Load(Unit::Mrps, LOADS),
            panels: &[
                PanelOf {
                    workload: SHORTS_FIRST,
                    ..extreme("Short requests (0.5 us)", Of::Type(0))
                },
                PanelOf {
                    workload: SHORTS_FIRST,
                    ..extreme("Long requests (500 us)", Of::Type(1))
                },
            ],
            systems: &[
                System {
                    name: "TS 0 us",
                    policy: "mq",
                    set: &SHORTS_PREEMPT,
                },
                System {
                    name: "TS 1 us",
                    policy: "mq",
                    set: &after_half_of("preempt-ns=500", "propagation-ns=500"),
                },
                System {
                    name: "TS 2 us",
                    policy: "mq",
                    set: &after_half_of("preempt-ns=1000", "propagation-ns=1000"),
                },
                System {
                    name: "TS 4 us",
                    policy: "mq",
                    set: &after_half_of("preempt-ns=2000", "propagation-ns=2000"),
                },
                System::plain("DARC", "darc"),
                System::plain("c-FCFS", "c-fcfs"),
            ],
        }),
    },
];

/// Extreme Bimodal with objectives that put every waiting short request before every long one.
const SHORTS_FIRST: Source = Source::Toml(
    "[[type]]\nname = 'short'\nshare = 0.995\nservice_us = 0.5\nslo_us = 0.001\n\
     [[type]]\nname = 'long'\nshare = 0.005\nservice_us = 500\nslo_us = 1000000000",
);

/// No short request lasts as long as this quantum, and no long one gives way to another.
const SHORTS_PREEMPT: [&str; 3] = ["quantum-us=0.501", "requeue=head", "spare-chosen=true"];

const fn after_half_of(preempt: &'static str, propagation: &'static str) -> [&'static str; 5] {
    let [quantum, requeue, spare] = SHORTS_PREEMPT;
    [quantum, requeue, spare, propagation, preempt]
}

const fn extreme(title: &'static str, of: Of) -> PanelOf {
    PanelOf {
        title,
        workload: Source::Named("extreme-bimodal"),
        quantity: Quantity::Slowdown(of),
        percentile: TAIL,
        range: (1.0, 1e4),
        slo: Some(10.0),
    }
}

const fn overall(title: &'static str, workload: &'static str, range: (f64, f64)) -> PanelOf {
    PanelOf {
        title,
        workload: Source::Named(workload),
        quantity: Quantity::Slowdown(Of::All),
        percentile: TAIL,
        range,
        slo: None,
    }
}

const fn high(title: &'static str, range: (f64, f64)) -> PanelOf {
    overall(title, "high-bimodal", range)
}
