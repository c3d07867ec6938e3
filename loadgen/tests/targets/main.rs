//! `psp-loadgen run` against each kind of target, from its arguments to its report.

mod memcached;
mod memcached_udp;
mod program;
mod protobuf;
#[path = "../scripted/serve.rs"]
mod serve;
mod simulated;
mod unix;
