//! An open-loop load generator that reports the tail latency of each request type, and a simulator
//! that does so in virtual time.
//!
//! Requests are sent when their schedule says so, whatever the server does, and latency counts from
//! that intended time: a server that stalls shows up in the percentiles with every request that
//! should have been sent meanwhile.
//!
//! ```text
//!   mix, workload ─► plan ─► engine ─► record ─► report
//!   what is sent     all      threads   counts,   table,
//!                  settings   sockets   histograms JSON
//!
//!   workload ─► sim_settings, SimPlan ─► sim ─► sim_report
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
pub mod engine;
pub mod figure;
pub mod mix;
pub mod parallel;
pub mod plan;
pub mod preload;
pub mod record;
pub mod reply;
pub mod report;
pub mod sim;
pub mod sim_report;
pub mod sim_settings;
mod table;
pub mod target;
pub mod workload;
