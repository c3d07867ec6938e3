//! The figures in which Perséphone's and Shinjuku's papers compare their systems with others, by service times alone.
//!
//! Each system is the policy that it implements, with the [costs](super::costs) of its design.

use super::claim::{Claim, Reading};
use super::costs::{POSTED, POSTED_AT_PERSEPHONE, TO_COMPLETION};
use super::definition::{Body, Figure};
use super::sweep::{Across, Of, PanelOf, Quantity, Sweep, System, TAIL, Unit};

/// Workers of the papers' experiments.
const WORKERS: usize = 14;

const SERVERS: &str = "The paper measures on servers; only the shape compares.";
const SAME_WORKERS: &str = "IX and ZygOS have 16 hyperthreads in the paper and Shinjuku 14 of them, since two receive \
                            and dispatch. Here all have 14.";

pub(super) const FIGURES: &[Figure] = &[
    Figure {
        name: "persephone-3",
        title: "Perséphone figure 3: DARC, c-FCFS and d-FCFS, High Bimodal, 14 workers",
        notes: &[SERVERS],
        claims: &[lower("15.7", 0, "DARC", "c-FCFS", 92.5)],
        body: Body::Sweep(Sweep::by_load(
            WORKERS,
            Unit::Percent,
            &[
                slowdown("All requests", "high-bimodal", None),
                latency("Short requests (1 us)", "high-bimodal", 0),
                latency("Long requests (100 us)", "high-bimodal", 1),
            ],
            &[
                System::plain("d-FCFS", "d-fcfs").paying(TO_COMPLETION),
                System::plain("c-FCFS", "c-fcfs").paying(TO_COMPLETION),
                System::plain("DARC", "darc").paying(TO_COMPLETION),
            ],
        )),
    },
    Figure {
        name: "persephone-5a",
        title: "Perséphone figure 5a: three systems, High Bimodal, 14 workers",
        notes: &[SERVERS],
        claims: &[
            lower("10.2", 0, PERSEPHONE, SHENANGO.name, 75.0),
            lower("1.75", 0, PERSEPHONE, SHINJUKU, 75.0),
        ],
        body: Body::Sweep(Sweep::by_load(
            WORKERS,
            Unit::Percent,
            &[
                slowdown("All requests", "high-bimodal", Some(20.0)),
                latency("Long requests (100 us)", "high-bimodal", 1),
            ],
            &of_persephone("mq", &["quantum-us=5", "requeue=head"]),
        )),
    },
    Figure {
        name: "persephone-5b",
        title: "Perséphone figure 5b: three systems, Extreme Bimodal, 14 workers",
        notes: &[SERVERS],
        claims: &[],
        body: Body::Sweep(Sweep::by_load(
            WORKERS,
            Unit::Percent,
            &[
                slowdown("All requests", "extreme-bimodal", Some(50.0)),
                latency("Long requests (500 us)", "extreme-bimodal", 1),
            ],
            &of_persephone("sq", &["quantum-us=5", "requeue=tail"]),
        )),
    },
    Figure {
        name: "persephone-6",
        title: "Perséphone figure 6: three systems, TPC-C, 14 workers",
        notes: &[SERVERS],
        claims: &[
            lower("4.6", 0, PERSEPHONE, SHENANGO.name, 85.0),
            lower("9.2", 1, PERSEPHONE, SHENANGO.name, 85.0),
            lower("7", 2, PERSEPHONE, SHENANGO.name, 85.0),
            lower("3.6", 3, PERSEPHONE, SHENANGO.name, 85.0),
        ],
        body: Body::Sweep(Sweep::by_load(
            WORKERS,
            Unit::Percent,
            &[
                slowdown("All requests", "tpcc", Some(10.0)),
                latency("Payment (5.7 us)", "tpcc", 0),
                latency("OrderStatus (6 us)", "tpcc", 1),
                latency("NewOrder (20 us)", "tpcc", 2),
                latency("Delivery (88 us)", "tpcc", 3),
                latency("StockLevel (100 us)", "tpcc", 4),
            ],
            &of_persephone("mq", &["quantum-us=10", "requeue=head"]),
        )),
    },
    Figure {
        name: "persephone-8",
        title: "Perséphone figure 8: three systems, service times of RocksDB, 14 workers",
        notes: &[SERVERS],
        claims: &[],
        body: Body::Sweep(Sweep::by_load(
            WORKERS,
            Unit::Percent,
            &[slowdown("All requests", "rocksdb", Some(20.0)), latency("SCAN (635 us)", "rocksdb", 1)],
            &of_persephone("mq", &["quantum-us=15", "requeue=head"]),
        )),
    },
    Figure {
        name: "persephone-idle",
        title: "Perséphone equation 2: what a reservation idles, 14 workers",
        notes: &["The paper's numbers are at its peak load, where long requests wait all the time."],
        claims: &[idle("0.86", 0), idle("0.67", 1), idle("0.96", 2), idle("0 (no average waste)", 3)],
        body: Body::Sweep(Sweep::by_load(
            WORKERS,
            Unit::Percent,
            &[
                idle_cores("High Bimodal", "high-bimodal"),
                idle_cores("Extreme Bimodal", "extreme-bimodal"),
                idle_cores("RocksDB", "rocksdb"),
                idle_cores("TPC-C", "tpcc"),
            ],
            &[
                System::plain("DARC", "darc").paying(TO_COMPLETION),
                System::plain("d-FCFS", "d-fcfs").paying(TO_COMPLETION),
            ],
        )),
    },
    Figure {
        name: "shinjuku-5",
        title: "Shinjuku figure 5a and b: light tails, 14 workers",
        notes: &[SAME_WORKERS],
        claims: &[],
        body: Body::Sweep(Sweep::by_load(
            WORKERS,
            Unit::Mrps,
            &[
                p99(Quantity::Latency(Of::All), "(a) Fixed, 1 us", "fixed", None),
                p99(Quantity::Latency(Of::All), "(b) Exponential, mean 1 us", "exponential", None),
            ],
            &of_shinjuku("sq", &["quantum-us=5", "requeue=head"]),
        )),
    },
    Figure {
        name: "shinjuku-5c",
        title: "Shinjuku figure 5c: Bimodal(99.5-0.5, 0.5-500), 14 workers",
        notes: &[SAME_WORKERS],
        claims: &[],
        body: Body::Sweep(Sweep::by_load(
            WORKERS,
            Unit::Mrps,
            &[p99(
                Quantity::Latency(Of::All),
                "(c) 0.5 us, 0.5 % of 500 us",
                "bimodal-995-500",
                Some(300.0),
            )],
            &of_shinjuku("sq", &["quantum-us=5", "requeue=tail"]),
        )),
    },
    Figure {
        name: "shinjuku-6",
        title: "Shinjuku figure 6: two and three types, 14 workers",
        notes: &[SAME_WORKERS],
        claims: &[],
        body: Body::Sweep(Sweep::by_load(
            WORKERS,
            Unit::Krps,
            &[
                p99(Quantity::Slowdown(Of::All), "(a) Bimodal(50-1, 50-100)", "high-bimodal", Some(20.0)),
                p99(Quantity::Slowdown(Of::All), "(b) Trimodal(33-1, 33-10, 33-100)", "trimodal", Some(20.0)),
            ],
            &of_shinjuku("mq", &["quantum-us=5", "requeue=head"]),
        )),
    },
    Figure {
        name: "shinjuku-7b",
        title: "Shinjuku figure 7b: requests of 1 us by workers and dispatchers, offered twice what workers bear",
        notes: &["Replies cost the workers nothing here. The paper's take 2.2 us for each request."],
        claims: &[
            Claim::new("5", 0, "one dispatcher", Reading::At(11.0)),
            Claim::new("9.5", 0, "two dispatchers", Reading::At(22.0)),
        ],
        body: Body::Sweep(Sweep {
            workers: 22,
            effort: 1,
            across: Across::Workers(2.0, &[1, 2, 4, 6, 8, 11, 14, 18, 22]),
            panels: &[PanelOf {
                quantity: Quantity::Throughput,
                range: (0.5, 20.0),
                ..slowdown("Fixed, 1 us", "fixed", None)
            }],
            systems: &[
                shinjuku("one dispatcher", "sq", &["queue-capacity=1000"]),
                shinjuku("two dispatchers", "sq", &["queue-capacity=1000", "dispatchers=2"]),
            ],
        }),
    },
    Figure {
        name: "shinjuku-8",
        title: "Shinjuku figure 8: service times of RocksDB, 14 workers",
        notes: &[SAME_WORKERS],
        claims: &[],
        body: Body::Sweep(Sweep::by_load(
            WORKERS,
            Unit::Krps,
            &[
                p99(Quantity::Latency(Of::All), "(a) 0.5 % SCAN(1000)", "shinjuku-8a", Some(100.0)),
                p99(Quantity::Latency(Of::Type(0)), "(b) GETs beside as many SCAN(5000)", "shinjuku-8b", None),
                p99(Quantity::Latency(Of::Type(1)), "(c) These SCANs", "shinjuku-8b", None),
            ],
            &[
                System::plain("IX", "d-fcfs").paying(TO_COMPLETION),
                System::plain("ZygOS", "stealing").paying(TO_COMPLETION),
                shinjuku("Shinjuku (SQ), no preemption", "sq", &["preemption=false"]),
                shinjuku("Shinjuku (SQ)", "sq", &["quantum-us=15", "requeue=tail"]),
                shinjuku("Shinjuku (MQ)", "mq", &["quantum-us=15", "requeue=head"]),
            ],
        )),
    },
];

