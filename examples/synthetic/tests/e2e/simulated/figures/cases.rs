//! The table of what live servers serve. Points of a case run at the same time, and all figures that need them share
//! them.
//!
//! Policies stand for the systems of the papers: d-FCFS for IX and for Shenango without stealing, stealing for ZygOS
//! and Shenango, SQ and MQ for Shinjuku, DARC for Perséphone, JBSQ for Concord. The shortest type takes 10 ms or more
//! after dilation.

use psp_server::policy::{Requeue, Sq, Synergy};
use psp_server::{Policy, PreemptPolicy};

use super::case::{Case, Served, System};
use crate::simulated::distributed::{FLOWS, synergy};

const WITHOUT_PREEMPTION: Served = Served::ByDispatcher(PreemptPolicy::None);
const WITH_SIGNALS: Served = Served::ByDispatcher(PreemptPolicy::Signal);

const fn by_workers(flows: usize, moves: bool, preempt: PreemptPolicy) -> Served {
    Served::ByWorkers { flows, moves, preempt }
}

/// Each worker keeps what the network gives it.
const fn d_fcfs(loads: &'static [f64]) -> System {
    System {
        name: "d-fcfs",
        loads,
        served: by_workers(FLOWS, false, PreemptPolicy::Signal),
        policy: |_| Policy::d_fcfs(),
    }
}

const fn stealing(loads: &'static [f64]) -> System {
    System {
        name: "stealing",
        loads,
        served: by_workers(FLOWS, true, PreemptPolicy::Signal),
        policy: |_| Policy::stealing(),
    }
}

const fn c_fcfs(loads: &'static [f64]) -> System {
    System {
        name: "c-fcfs",
        loads,
        served: WITHOUT_PREEMPTION,
        policy: |_| Policy::c_fcfs(),
    }
}

const fn darc(loads: &'static [f64]) -> System {
    System {
        name: "darc",
        loads,
        served: WITHOUT_PREEMPTION,
        policy: |_| Policy::darc(),
    }
}

/// Shinjuku with a policy of its two.
const fn shinjuku(loads: &'static [f64], policy: fn(f64) -> Policy) -> System {
    System { name: "shinjuku", loads, served: WITH_SIGNALS, policy }
}

const fn of_synergy(name: &'static str, loads: &'static [f64], served: Served, policy: fn(f64) -> Policy) -> System {
    System { name, loads, served, policy }
}

fn single_queue(us: f64, requeue: Requeue) -> Policy {
    Sq::default().quantum_us(5.0 * us).requeue(requeue).into()
}

/// Perséphone's table 3. Checkpoints lie apart by the server's factor: some 200 ns before dilation, as those of
/// compilers.
pub(super) static HIGH: Case = Case {
    workload: "high-bimodal",
    dilation: (1000, 20),
    systems: &[
        d_fcfs(&[0.3, 0.6, 0.75]),
        c_fcfs(&[0.3, 0.45, 0.6, 0.75, 0.92]),
        stealing(&[0.3, 0.45, 0.6, 0.75]),
        shinjuku(&[0.3, 0.6, 0.75, 0.86, 0.92], |us| Policy::mq().quantum_us(5.0 * us)),
        darc(OF_MECHANISMS),
        of_synergy("signal", OF_MECHANISMS, by_workers(FLOWS, true, PreemptPolicy::Signal), |us| {
            synergy(us).into()
        }),
        of_synergy("cooperative", OF_MECHANISMS, by_workers(FLOWS, true, PreemptPolicy::Cooperative), |us| {
            synergy(us).into()
        }),
    ],
};

const OF_MECHANISMS: &[f64] = &[0.3, 0.6, 0.75, 0.86, 0.92];

/// Perséphone's table 3, and Shinjuku's figure 5c.
pub(super) static EXTREME: Case = Case {
    workload: "extreme-bimodal",
    dilation: (4000, 8),
    systems: &[
        // Beyond, what waits behind a few long requests is more than a socket holds.
        d_fcfs(&[0.1, 0.2, 0.3]),
        stealing(&[0.3, 0.45, 0.6, 0.7, 0.8]),
        shinjuku(&[0.3, 0.45, 0.6, 0.75, 0.85, 0.92], |us| single_queue(us, Requeue::Tail)),
        darc(&[0.3, 0.45, 0.6, 0.75]),
    ],
};

/// Perséphone's table 4.
pub(super) static TPCC: Case = Case {
    workload: "tpcc",
    dilation: (3500, 3),
    systems: &[
        d_fcfs(&[0.3, 0.6]),
        stealing(&[0.3, 0.6, 0.75, 0.85]),
        shinjuku(&[0.3, 0.6, 0.75, 0.85], |us| Policy::mq().quantum_us(10.0 * us)),
        darc(&[0.3, 0.6, 0.75, 0.85]),
    ],
};

