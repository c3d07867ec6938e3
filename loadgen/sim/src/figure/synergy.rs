//! "Synergy", IFIP Networking 2025: a preemptive scheduler without a dispatcher, beside others.

use super::claim::{Claim, Reading};
use super::costs::{CHECKPOINTS, IPI, POSTED, SIGNAL, TO_COMPLETION, UINTR, at_server};
use super::definition::{Body, Figure};
use super::sweep::{Across, Of, PanelOf, Quantity, Sweep, System, TAIL, Unit};
use crate::simulator::Costs;

/// Workers of the paper's experiments.
const WORKERS: usize = 14;
/// The slowdown of the paper's numbers.
const SLO: f64 = 50.0;

const SHAPE: &str = "The paper measures on servers; only the shape compares.";

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
        body: Body::Sweep(Sweep::by_load(
            WORKERS,
            Unit::Krps,
            &[slowdown("high-bimodal", (1.0, 1e3)), latency("high-bimodal", (1e2, 1e4))],
            SYSTEMS,
        )),
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
        body: Body::Sweep(Sweep::by_load(
            WORKERS,
            Unit::Mrps,
            &[slowdown("extreme-bimodal", (1.0, 1e4)), latency("extreme-bimodal", (1e2, 1e5))],
            SYSTEMS,
        )),
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
        body: Body::Sweep(Sweep::by_load(
            WORKERS,
            Unit::Krps,
            &[slowdown("zippydb", (1.0, 1e3)), latency("zippydb", (1e2, 1e4))],
            SYSTEMS,
        )),
    },
    Figure {
        name: "synergy-6",
        title: "Synergy figure 6: service times of LevelDB, 14 workers",
        notes: &[SHAPE, "No request takes a lock."],
        claims: &[reach("209", SHINJUKU_CI.name), reach("224", CONCORD.name), reach("284", SYNERGY.name)],
        body: Body::Sweep(Sweep::by_load(
            WORKERS,
            Unit::Krps,
            &[slowdown("leveldb", (1.0, 1e3)), latency("leveldb", (1e2, 1e4))],
            &[SHINJUKU_CI, CONCORD, SYNERGY],
        )),
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
        body: Body::Sweep(Sweep::by_load(
            WORKERS,
            Unit::Krps,
            &[
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
            &[
                part("rss-ci", &fixed(["stealing=false", "wait-queue=false", UNCONDITIONAL])),
                part("+ws", &fixed(["stealing=true", "wait-queue=false", UNCONDITIONAL])),
                part("+wq", &fixed(["stealing=true", "wait-queue=true", UNCONDITIONAL])),
                part("+cp", &fixed(["stealing=true", "wait-queue=true", "conditional-preemption=true"])),
                part("+qa", &[]),
            ],
        )),
    },
    Figure {
        name: "synergy-8",
        title: "Synergy figure 8: its knobs, Extreme, 14 workers",
        notes: &[SHAPE],
        claims: &[],
        body: Body::Sweep(Sweep::by_load(
            WORKERS,
            Unit::Mrps,
            &[slowdown("extreme-bimodal", (1.0, 1e3)), latency("extreme-bimodal", (1e2, 1e4))],
            &[
                part("d0-f0", &["congestion-threshold-us=0", "congested-quantum-factor=2"]),
                part("d15-f20", &["congestion-threshold-us=15", "congested-quantum-factor=20"]),
                part("d10-f5", &["congestion-threshold-us=10", "congested-quantum-factor=5"]),
                part("d10-f10", &["congestion-threshold-us=10", "congested-quantum-factor=10"]),
                PERSEPHONE,
            ],
        )),
    },
    Figure {
        name: "synergy-9",
        title: "Synergy figure 9: methods of interruption, High, 14 workers",
        notes: &[SHAPE, "Interrupts have the medians of the paper's table I."],
        claims: &[],
        body: Body::Sweep(Sweep::by_load(
            WORKERS,
            Unit::Krps,
            &[slowdown("high-bimodal", (1.0, 1e3)), latency("high-bimodal", (1e2, 1e4))],
            &[
                interrupts("S-Signal", SIGNAL),
                interrupts("S-IPI", IPI),
                interrupts("S-UINTR", UINTR),
                interrupts("S-CI", CHECKPOINTS),
                PERSEPHONE,
            ],
        )),
    },
    Figure {
        name: "synergy-11",
        title: "Synergy figure 11: more workers, ZippyDB, 50 % load",
        notes: &[
            SHAPE,
            "Other machines than in the other figures: 10 us of network would be a slowdown of 20.",
        ],
        claims: &[
            Claim::new("13", 0, SYNERGY.name, Reading::At(8.0)),
            Claim::new("16", 0, ONE_GROUP, Reading::At(8.0)),
            Claim::new("596", 0, "c-FCFS", Reading::At(8.0)),
            Claim::new("598 us", 1, SYNERGY.name, Reading::At(8.0)),
            Claim::new("826 us", 1, ONE_GROUP, Reading::At(8.0)),
        ],
        body: Body::Sweep(Sweep {
            workers: 30,
            effort: 1,
            across: Across::Workers(0.5, &[8, 14, 22, 30]),
            panels: &[slowdown("zippydb", (1.0, 1e3)), latency("zippydb", (1e2, 1e4))],
            systems: &[
                near("Synergy", "synergy", CHECKPOINTS),
                near("Perséphone", "darc", TO_COMPLETION),
                near(ONE_GROUP, "darc", TO_COMPLETION).set(&["delta=6"]),
                near("c-FCFS", "c-fcfs", TO_COMPLETION),
            ],
        }),
    },
];

const SYSTEMS: &[System] = &[SHINJUKU, SHINJUKU_CI, CONCORD, TINY_QUANTA, SYNERGY, PERSEPHONE];

const SHINJUKU: System = System::plain("Shinjuku", "mq").paying(POSTED);
const SHINJUKU_CI: System = System::plain("Shinjuku-CI", "mq").paying(CHECKPOINTS);
const CONCORD: System = System::plain("Concord", "jbsq").paying(CHECKPOINTS);

/// The dispatcher hands a request out as soon as it has classified it, and sees it once. A worker counts quanta itself.
const TINY_QUANTA: System = System::plain("Tiny Quanta", "jsq").paying(CHECKPOINTS).set(&[
    "ties=most-served",
    "classify-ns=200",
    "dispatch-ns=0",
    "send-ns=0",
]);

const SYNERGY: System = System::plain("Synergy", "synergy").paying(CHECKPOINTS);
const PERSEPHONE: System = System::plain("Perséphone", "darc").paying(TO_COMPLETION);

const ONE_GROUP: &str = "Perséphone, both short types in one group";

/// Whose clients' network takes nothing.
const fn near(name: &'static str, policy: &'static str, costs: Costs) -> System {
    System::plain(name, policy).paying(at_server(costs))
}

const fn part(name: &'static str, set: &'static [&'static str]) -> System {
    System { name, ..SYNERGY.set(set) }
}

/// Synergy with other interrupts.
const fn interrupts(name: &'static str, costs: Costs) -> System {
    System { name, costs, ..SYNERGY }
}

/// Parts of Synergy with a quantum of 5 us.
const fn fixed(parts: [&'static str; 3]) -> [&'static str; 5] {
    let [stealing, wait_queue, conditional] = parts;
    ["quantum-us=5", "adaptive-quantum=false", stealing, wait_queue, conditional]
}

const UNCONDITIONAL: &str = "conditional-preemption=false";

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
