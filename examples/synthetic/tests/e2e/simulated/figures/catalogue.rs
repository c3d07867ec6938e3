//! The table of the live figures, paper by paper.

use super::case::Case;
use super::cases::{EXPONENTIAL, EXTREME, FIXED, HIGH, LEVELDB, OF_FLOWS, PARTS, ROCKSDB, TPCC, TRIMODAL};
use super::figure::{Figure, PanelOf, Quantity, Series, Share};
use super::number::{Number, Reading};
use Quantity::{Busy, Latency, LatencyOf, Preemptions, Slowdown};
use Reading::{Further, Lower, Reach};

/// Figures of Perséphone and Synergy have this percentile.
const P999: f64 = 0.999;
/// Figures of Shinjuku have this one.
const P99: f64 = 0.99;

const SHENANGO: &str = "Shenango (stealing)";
const SHINJUKU_MQ: &str = "Shinjuku (mq)";
const SHINJUKU_SQ: &str = "Shinjuku (sq)";
const PERSEPHONE: &str = "Perséphone (darc)";
const IX: &str = "IX (d-fcfs)";
const ZYGOS: &str = "ZygOS (stealing)";
const CONCORD: &str = "Concord (jbsq)";
const SYNERGY: &str = "Synergy";

pub(super) static FIGURES: &[Figure] = &[
    Figure {
        name: "persephone-3-live",
        title: "Perséphone figure 3, live: DARC, c-FCFS and d-FCFS, High Bimodal",
        tail: P999,
        series: &[
            Series::new("d-FCFS", "d-fcfs"),
            Series::new("c-FCFS", "c-fcfs"),
            Series::new("DARC", "darc"),
        ],
        panels: &[
            panel("All requests", &HIGH, Slowdown, (1.0, 1e3)),
            panel("Short requests (1 us)", &HIGH, LatencyOf(0), (1.0, 1e3)).slo(20.0),
            panel("Long requests (100 us)", &HIGH, LatencyOf(1), (1e2, 1e4)),
        ],
        numbers: &[
            Number::new("15.7", 0, Lower("DARC", "c-FCFS", 0.92)),
            Number::new("2.3", 1, Further("DARC", "c-FCFS")),
            Number::new("up to 4.2", 2, Lower("c-FCFS", "DARC", 0.92)),
        ],
    },
    Figure {
        name: "persephone-5a-live",
        title: "Perséphone figure 5a, live: three systems, High Bimodal",
        tail: P999,
        series: &of_persephone(SHINJUKU_MQ),
        panels: &[
            panel("Slowdown", &HIGH, Slowdown, (1.0, 1e3)).slo(20.0),
            panel("Long requests (100 us)", &HIGH, LatencyOf(1), (1e2, 1e4)),
        ],
        numbers: &[
            Number::new("2.35", 0, Further(PERSEPHONE, SHENANGO)),
            Number::new("10.2", 0, Lower(PERSEPHONE, SHENANGO, 0.75)),
        ],
    },
    Figure {
        name: "persephone-5b-live",
        title: "Perséphone figure 5b, live: three systems, Extreme Bimodal",
        tail: P999,
        series: &of_persephone(SHINJUKU_SQ),
        panels: &[
            panel("Slowdown", &EXTREME, Slowdown, (1.0, 1e4)).slo(50.0),
            panel("Long requests (500 us)", &EXTREME, LatencyOf(1), (1e2, 1e4)),
        ],
        numbers: &[
            Number::new("1.4 (DARC)", 0, Further(PERSEPHONE, SHENANGO)),
            Number::new("1.4 (Shinjuku)", 0, Further(SHINJUKU_SQ, SHENANGO)),
        ],
    },
    Figure {
        name: "persephone-6-live",
        title: "Perséphone figure 6, live: three systems, TPC-C",
        tail: P999,
        series: &of_persephone(SHINJUKU_MQ),
        panels: &[
            panel("Slowdown", &TPCC, Slowdown, (1.0, 1e3)).slo(10.0),
            panel("Payment (5.7 us)", &TPCC, LatencyOf(0), (1.0, 1e3)),
            panel("OrderStatus (6 us)", &TPCC, LatencyOf(1), (1.0, 1e3)),
            panel("NewOrder (20 us)", &TPCC, LatencyOf(2), (1e1, 1e3)),
            panel("Delivery (88 us)", &TPCC, LatencyOf(3), (1e1, 1e4)),
            panel("StockLevel (100 us)", &TPCC, LatencyOf(4), (1e1, 1e4)),
        ],
        numbers: &[
            Number::new("4.6", 0, Lower(PERSEPHONE, SHENANGO, 0.85)),
            Number::new("1.2", 0, Further(PERSEPHONE, SHENANGO)),
            Number::new("9.2", 1, Lower(PERSEPHONE, SHENANGO, 0.85)),
            Number::new("7", 2, Lower(PERSEPHONE, SHENANGO, 0.85)),
            Number::new("3.6", 3, Lower(PERSEPHONE, SHENANGO, 0.85)),
        ],
    },
    Figure {
        name: "persephone-8-live",
        title: "Perséphone figure 8, live: three systems, service times of RocksDB",
        tail: P999,
        series: &[
            Series::new(SHENANGO, "stealing"),
            Series::new(SHINJUKU_MQ, "shinjuku"),
            Series::new(PERSEPHONE, "darc"),
        ],
        panels: &[
            panel("Slowdown", &ROCKSDB, Slowdown, (1.0, 1e3)).slo(20.0),
            panel("SCAN (635 us)", &ROCKSDB, LatencyOf(1), (1e2, 1e5)),
        ],
        numbers: &[Number::new("2.3", 0, Further(PERSEPHONE, SHENANGO))],
    },
    Figure {
        name: "shinjuku-5-live",
        title: "Shinjuku figure 5, live: one type of requests",
        tail: P99,
        series: &of_shinjuku(SHINJUKU_SQ),
        panels: &[
            panel("(a) Fixed, 1 us", &FIXED, Latency, (1.0, 1e2)),
            panel("(b) Exponential, 1 us", &EXPONENTIAL, Latency, (1.0, 1e2)),
            panel("(c) 0.5 us, 0.5 % of 500 us", &EXTREME, Latency, (0.3, 1e4)).slo(300.0),
        ],
        // The paper's 5 times are at a p99 that neither passes here.
        numbers: &[],
    },
    Figure {
        name: "shinjuku-6-live",
        title: "Shinjuku figure 6, live: two and three types",
        tail: P99,
        series: &of_shinjuku(SHINJUKU_MQ),
        panels: &[
            panel("(a) Bimodal(50-1, 50-100)", &HIGH, Slowdown, (1.0, 1e3)).slo(20.0),
            panel("(b) Trimodal(33-1, 33-10, 33-100)", &TRIMODAL, Slowdown, (1.0, 1e3)).slo(20.0),
        ],
        numbers: &[
            Number::new("17 (94 % lower)", 0, Lower(SHINJUKU_MQ, IX, 0.3)),
            Number::new("17 (94 % lower)", 1, Lower(SHINJUKU_MQ, IX, 0.3)),
            Number::new("over 2", 0, Further(SHINJUKU_MQ, ZYGOS)),
            Number::new("over 2", 1, Further(SHINJUKU_MQ, ZYGOS)),
        ],
    },
    Figure {
        name: "synergy-6-live",
        title: "Synergy figure 6, live: service times of LevelDB",
        tail: P999,
        series: &[
            Series::new(SHINJUKU_MQ, "shinjuku"),
            Series::new(CONCORD, "concord"),
            Series::new(SYNERGY, "synergy"),
        ],
        panels: &[
            panel("Slowdown", &LEVELDB, Slowdown, (1.0, 1e3)).slo(50.0),
            panel("Latency", &LEVELDB, Latency, (1e1, 1e4)),
        ],
        numbers: &[
            Number::new("209", 0, Reach(SHINJUKU_MQ)),
            Number::new("224", 0, Reach(CONCORD)),
            Number::new("284", 0, Reach(SYNERGY)),
            Number::new("2.92", 0, Lower(SYNERGY, CONCORD, 0.76)),
        ],
    },
    Figure {
        name: "synergy-7-live",
        title: "Synergy figure 7, live: its components, ZippyDB",
        tail: P999,
        series: &[
            Series::new("rss-ci", "rss-ci"),
            Series::new("+ws", "+ws"),
            Series::new("+wq", "+wq"),
            Series::new("+cp", "+cp"),
            Series::new("+qa", "+qa"),
        ],
        panels: &[
            panel("Slowdown", &PARTS, Slowdown, (1.0, 1e3)).slo(50.0),
            panel("Latency", &PARTS, Latency, (1e2, 1e5)),
            panel("Preemptions", &PARTS, Preemptions, (1e-3, 1e1)),
        ],
        numbers: &[
            Number::new("89", 0, Reach("rss-ci")),
            Number::new("538", 0, Reach("+ws")),
            Number::new("763", 0, Reach("+wq")),
            Number::new("843", 0, Reach("+cp")),
            Number::new("843", 0, Reach("+qa")),
        ],
    },
    Figure {
        name: "synergy-9-live",
        title: "Synergy figure 9, live: methods of interruption, High",
        tail: P999,
        series: &[
            Series::new("S-Signal", "signal"),
            Series::new("S-CI (checkpoints)", "cooperative"),
            Series::new(PERSEPHONE, "darc"),
        ],
        panels: &[
            panel("Slowdown", &HIGH, Slowdown, (1.0, 1e3)).slo(50.0),
            panel("Latency", &HIGH, Latency, (1e2, 1e4)),
        ],
        numbers: &[],
    },
    Figure {
        name: "synergy-10-live",
        title: "Synergy figure 10, live: 8 flows and 512, High",
        tail: P999,
        series: &[
            Series::new("8 flows", "8 flows"),
            Series::new("512 flows", "512 flows"),
            worker("8 flows, busiest worker", "8 flows", Share::Most),
            worker("512 flows, busiest worker", "512 flows", Share::Most),
            worker("8 flows, idlest worker", "8 flows", Share::Least),
            worker("512 flows, idlest worker", "512 flows", Share::Least),
        ],
        panels: &[
            panel("Slowdown", &OF_FLOWS, Slowdown, (1.0, 1e3)).slo(50.0),
            panel("Workers", &OF_FLOWS, Busy, (0.0, 100.0)),
        ],
        numbers: &[],
    },
];

const fn of_persephone(shinjuku: &'static str) -> [Series; 4] {
    [
        Series::new("Shenango, d-FCFS", "d-fcfs"),
        Series::new(SHENANGO, "stealing"),
        Series::new(shinjuku, "shinjuku"),
        Series::new(PERSEPHONE, "darc"),
    ]
}

const fn of_shinjuku(shinjuku: &'static str) -> [Series; 3] {
    [
        Series::new(IX, "d-fcfs"),
        Series::new(ZYGOS, "stealing"),
        Series::new(shinjuku, "shinjuku"),
    ]
}

const fn worker(name: &'static str, system: &'static str, share: Share) -> Series {
    Series { name, system, share }
}

const fn panel(title: &'static str, case: &'static Case, quantity: Quantity, range: (f64, f64)) -> PanelOf {
    PanelOf { title, case, quantity, range, slo: None }
}
