//! An open-loop load generator that reports the tail latency of each request type, and a simulator
//! that does so in virtual time.
//!
//! Requests are sent when their schedule says so, whatever the server does, and latency counts from
//! that intended time: a server that stalls shows up in the percentiles with every request that
//! should have been sent meanwhile.
//!
//! ```text
//!   mix, workload ─► plan ─► engine ─► record ─► report ─┬─► runs, comparison, sweep
//!   what is sent     all      threads   counts,   table,  └─► page
//!                  settings   sockets   histograms JSON       HTML with plots
//!
//!   workload ─► sim_settings, SimPlan ─► sim ─► sim_report
//!                         sim_target ─► sim_run ─► report
//!                               capacity ─┘
//! ```
//!
//! The library holds everything but the command line: a program can build a [`plan::RunPlan`], hand
//! it to [`engine::run`] and read a [`report::Report`], or a [`sim::SimPlan`], hand it to
//! [`sim::simulate`] and read a [`sim::Outcome`].

pub mod arrivals;
pub mod capacity;
mod clock;
pub mod command;
pub mod comparison;
pub mod condition;
mod csv;
pub mod engine;
pub mod figure;
pub mod hdr_log;
pub mod intervals;
pub mod keys;
mod lot;
pub mod mix;
pub mod page;
pub mod parallel;
pub mod percentiles;
pub mod plan;
pub mod preload;
pub mod preset;
pub mod record;
pub mod report;
pub mod runs;
pub mod server;
pub mod sim;
pub mod sim_report;
pub mod sim_run;
pub mod sim_settings;
pub mod sim_target;
pub mod sizes;
pub mod stalls;
pub mod statistics;
pub mod sweep;
mod table;
pub mod target;
pub mod trace;
mod wire;
pub mod workload;
