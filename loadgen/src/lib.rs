//! An open-loop load generator that reports the tail latency of each request type.
//!
//! Requests are sent when their schedule says so, whatever the server does, and latency counts from
//! that intended time: a server that stalls shows up in the percentiles with every request that
//! should have been sent meanwhile.
//!
//! ```text
//!   mix, workload ─► plan ─► engine ─► record ─► report
//!   what is sent     all      threads   counts,   table,
//!                  settings   sockets   histograms JSON
//! ```
//!
//! The library holds everything but the command line: a program can build a [`plan::RunPlan`], hand
//! it to [`engine::run`] and read a [`report::Report`].

pub mod arrivals;
mod clock;
pub mod command;
pub mod engine;
pub mod keys;
mod lot;
pub mod mix;
pub mod plan;
pub mod preload;
pub mod preset;
pub mod record;
pub mod reply;
pub mod report;
pub mod sim;
pub mod sizes;
pub mod target;
pub mod trace;
pub mod workload;
