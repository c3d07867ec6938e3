//! Whole preemptions: how soon the worker is free, how long the preempted request is away, and how much time
//! remains on a worker that is preempted every few microseconds.
//!
//! ```text
//!   dispatcher's thread   had its quantum? ── send ──►│
//!                                │◄── propagation ──►│
//!   worker's core           long request      │switch│ another: has it go on at once ──► long request
//!                                             │◄──────────────── gap ────────────────►│
//! ```
//!
//! A quantum is counted as in a server, from when the request's turn began, and has no minimum here. The
//! dispatcher does nothing else and never sleeps.
//!
//! | file | job |
//! | --- | --- |
//! | `bout.rs` | the long request, and the dispatcher that preempts it |
//! | `contexts.rs` | `cooperative` and `signal` |
//! | `threads.rs` | `kernel-thread` |
//! | `moving.rs` | `kernel-thread` where the request goes on at another worker |
//! | `parts.rs` | making contexts and threads; switching threads |
//! | `figures.rs` | percentiles |
//!
//! ```sh
//! cargo bench -p psp-server --bench preempt_gap        # prints the tables of docs/preemption.md
//! ```
//!
//! Needs two cores to itself.

// The mechanisms are private to the crate. Their files are compiled into the benchmark.
#[allow(dead_code, unreachable_pub, unused_imports, unsafe_code)]
#[path = "../../../src/fiber/mod.rs"]
mod fiber;
#[allow(dead_code, unreachable_pub)]
#[path = "../../../src/limits.rs"]
mod limits;
#[allow(dead_code, unused_imports)]
#[path = "../../../src/presence.rs"]
mod presence;
#[allow(dead_code, unreachable_pub, unused_imports, unsafe_code)]
#[path = "../runtime.rs"]
mod runtime;
#[cfg(test)]
#[allow(dead_code, unreachable_pub, unused_imports)]
#[path = "../../../src/simulated/mod.rs"]
mod simulated;
#[cfg(test)]
use psp_server::peer;
use psp_server::{policy, preempt};

mod bout;
mod contexts;
mod figures;
mod moving;
mod parts;
mod threads;

use std::time::Duration;

use bout::{Bout, LongRun, Measured};
use preempt::PreemptPolicy;
use runtime::host::clock::Clock;
use runtime::host::cores::Cores;

const MECHANISMS: [PreemptPolicy; 3] = [PreemptPolicy::Cooperative, PreemptPolicy::Signal, PreemptPolicy::KernelThread];
/// The quantum of the first table.
const QUANTUM_US: u64 = 50;
/// The quanta of the other tables.
const QUANTA_US: [u64; 9] = [0, 1, 2, 5, 10, 20, 50, 100, 200];
/// Undisturbed runs. The other runs are compared with the fastest of them.
const WHOLE_RUNS: usize = 3;

/// How much is measured.
struct Extent {
    /// Time for each row of the first table.
    gaps: Duration,
    /// Time for each quantum.
    run: Duration,
    /// Parts that are measured one by one.
    parts: usize,
}

const MEASUREMENT: Extent = Extent {
    gaps: Duration::from_secs(3),
    run: Duration::from_millis(500),
    parts: 20_000,
};
/// A test of the benchmark.
const TRIAL: Extent = Extent {
    gaps: Duration::from_millis(10),
    run: Duration::from_millis(5),
    parts: 20,
};

/// Preempts a request every `quantum`; with `None`, never.
fn run(cores: &Cores, preempt: PreemptPolicy, length: Duration, quantum_us: Option<u64>) -> Measured {
    let quantum = quantum_us.map(Duration::from_micros);
    let bout = Bout::new(cores.clone(), length, quantum);
    match preempt {
        PreemptPolicy::KernelThread => threads::run(&bout),
        _ => contexts::run(bout, preempt),
    }
}

fn print_gaps(cores: &Cores, extent: &Extent) {
    let clock = Clock::new();
    println!("| mechanism | what | p50 us | p99 us | p99.9 us | of |");
    println!("| --- | --- | --- | --- | --- | --- |");
    for preempt in MECHANISMS {
        let measured = run(cores, preempt, extent.gaps, Some(QUANTUM_US));
        let switch_ns = measured
            .switch_ns
            .unwrap_or_else(|| parts::thread_switches(&clock, cores, extent.parts as u64));
        let create_ns = match preempt {
            PreemptPolicy::KernelThread => parts::threads_made(&clock, extent.parts),
            _ => parts::contexts_made(&clock, extent.parts),
        };
        for (what, figures) in [
            ("switch", switch_ns),
            ("create", create_ns),
            ("send", measured.send_ns),
            ("propagation", measured.propagation_ns),
            ("whole gap", measured.long.gap_ns),
        ] {
            figures.print(preempt, what);
        }
    }
}

/// Where workers receive for themselves, and lend their turns.
fn print_moves(cores: &Cores, extent: &Extent) {
    println!("| request | what | p50 us | p99 us | p99.9 us | of |");
    println!("| --- | --- | --- | --- | --- | --- |");
    for (what, moves) in [("stays", false), ("moves", true)] {
        let measured = moving::run(cores, extent.gaps, moves);
        measured.freed_ns.print(what, "asked until worker is free");
        measured.resumed_ns.print(what, "resumed until it runs");
    }
}

fn print_row(what: &str, cells: [String; QUANTA_US.len()]) {
    println!("| {what} | {} |", cells.join(" | "));
}

fn print_quanta(cores: &Cores, extent: &Extent) {
    print_row("quantum", QUANTA_US.map(|us| format!("{us} us")));
    println!("| --- |{}", " --- |".repeat(QUANTA_US.len()));
    for preempt in MECHANISMS {
        let length = |quantum_us| run(cores, preempt, extent.run, quantum_us).long;
        let whole = (0..WHOLE_RUNS).map(|_| length(None).strides).max();
        let stride_us = extent.run.as_secs_f64() * 1e6 / whole.unwrap_or(0).max(1) as f64;
        let longs: [LongRun; QUANTA_US.len()] = QUANTA_US.map(|us| length(Some(us)));
        let had_us = |long: &LongRun| long.strides as f64 * stride_us;
        let lost = |long: &LongRun| 1.0 - had_us(long) / (extent.run.as_secs_f64() * 1e6);
        let (lost, turn_us, empty) = (
            longs.each_ref().map(|long| format!("{:.1} %", lost(long) * 100.0)),
            longs.each_ref().map(|long| {
                let turn_us = had_us(long) / (long.turns + 1) as f64;
                format!("{turn_us:.1}")
            }),
            longs.each_ref().map(|long| {
                let empty = long.turns_empty as f64 / long.turns.max(1) as f64;
                format!("{:.2} %", empty * 100.0)
            }),
        );
        print_row(&format!("`{preempt}`: worker's time lost"), lost);
        print_row(&format!("`{preempt}`: had of a turn, us"), turn_us);
        print_row(&format!("`{preempt}`: turns without progress"), empty);
    }
}

fn main() {
    fiber::prepare_process().unwrap();
    let measures = std::env::args().any(|argument| argument == "--bench");
    let extent = if measures { MEASUREMENT } else { TRIAL };
    let cores = Cores::discover();
    println!("{} cores={}", fiber::Platform::detect(), cores.count);
    print_gaps(&cores, &extent);
    println!();
    print_moves(&cores, &extent);
    println!();
    print_quanta(&cores, &extent);
}
