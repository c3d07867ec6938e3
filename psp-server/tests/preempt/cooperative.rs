//! Requests that yield at checkpoints.

use psp_server::{Config, PreemptPolicy};

use crate::common::until;
use crate::rig::start;

#[test]
fn a_request_that_calls_no_checkpoint_is_counted() {
    for blocking in ["hold 0", "block 0"] {
        let server = start(Config::default().preempt(PreemptPolicy::Cooperative));
        let mut long = server.begin(blocking);
        let mut short = server.connect();
        short.send("short 1\n");
        until("it waits", || server.handle.snapshot().types[0].queued == 1);
        server.gates.open(0);
        assert_eq!(long.line(), format!("ok {blocking}"));
        assert_eq!(short.line(), "ok short 1");
        let worker = &server.handle.snapshot().workers[0];
        assert_eq!(worker.turns.preemptions_honoured, 0);
        assert_eq!(worker.preemptions_missed, 1);
        assert_eq!(worker.contexts_exhausted, 0);
    }
}

#[test]
fn a_loop_of_a_preemptible_function_yields() {
    let server = start(Config::default().preempt(PreemptPolicy::Cooperative));
    let mut long = server.begin("loop 0");
    assert_eq!(server.connect().ask("short 1"), "ok short 1", "it runs beside the loop");
    server.gates.open(0);
    assert_eq!(long.line(), "ok loop 0");
    assert!(server.handle.snapshot().workers[0].turns.preemptions_honoured > 0);
}
