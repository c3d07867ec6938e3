//! What a wait costs. Prints figures, which docs/waiting.md has: `cargo test .. -- --ignored --nocapture costs`.

use std::time::Instant;

use psp_server::{Policy, PreemptPolicy, Topology};

use crate::rig::{config, start};

#[test]
#[ignore = "prints figures"]
fn of_a_yield_and_of_a_short_request() {
    const YIELDS: u32 = 100_000;
    const SHORTS: u32 = 20_000;
    for (topology, preempt) in [
        (Topology::Inline, PreemptPolicy::Cooperative),
        (Topology::Dedicated, PreemptPolicy::Cooperative),
        (Topology::Dedicated, PreemptPolicy::KernelThread),
    ] {
        let server = start(Policy::c_fcfs(), config(topology, preempt).workers(1));
        let mut client = server.connect();
        client.ask("yield 1000");
        let started = Instant::now();
        client.ask(&format!("yield {YIELDS}"));
        let each = started.elapsed() / YIELDS;
        let started = Instant::now();
        (0..SHORTS).for_each(|_| drop(client.ask("short")));
        let short = started.elapsed() / SHORTS;
        println!("{topology} {preempt}: {each:?} a yield, {short:?} a short request");
        server.stop();
    }
}