const SHINJUKU: &str = "Shinjuku";
const PERSEPHONE: &str = "Perséphone";

const SHENANGO: System = System::plain("Shenango, c-FCFS", "stealing").paying(TO_COMPLETION);

const fn of_persephone(shinjuku: &'static str, with: &'static [&'static str]) -> [System; 4] {
    [
        System::plain("Shenango, d-FCFS", "d-fcfs").paying(TO_COMPLETION),
        SHENANGO,
        System::plain(SHINJUKU, shinjuku).paying(POSTED_AT_PERSEPHONE).set(with),
        System::plain(PERSEPHONE, "darc").paying(TO_COMPLETION),
    ]
}

const fn of_shinjuku(shinjuku: &'static str, with: &'static [&'static str]) -> [System; 3] {
    [
        System::plain("IX", "d-fcfs").paying(TO_COMPLETION),
        System::plain("ZygOS", "stealing").paying(TO_COMPLETION),
        self::shinjuku(SHINJUKU, shinjuku, with),
    ]
}

const fn shinjuku(name: &'static str, policy: &'static str, set: &'static [&'static str]) -> System {
    System::plain(name, policy).paying(POSTED).set(set)
}

/// How many times lower one system is than another at a load in percent.
const fn lower(paper: &'static str, panel: usize, series: &'static str, than: &'static str, load: f64) -> Claim {
    Claim::new(paper, panel, series, Reading::Lower(load, (than, load)))
}

/// What DARC idles at the highest load.
const fn idle(paper: &'static str, panel: usize) -> Claim {
    Claim::new(paper, panel, "DARC", Reading::At(99.0))
}

const fn idle_cores(title: &'static str, workload: &'static str) -> PanelOf {
    PanelOf {
        quantity: Quantity::IdleCores,
        range: (1e-3, 10.0),
        ..slowdown(title, workload, None)
    }
}

const fn slowdown(title: &'static str, workload: &'static str, slo: Option<f64>) -> PanelOf {
    PanelOf {
        title,
        workload,
        load: None,
        quantity: Quantity::Slowdown(Of::All),
        percentile: TAIL,
        range: (1.0, 1e3),
        slo,
    }
}

const fn latency(title: &'static str, workload: &'static str, of_type: usize) -> PanelOf {
    PanelOf {
        quantity: Quantity::Latency(Of::Type(of_type)),
        range: (1.0, 1e4),
        ..slowdown(title, workload, None)
    }
}

const fn p99(quantity: Quantity, title: &'static str, workload: &'static str, slo: Option<f64>) -> PanelOf {
    PanelOf { quantity, percentile: 99.0, ..slowdown(title, workload, slo) }
}
