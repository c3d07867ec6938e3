//! "Synergy", IFIP Networking 2025: a preemptive scheduler without a dispatcher, beside others.

use super::claim::{Claim, Reading};
use super::definition::{Body, Figure};
use super::sweep::{Across, LOADS, Of, PanelOf, Quantity, Sweep, System, TAIL, Unit};

/// Workers of the paper's experiments.
const WORKERS: usize = 14;
/// The slowdown of the paper's numbers.
const SLO: f64 = 50.0;

const SHAPE: &str = "The paper measures on servers, at clients whose network takes 10 us; only the \
                     shape compares.";

pub(super) const FIGURES: &[Figure] = &[
    Figure {
        name: "synergy-3",
        title: "Synergy figure 3: High, 14 workers",
        notes: &[SHAPE],
        claims: &[
            reach("211", SHINJUKU.name),
            reach("239", SHINJUKU_CI.name),
            reach("239", CONCORD.name),
            reach("239", TINY_QUANTA.name),
            reach("266", SYNERGY.name),
        ],
        body: Body::Sweep(Sweep {
            workers: WORKERS,
            effort: 1,
            across: Across::Load(Unit::Krps, LOADS),
            panels: &[
                slowdown("high-bimodal", (1.0, 1e3)),
                latency("high-bimodal", (1e2, 1e4)),
            ],
            systems: SYSTEMS,
        }),
    },
    Figure {
        name: "synergy-4",
        title: "Synergy figure 4: Extreme, 14 workers",
        notes: &[SHAPE],
        claims: &[
            reach("2.37", SHINJUKU.name),
            reach("2.61", SHINJUKU_CI.name),
            reach("2.84", CONCORD.name),
            reach("3.79", TINY_QUANTA.name),
            reach("3.79", SYNERGY.name),
        ],
        body: Body::Sweep(Sweep {
            workers: WORKERS,
            effort: 1,
            across: Across::Load(Unit::Mrps, LOADS),
            panels: &[
                slowdown("extreme-bimodal", (1.0, 1e4)),
                latency("extreme-bimodal", (1e2, 1e5)),
            ],
            systems: SYSTEMS,
        }),
    },
    Figure {
        name: "synergy-5",
        title: "Synergy figure 5: ZippyDB, 14 workers",
        notes: &[SHAPE],
        claims: &[
            reach("538", SHINJUKU.name),
            reach("628", SHINJUKU_CI.name),
            reach("673", CONCORD.name),
            reach("717", TINY_QUANTA.name),
            reach("843", SYNERGY.name),
        ],
        body: Body::Sweep(Sweep {
            workers: WORKERS,
            effort: 1,
            across: Across::Load(Unit::Krps, LOADS),
            panels: &[
                slowdown("zippydb", (1.0, 1e3)),
                latency("zippydb", (1e2, 1e4)),
            ],
            systems: SYSTEMS,
        }),
    },
    Figure {
        name: "synergy-6",
        title: "Synergy figure 6: service times of LevelDB, 14 workers",
        notes: &[SHAPE, "No request takes a lock."],
        claims: &[
            reach("209", SHINJUKU_CI.name),
            reach("224", CONCORD.name),
            reach("284", SYNERGY.name),
        ],
        body: Body::Sweep(Sweep {
            workers: WORKERS,
            effort: 1,
            across: Across::Load(Unit::Krps, LOADS),
            panels: &[
                slowdown("leveldb", (1.0, 1e3)),
                latency("leveldb", (1e2, 1e4)),
            ],
            systems: &[SHINJUKU_CI, CONCORD, SYNERGY],
        }),
    },
    Figure {
        name: "synergy-7",
        title: "Synergy figure 7: its components, ZippyDB, 14 workers",
        notes: &[SHAPE],
        claims: &[
            reach("89", "rss-ci"),
            reach("538", "+ws"),
            reach("763", "+wq"),
            reach("843", "+cp"),
            reach("843", "+qa"),
        ],
        body: Body::Sweep(Sweep {
            workers: WORKERS,
            effort: 1,
            across: Across::Load(Unit::Krps, LOADS),
            panels: &[
                slowdown("zippydb", (1.0, 1e3)),
                latency("zippydb", (1e2, 1e4)),
                PanelOf {
                    title: "Preemptions",
                    quantity: Quantity::Preemptions,
                    range: (1e-4, 1e1),
                    slo: None,
                    ..latency("zippydb", (1e2, 1e4))
                },
            ],
            systems: &[
                part(
                    "rss-ci",
                    &fixed(["stealing=false", "wait-queue=false", UNCONDITIONAL]),
                ),
                part(
                    "+ws",
                    &fixed(["stealing=true", "wait-queue=false", UNCONDITIONAL]),
                ),
                part(
                    "+wq",
                    &fixed(["stealing=true", "wait-queue=true", UNCONDITIONAL]),
                ),
                part(
                    "+cp",
                    &fixed([
                        "stealing=true",
                        "wait-queue=true",
                        "conditional-preemption=true",
                    ]),
                ),
                part("+qa", SYNERGY.set),
            ],
        }),
    },
    Figure {
        name: "synergy-8",
        title: "Synergy figure 8: its knobs, Extreme, 14 workers",
        notes: &[SHAPE],
        claims: &[],
        body: Body::Sweep(Sweep {
            workers: WORKERS,
            effort: 1,
            across: Across::Load(Unit::Mrps, LOADS),
            panels: &[
                slowdown("extreme-bimodal", (1.0, 1e3)),
                latency("extreme-bimodal", (1e2, 1e4)),
            ],
            systems: &[
                part(
                    "d0-f0",
                    &knobs("congestion-threshold-us=0", "congested-quantum-factor=2"),
                ),
                part(
                    "d15-f20",
                    &knobs("congestion-threshold-us=15", "congested-quantum-factor=20"),
                ),
                part(
                    "d10-f5",
                    &knobs("congestion-threshold-us=10", "congested-quantum-factor=5"),
                ),
                part(
                    "d10-f10",
                    &knobs("congestion-threshold-us=10", "congested-quantum-factor=10"),
                ),
                PERSEPHONE,
            ],
        }),
    },
    Figure {
        name: "synergy-9",
        title: "Synergy figure 9: methods of interruption, High, 14 workers",
        notes: &[
            SHAPE,
            "Medians of the paper's table I: propagation, then receiving and returning. S-CI as in figure 3.",
        ],
        claims: &[],
        body: Body::Sweep(Sweep {
            workers: WORKERS,
            effort: 1,
            across: Across::Load(Unit::Krps, LOADS),
            panels: &[
                slowdown("high-bimodal", (1.0, 1e3)),
                latency("high-bimodal", (1e2, 1e4)),
            ],
            systems: &[
                part(
                    "S-Signal",
                    &interrupted("propagation-ns=2216", "preempt-ns=2075"),
                ),
                part(
                    "S-IPI",
                    &interrupted("propagation-ns=1225", "preempt-ns=828"),
                ),
                part(
                    "S-UINTR",
                    &interrupted("propagation-ns=671", "preempt-ns=509"),
                ),
                part("S-CI", SYNERGY.set),
                PERSEPHONE,
            ],
        }),
    },
];

