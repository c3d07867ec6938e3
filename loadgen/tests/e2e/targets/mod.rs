//! `psp-loadgen run` against each kind of target, from arguments to the report.

mod http;
mod lines;
mod memcached;
mod memcached_udp;
mod program;
mod protobuf;
mod short;
mod simulated;
mod tls;
mod traces;
mod unix;