/// Service times of RocksDB in Perséphone's 5.4.4.
pub(super) static ROCKSDB: Case = Case {
    workload: "rocksdb",
    dilation: (3250, 2),
    systems: &[
        stealing(&[0.3, 0.45, 0.6, 0.75]),
        shinjuku(&[0.3, 0.6, 0.75, 0.9], |us| Policy::mq().quantum_us(15.0 * us)),
        darc(&[0.3, 0.6, 0.75, 0.9]),
    ],
};

/// Shinjuku's figure 5a.
pub(super) static FIXED: Case = light_tailed("fixed");

/// Shinjuku's figure 5b.
pub(super) static EXPONENTIAL: Case = light_tailed("exponential");

const fn light_tailed(workload: &'static str) -> Case {
    Case { workload, dilation: (4000, 50), systems: LIGHT_TAILED }
}

const LIGHT_TAILED: &[System] = &[
    d_fcfs(&[0.3, 0.6, 0.8]),
    stealing(&[0.3, 0.6, 0.8, 0.9]),
    shinjuku(&[0.3, 0.6, 0.8, 0.9], |us| single_queue(us, Requeue::Head)),
];

/// Shinjuku's figure 6b.
pub(super) static TRIMODAL: Case = Case {
    workload: "trimodal",
    dilation: (4000, 5),
    systems: &[
        d_fcfs(&[0.3, 0.6, 0.75]),
        stealing(&[0.3, 0.6, 0.7, 0.8]),
        shinjuku(&[0.3, 0.6, 0.75, 0.86, 0.92], |us| Policy::mq().quantum_us(5.0 * us)),
    ],
};

/// Service times of LevelDB in Synergy's table II.
pub(super) static LEVELDB: Case = Case {
    workload: "leveldb",
    dilation: (4000, 5),
    systems: &[
        shinjuku(OF_LEVELDB, |us| Policy::mq().quantum_us(5.0 * us)),
        System {
            name: "concord",
            loads: OF_LEVELDB,
            served: WITH_SIGNALS,
            policy: |us| Policy::jbsq().quantum_us(5.0 * us),
        },
        of_synergy("synergy", OF_LEVELDB, by_workers(FLOWS, true, PreemptPolicy::Signal), |us| {
            synergy(us).into()
        }),
    ],
};

const OF_LEVELDB: &[f64] = &[0.3, 0.6, 0.76, 0.9, 0.96];

/// From one part of Synergy to all, with a quantum of 5 us at first, as its figure 7 adds them.
pub(super) static PARTS: Case = Case {
    workload: "zippydb",
    dilation: (4000, 10),
    systems: &[
        // A worker takes nothing from another's socket, either.
        of_synergy("rss-ci", &[0.1, 0.2, 0.3, 0.4], by_workers(FLOWS, false, PreemptPolicy::Signal), |us| {
            rss_ci(us).into()
        }),
        part("+ws", &[0.3, 0.6, 0.7, 0.8, 0.86], |us| ws(us).into()),
        part("+wq", OF_PARTS, |us| wq(us).into()),
        part("+cp", OF_PARTS, |us| cp(us).into()),
        part("+qa", OF_PARTS, |us| cp(us).adaptive_quantum(true).into()),
    ],
};

const OF_PARTS: &[f64] = &[0.3, 0.6, 0.8, 0.9, 0.95];

const fn part(name: &'static str, loads: &'static [f64], policy: fn(f64) -> Policy) -> System {
    let served = by_workers(FLOWS, true, PreemptPolicy::Signal);
    of_synergy(name, loads, served, policy)
}

fn rss_ci(us: f64) -> Synergy {
    synergy(us)
        .adaptive_quantum(false)
        .conditional_preemption(false)
        .wait_queue(false)
        .stealing(false)
}

fn ws(us: f64) -> Synergy {
    rss_ci(us).stealing(true)
}

fn wq(us: f64) -> Synergy {
    ws(us).wait_queue(true)
}

fn cp(us: f64) -> Synergy {
    wq(us).conditional_preemption(true)
}

/// Few flows and many, as in Synergy's figure 10.
pub(super) static OF_FLOWS: Case = Case {
    workload: "high-bimodal",
    dilation: (4000, 10),
    systems: &[of_so_many("8 flows", 8), of_so_many("512 flows", FLOWS)],
};

const fn of_so_many(name: &'static str, flows: usize) -> System {
    let served = by_workers(flows, true, PreemptPolicy::Signal);
    of_synergy(name, &[0.1, 0.3, 0.5, 0.65, 0.8], served, |us| synergy(us).into())
}
