//! Kaffes et al., "Shinjuku: Preemptive Scheduling for µsecond-scale Tail Latency", NSDI '19.

use super::claim::{Claim, Reading};
use super::connections::Connections;
use super::costs::POSTED;
use super::definition::{Body, Figure};
use super::sweep::{Of, PanelOf, Quantity, Sweep, System, Unit};

pub(super) const FIGURES: &[Figure] = &[
    Figure {
        name: "shinjuku-1",
        title: "Shinjuku figure 1: policies under three distributions, 16 workers",
        notes: &["Nothing costs anything. The paper's PS has slices of 0.1 us, ours is the ideal."],
        claims: &[],
        body: Body::Sweep(Sweep::by_load(
            16,
            Unit::Mrps,
            &[
                latency("Exponential, mean 1 us", "exponential", (1.0, 1e3)),
                latency("Log-normal, mean 1 us, deviation 10 us", "lognormal", (1.0, 1e3)),
                latency("Bimodal: 0.5 us, 0.5 % of 500 us", "bimodal-995-500", (0.3, 1e4)),
            ],
            &[D_FCFS, C_FCFS, System::plain("PS", "ps"), System::plain("c-PRE-SQ (5 us)", "sq")],
        )),
    },
    Figure {
        name: "shinjuku-2",
        title: "Shinjuku figure 2: Bimodal(50-1, 50-100), 16 workers",
        notes: &["Nothing costs anything. The paper's PS has slices of 0.1 us, ours is the ideal."],
        claims: &[],
        body: Body::Sweep(Sweep::by_load(
            16,
            Unit::Krps,
            &[
                of_type("(a) 1 us requests", 0, (1.0, 1e3)),
                of_type("(b) 100 us requests", 1, (100.0, 1e3)),
                PanelOf {
                    quantity: Quantity::Slowdown(Of::All),
                    ..of_type("(c) All requests", 0, (1.0, 1e3))
                },
            ],
            &[
                D_FCFS,
                C_FCFS,
                System::plain("PS", "ps"),
                System::plain("c-PRE-MQ (5 us)", "mq").set(&["requeue=head"]),
            ],
        )),
    },
    Figure {
        name: "shinjuku-4",
        title: "Shinjuku figure 4: connections needed to balance queues",
        notes: &[],
        claims: &[
            Claim::new("300", 0, CONNECTIONS, Reading::At(2.0)),
            Claim::new("16 000", 0, CONNECTIONS, Reading::At(24.0)),
        ],
        body: Body::Connections(Connections {
            name: CONNECTIONS,
            title: "Imbalance below 10 % with a probability of 90 %",
            queues: &[2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24],
            most: 18_000.0,
        }),
    },
    Figure {
        name: "shinjuku-7a",
        title: "Shinjuku figure 7a: the preemption interval, Bimodal(50-1, 50-100), 14 workers",
        notes: &[],
        claims: &[],
        body: Body::Sweep(Sweep::by_load(
            14,
            Unit::Krps,
            &[
                PanelOf {
                    quantity: Quantity::Slowdown(Of::All),
                    ..of_type("All requests", 0, (1.0, 1e3))
                },
                of_type("1 us requests", 0, (1.0, 1e3)),
            ],
            &[
                preempting("5 us", &["quantum-us=5", "requeue=head"]),
                preempting("10 us", &["quantum-us=10", "requeue=head"]),
                preempting("15 us", &["quantum-us=15", "requeue=head"]),
                preempting("25 us", &["quantum-us=25", "requeue=head"]),
                preempting("50 us", &["quantum-us=50", "requeue=head"]),
                preempting("none", &["preemption=false"]),
            ],
        )),
    },
];

const D_FCFS: System = System::plain("d-FCFS", "d-fcfs");
const C_FCFS: System = System::plain("c-FCFS", "c-fcfs");
const CONNECTIONS: &str = "connections";

const fn latency(title: &'static str, workload: &'static str, range: (f64, f64)) -> PanelOf {
    PanelOf {
        title,
        workload,
        load: None,
        quantity: Quantity::Latency(Of::All),
        percentile: 99.0,
        range,
        slo: None,
    }
}

const fn of_type(title: &'static str, index: usize, range: (f64, f64)) -> PanelOf {
    PanelOf {
        quantity: Quantity::Latency(Of::Type(index)),
        ..latency(title, "high-bimodal", range)
    }
}

const fn preempting(name: &'static str, set: &'static [&'static str]) -> System {
    System::plain(name, "mq").paying(POSTED).set(set)
}
