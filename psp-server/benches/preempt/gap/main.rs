//! Whole preemptions: how soon the worker is free, how long the preempted request is away, and what
//! is left of a worker that is preempted every few microseconds.
//!
//! ```text
//!   dispatcher's thread   decides ── asks ─┐                      waits a quantum, decides …
//!                            │◄─ freed ───►│
//!   worker's core         long request     │ another: has it resumed at once ───────► long request
//!                                       │◄──────────────── gap ──────────────────►│
//! ```
//!
//! | file | job |
//! | --- | --- |
//! | `bout.rs` | the long request, and the dispatcher that preempts it |
//! | `contexts.rs` | `cooperative` and `signal` |
//! | `threads.rs` | `kernel-thread` |
//!
//! ```sh
//! cargo bench -p psp-server --bench preempt_gap        # prints the tables of docs/preemption.md
//! ```
//!
//! Wants two cores for itself.

// The mechanisms are private to the crate: their files are compiled into the benchmark.
#[allow(dead_code, unreachable_pub, unused_imports, unsafe_code)]
#[path = "../../../src/fiber/mod.rs"]
mod fiber;
#[allow(dead_code, unreachable_pub, unused_imports, unsafe_code)]
#[path = "../runtime.rs"]
mod runtime;
use psp_server::{handler, policy, preempt};

mod bout;
mod contexts;
mod threads;

use std::time::Duration;

use bout::{Bout, Measured};
use preempt::PreemptPolicy;
use runtime::cores::Cores;

const MECHANISMS: [PreemptPolicy; 3] = [
    PreemptPolicy::Cooperative,
    PreemptPolicy::KernelThread,
    PreemptPolicy::Signal,
];
const QUANTA_US: [u64; 7] = [2, 5, 10, 20, 50, 100, 200];
/// How long a figure is measured, and how long a test of the benchmark takes.
const RUN: Duration = Duration::from_millis(500);
const RUN_SHORT: Duration = Duration::from_millis(10);

/// Preempts a request every `quantum`; without one, never.
fn run(cores: &Cores, preempt: PreemptPolicy, quantum: Option<Duration>) -> Measured {
    let measures = std::env::args().any(|argument| argument == "--bench");
    let length = if measures { RUN } else { RUN_SHORT };
    let bout = Bout::new(cores.clone(), length, quantum);
    match preempt {
        PreemptPolicy::KernelThread => threads::run(&bout),
        _ => contexts::run(bout, preempt),
    }
}

fn percentile_us(sorted_ns: &[u64], percent: f64) -> f64 {
    let at = ((sorted_ns.len() as f64 * percent / 100.0) as usize).min(sorted_ns.len() - 1);
    sorted_ns[at] as f64 / 1000.0
}

fn main() {
    fiber::prepare_process().unwrap();
    let cores = Cores::discover();
    println!("{}", fiber::Platform::detect());
    println!("| mechanism | what | p50 us | p99 us | p99.9 us | of |");
    println!("| --- | --- | --- | --- | --- | --- |");
    for preempt in MECHANISMS {
        let measured = run(&cores, preempt, Some(Duration::from_micros(50)));
        for (what, mut ns) in [
            ("asking", measured.asking_ns),
            ("decision to freed worker", measured.freed_ns),
            ("gap of the long request", measured.long.gap_ns),
        ] {
            ns.sort_unstable();
            if ns.is_empty() {
                println!("| `{preempt}` | {what} | | | | 0 |");
                continue;
            }
            println!(
                "| `{preempt}` | {what} | {:.2} | {:.2} | {:.2} | {} |",
                percentile_us(&ns, 50.0),
                percentile_us(&ns, 99.0),
                percentile_us(&ns, 99.9),
                ns.len()
            );
        }
    }
    println!();
    println!(
        "| worker's time lost | {} |",
        QUANTA_US.map(|us| format!("{us} us")).join(" | ")
    );
    println!("| --- |{}", " --- |".repeat(QUANTA_US.len()));
    for preempt in MECHANISMS {
        let whole = run(&cores, preempt, None).long.strides as f64;
        let lost = QUANTA_US.map(|us| {
            let quantum = Some(Duration::from_micros(us));
            let strides = run(&cores, preempt, quantum).long.strides;
            format!("{:.1} %", 100.0 * (1.0 - strides as f64 / whole))
        });
        println!("| `{preempt}` | {} |", lost.join(" | "));
    }
}
