//! The figures of *Arachne: Core-Aware Thread Management* (OSDI '18): its core estimator, and requests that leave their
//! worker while they wait.

use psp_policy::elastic::ElasticSettings;

use super::claim::{Claim, Reading};
use super::definition::{Body, Figure};
use super::ramp::{Line, Ramp};
use super::sweep::System;
use super::tradeoff::{self, TradeOff};
use super::waits::{Across, Waiter, Waits};

/// The load of figure 4: two types, ten times apart.
const RAMP: Ramp = Ramp {
    workers: 6,
    load: (0.01, 0.95),
    seconds: 20,
    types: [("GET", 0.9, 1.0), ("SCAN", 0.1, 10.0)],
    lines: &[
        line("c-FCFS, 1 to 6", "c-fcfs", (1, 6)),
        line("DARC, 1 to 6", "darc", (1, 6)),
        tail("c-FCFS, 1 to 6, tail", "c-fcfs"),
        tail("DARC, 1 to 6, tail", "darc"),
        line("c-FCFS, 6", "c-fcfs", (6, 6)),
        line("DARC, 6", "darc", (6, 6)),
        line("c-FCFS, 1", "c-fcfs", (1, 1)),
    ],
    latency: (1.0, 1e5),
};

/// Service of a read or write, and a write's wait, of figures 7 and 8.
const WAITS: Waits = Waits {
    workers: 4,
    service_ns: 3_400,
    wait_ns: 6_600,
    systems: &[
        waiter("RAMCloud: keeps its worker", true, 0),
        waiter("RAMCloud-A: a thread each", false, 600),
        waiter("psp: leaves its worker", false, 0),
    ],
    across: Across::Clients(40.0, &[]),
    most_krps: 1_300.0,
};

pub(super) const FIGURES: &[Figure] = &[
    Figure {
        name: "arachne-4",
        title: "Arachne, figure 4: workers follow a load that rises and falls",
        notes: &[
            "The paper's cores are one more: that of the dispatch thread.",
            "1 to 6: the paper's rule. Tail: psp's, which sees late requests.",
        ],
        claims: &[
            Claim::new("1 (2 cores at low load)", 0, "c-FCFS, 1 to 6", Reading::At(0.5)),
            Claim::new("6 (all available cores)", 0, "c-FCFS, 1 to 6", Reading::At(10.0)),
        ],
        body: Body::Ramp(RAMP),
    },
    Figure {
        name: "arachne-7",
        title: "Arachne, figure 7: writes that wait for other servers",
        notes: &["Clients by Little's law: the mean number of requests in the system."],
        claims: &[Claim::new(
            "2.5",
            0,
            "RAMCloud: keeps its worker",
            Reading::Lower(30.0, ("RAMCloud-A: a thread each", 30.0)),
        )],
        body: Body::Waits(Waits {
            across: Across::Clients(
                40.0,
                &[
                    0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.925, 0.95, 0.965, 0.975, 0.985, 0.99,
                ],
            ),
            ..WAITS
        }),
    },
    Figure {
        name: "arachne-8",
        title: "Arachne, figure 8: reads, and writes that wait for other servers",
        notes: &[
            "YCSB-A writes half of its requests, YCSB-B 5 %, YCSB-C none.",
            "Clients by Little's law: the mean number of requests in the system.",
        ],
        claims: &[
            Claim::new(
                "1.54 (54 % higher, YCSB-A)",
                0,
                "RAMCloud: keeps its worker",
                Reading::Lower(50.0, ("RAMCloud-A: a thread each", 50.0)),
            ),
            Claim::new(
                "0.85 (15 % less, YCSB-C)",
                0,
                "RAMCloud: keeps its worker",
                Reading::Lower(0.0, ("RAMCloud-A: a thread each", 0.0)),
            ),
        ],
        body: Body::Waits(Waits {
            across: Across::Writes(20.0, &[0.0, 0.05, 0.25, 0.5, 0.75, 1.0]),
            ..WAITS
        }),
    },
    Figure {
        name: "elastic",
        title: "Workers that follow a load: what a tail costs",
        notes: &[
            "Needed: at each rate the fewest workers whose p99 is within 1.5 times that of six.",
            "Each line goes through its values. Lines of load factors have no tail factor.",
        ],
        claims: &[],
        body: Body::TradeOff(TradeOff {
            ramp: RAMP,
            systems: &[
                System::plain("c-FCFS", "c-fcfs"),
                System::plain("DARC", "darc"),
                System::plain("MQ", "mq"),
            ],
            lines: &[
                tradeoff::Line {
                    name: "Arachne's rule: load factor",
                    settings: by_load_factor,
                    values: &[1.5],
                },
                tradeoff::Line {
                    name: "psp's rule: tail factor",
                    settings: by_tail_factor,
                    values: &[1.0],
                },
                tradeoff::Line {
                    name: "load factor",
                    settings: by_load_factor,
                    values: &[1.0, 0.6, 0.4],
                },
                tradeoff::Line {
                    name: "tail factor",
                    settings: by_tail_factor,
                    values: &[2.0, 1.5, 1.25],
                },
                tradeoff::Line {
                    name: "interval (ms)",
                    settings: |interval_ms| ElasticSettings::default().interval_ms(interval_ms as u64),
                    values: &[200.0, 10.0],
                },
            ],
            cost: (0.8, 1.5),
            tail_most: 10.0,
        }),
    },
];

/// Arachne's rule.
fn by_load_factor(load_factor: f64) -> ElasticSettings {
    let settings = ElasticSettings::default().load_factor(load_factor);
    settings.tail_factor(0.0)
}

/// psp's rule.
fn by_tail_factor(tail_factor: f64) -> ElasticSettings {
    ElasticSettings::default().tail_factor(tail_factor)
}

const fn line(name: &'static str, policy: &'static str, workers: (usize, usize)) -> Line {
    Line {
        system: System::plain(name, policy),
        workers,
        sees_tail: false,
    }
}

/// One to six workers under the default settings.
const fn tail(name: &'static str, policy: &'static str) -> Line {
    Line { sees_tail: true, ..line(name, policy, (1, 6)) }
}

const fn waiter(name: &'static str, keeps: bool, cost_ns: u64) -> Waiter {
    Waiter { system: System::plain(name, "c-fcfs"), keeps, cost_ns }
}