const SYSTEMS: &[System] = &[
    SHINJUKU,
    SHINJUKU_CI,
    CONCORD,
    TINY_QUANTA,
    SYNERGY,
    PERSEPHONE,
];

/// Interrupts as in Shinjuku's table 1.
const SHINJUKU: System = System {
    name: "Shinjuku",
    policy: "mq",
    set: &[
        "classify-ns=100",
        "dispatch-ns=100",
        "channel-ns=50",
        "propagation-ns=130",
        "preempt-ns=527",
        "switch-ns=48",
    ],
};

const SHINJUKU_CI: System = System {
    name: "Shinjuku-CI",
    policy: "mq",
    set: &[
        "classify-ns=100",
        "dispatch-ns=100",
        "channel-ns=50",
        "propagation-ns=100",
        "preempt-ns=50",
        "switch-ns=20",
    ],
};

const CONCORD: System = System {
    name: "Concord",
    policy: "jbsq",
    ..SHINJUKU_CI
};

/// The dispatcher sees a request once. A worker counts quanta itself.
const TINY_QUANTA: System = System {
    name: "Tiny Quanta",
    policy: "jsq",
    set: &[
        "ties=most-served",
        "classify-ns=200",
        "channel-ns=50",
        "propagation-ns=100",
        "preempt-ns=50",
        "switch-ns=20",
    ],
};

const SYNERGY: System = System {
    name: "Synergy",
    policy: "synergy",
    set: &COSTS_OF_SYNERGY,
};

const COSTS_OF_SYNERGY: [&str; 5] = [
    "classify-ns=100",
    "steal-ns=100",
    "propagation-ns=100",
    "preempt-ns=50",
    "switch-ns=20",
];

const UNCONDITIONAL: &str = "conditional-preemption=false";

const fn part(name: &'static str, set: &'static [&'static str]) -> System {
    System {
        name,
        set,
        ..SYNERGY
    }
}

/// Parts of Synergy with a quantum of 5 us.
const fn fixed(parts: [&'static str; 3]) -> [&'static str; 10] {
    let [stealing, wait_queue, conditional] = parts;
    let [classify, steal, propagation, preempt, switch] = COSTS_OF_SYNERGY;
    let (quantum, adaptive) = ("quantum-us=5", "adaptive-quantum=false");
    [
        quantum,
        adaptive,
        stealing,
        wait_queue,
        conditional,
        classify,
        steal,
        propagation,
        preempt,
        switch,
    ]
}

const fn interrupted(propagation: &'static str, preempt: &'static str) -> [&'static str; 5] {
    let [classify, steal, _, _, switch] = COSTS_OF_SYNERGY;
    [classify, steal, propagation, preempt, switch]
}

const fn knobs(threshold: &'static str, factor: &'static str) -> [&'static str; 7] {
    let [classify, steal, propagation, preempt, switch] = COSTS_OF_SYNERGY;
    [
        threshold,
        factor,
        classify,
        steal,
        propagation,
        preempt,
        switch,
    ]
}

const PERSEPHONE: System = System {
    name: "Perséphone",
    policy: "darc",
    set: &["classify-ns=100", "dispatch-ns=100", "channel-ns=50"],
};

const fn reach(paper: &'static str, series: &'static str) -> Claim {
    Claim::new(paper, 0, series, Reading::Reach(SLO))
}

const fn slowdown(workload: &'static str, range: (f64, f64)) -> PanelOf {
    PanelOf {
        title: "Slowdown of all requests",
        workload,
        load: None,
        quantity: Quantity::Slowdown(Of::All),
        percentile: TAIL,
        range,
        slo: Some(SLO),
    }
}

const fn latency(workload: &'static str, range: (f64, f64)) -> PanelOf {
    PanelOf {
        title: "Latency of all requests",
        quantity: Quantity::Latency(Of::All),
        slo: None,
        ..slowdown(workload, range)
    }
}
