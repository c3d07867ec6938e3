//! The server as a whole, simulated: the real net worker, dispatcher and executors with simulated sockets, workers and
//! time, in one thread, from a seed.
//!
//! ```text
//!   clients ── bytes ──► sockets ──► net worker, dispatcher ── rings ──► workers without threads: executor, handler
//!      │    ◄─ replies ─                (its own loop)      ◄─ reports ─        │
//!      └── model: what has to come, and why it may not ◄── ledger: what ran ────┘
//! ```
//!
//! The net worker runs its own loop. Whenever it reads the clock, makes a system call or waits, virtual time passes,
//! and what happens elsewhere by then happens ([`world`]): clients send and read, workers' turns begin and end,
//! policies change. A seed is a [`plan`]: settings, habits and faults. The same seed does the same again.
//!
//! Where a plan has a control type, endless requests run until a client kills them by a request of that type: if they
//! kept that from running, it would wait in vain. Elsewhere they are killed from outside after a while.
//!
//! Requests have deadlines, and expire in queues. Keys that expire are no matter of this crate, which has no store: the
//! checks of linearizability of psp-redis have them.
//!
//! What is not simulated: threads and what passes between them at the same time (loom checks the lock-free parts), the
//! stacks of workers with a thread (their turns end by the simulation's schedule; the net thread as worker 0 has its
//! real contexts), the kernel's event queue, datagrams, TLS, and the topology `distributed`.
//!
//! | file | job |
//! | --- | --- |
//! | `plan.rs`, `losses.rs` | what a seed stands for |
//! | `server.rs` | puts the server together |
//! | `world.rs` | what happens beside the net worker, in order |
//! | `worker.rs` | workers without threads |
//! | `client.rs` | clients, and the model of what has to come |
//! | `protocol.rs`, `handler.rs`, `ledger.rs` | requests whose bytes can be checked, and what ran |
//! | `faults.rs` | components that fail, for tests of the checks |
//! | `coverage.rs` | libFuzzer in the place of seeds |

mod client;
#[cfg(fuzzing)]
mod coverage;
mod faults;
mod handler;
mod ledger;
mod losses;
mod plan;
mod protocol;
mod server;
mod worker;
mod world;

use std::time::Instant;

use self::client::Counts;
use self::faults::Fault;
use self::plan::Plan;
use self::protocol::{STATUSES, Status};
use self::server::{Outcome, simulate};

/// Requests of one seed in the short form, and in the long one.
const REQUESTS_SHORT: u64 = 2_000;
/// Seeds with each faulty component.
const SEEDS_FAULTY: u64 = 8;
const REQUESTS_LONG: u64 = 20_000;
const SEEDS_SHORT: u64 = 150;

fn number_of(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{variable} is no number: {text}")))
}

/// Simulates a seed. Ends the test if its checks fail.
fn check(seed: u64, requests: u64) -> Outcome {
    let outcome = simulate(Plan::of(seed, requests));
    if let Some(failure) = &outcome.failure {
        panic!(
            "seed {seed}: {failure}\nrepeat it with PSP_SIM_SEED={seed} PSP_SIM_REQUESTS_PER_SEED={requests}\n{:#?}",
            Plan::of(seed, requests)
        );
    }
    outcome
}

#[test]
fn nothing_is_lost_or_duplicated_or_reordered() {
    let requests = number_of("PSP_SIM_REQUESTS_PER_SEED").unwrap_or(REQUESTS_SHORT);
    if let Some(seed) = number_of("PSP_SIM_SEED") {
        println!("{:#?}", check(seed, requests));
        return;
    }
    let mut all = Counts::default();
    for seed in 0..SEEDS_SHORT {
        all.add(&check(seed, requests).counts);
    }
    println!("{SEEDS_SHORT} seeds: {all}");
    for status in STATUSES.into_iter().filter(|status| !matches!(status, Status::TooLarge | Status::Other)) {
        assert!(all.of(status) > 0, "no reply says {status:?}");
    }
    assert!(all.left > 0 && all.half_closed > 0 && all.ended_by_server > 0 && all.killed > 0);
}

/// The long form: `PSP_SIM_REQUESTS` requests from the seed `PSP_SIM_FROM` on.
#[test]
#[ignore = "long"]
fn long() {
    let wanted = number_of("PSP_SIM_REQUESTS").unwrap_or(10_000_000);
    let each = number_of("PSP_SIM_REQUESTS_PER_SEED").unwrap_or(REQUESTS_LONG);
    let first = number_of("PSP_SIM_FROM").unwrap_or(1_000_000);
    let (began, mut all, mut virtual_ns, mut told) = (Instant::now(), Counts::default(), 0_u64, 0);
    for seed in first.. {
        let outcome = check(seed, each);
        all.add(&outcome.counts);
        virtual_ns += outcome.passed_ns;
        let is_done = all.sent >= wanted;
        if is_done || began.elapsed().as_secs() >= told {
            told = began.elapsed().as_secs() + 10;
            let rate = all.sent as f64 / began.elapsed().as_secs_f64();
            let (seeds, virtual_s) = (seed - first + 1, virtual_ns / 1_000_000_000);
            println!("{seeds} seeds from {first} on, {virtual_s} s of virtual time, {rate:.0} requests/s: {all}");
        }
        if is_done {
            return;
        }
    }
}

#[test]
fn a_seed_does_the_same_again() {
    for seed in 0..10 {
        let [first, second] = [(); 2].map(|()| check(seed, REQUESTS_SHORT));
        assert_eq!(first, second, "seed {seed}");
        let other = check(seed + 1, REQUESTS_SHORT);
        assert_ne!(first.counts.digest, other.counts.digest);
    }
}

/// Every faulty component is found, by most seeds that give it something to do.
#[test]
fn faults_are_found() {
    for fault in [
        Fault::AnswersTwice,
        Fault::AnswersNot,
        Fault::WrongByte,
        Fault::Forgets,
        Fault::RunsTwice,
        Fault::LosesBytes,
        Fault::LosesRequest,
        Fault::LeaksBudget,
        Fault::HoldsThread,
        Fault::ControlWaits,
    ] {
        let failures: Vec<_> = (0..SEEDS_FAULTY)
            .filter_map(|seed| simulate(Plan::of(seed, REQUESTS_SHORT).with(fault)).failure)
            .collect();
        assert!(failures.len() >= 3, "{fault:?} was found {} times in {SEEDS_FAULTY}", failures.len());
    }
}
