//! `psp-loadgen run` against each kind of target, from its arguments to its report.

mod program;
#[path = "../scripted/serve.rs"]
mod serve;
mod unix;
