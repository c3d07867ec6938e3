//! Requests that block in the kernel, without their workers.

use std::sync::atomic::Ordering;

use psp_server::PreemptPolicy;

use crate::common::until;
use crate::rig::{named, servers, start};

const CLIENTS: usize = 8;
/// Fewer helpers than calls.
const HELPERS: usize = 3;

#[test]
fn those_that_block_let_others_run_and_helpers_are_bounded() {
    for (policy, config) in servers() {
        let name = named(&(policy.clone(), config.clone()));
        let has_threads = config.preempt == PreemptPolicy::KernelThread;
        let server = start(policy, config.blocking_threads_max(HELPERS));
        let mut blocked: Vec<_> = (0..CLIENTS).map(|_| server.connect()).collect();
        for client in &mut blocked {
            client.send("block-gate\n");
        }
        let begun = || server.begun.load(Ordering::SeqCst);
        until("all have begun", || begun() == CLIENTS);
        let at_once = if has_threads { CLIENTS } else { HELPERS };
        let at_gate = || server.at_gate.load(Ordering::SeqCst);
        until("as many as may are blocked", || at_gate() == at_once);
        let mut other = server.connect();
        for round in 0..30 {
            let short = format!("short {round}");
            assert_eq!(other.ask(&short), format!("ok {short}"), "{name}");
            assert_eq!(other.ask("spin 10"), "ok spin 10", "{name}");
            assert_eq!(other.ask("nap 0"), "ok nap 0", "{name}");
        }
        assert_eq!(at_gate(), at_once, "{name}");
        server.gate.open();
        for client in &mut blocked {
            assert_eq!(client.line(), "ok block-gate", "{name}");
        }
        assert_eq!(at_gate(), CLIENTS, "{name}: the others had their turn");
        for _ in 0..3 {
            assert_eq!(other.ask("block 1"), "ok block 1", "{name}");
            let failed = other.ask("block-fail 1");
            assert_eq!(failed, "!failed block-fail 1", "{name}");
        }
        assert_eq!(server.stop().abandoned, 0, "{name}");
    }
}
