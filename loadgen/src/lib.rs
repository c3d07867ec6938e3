//! An open-loop load generator that reports the tail latency of each request type.
//!
//! Each request is sent at the time in its schedule, independent of the server's replies, and latency counts from
//! that intended time. If a server stalls, every request that should have been sent meanwhile shows in
//! the percentiles.
//!
//! ```text
//!   schedule ─► clients ─► record ─► report ─► page
//!   plans,      threads,   counts,   JSON,     HTML with plots,
//!   mixes       sockets    latency   tables    one SVG picture
//!      │
//!     wire      targets, commands, bytes
//!
//!   simulated ─► report            psp-sim in the place of a server
//! ```
//!
//! The library holds everything but the command line. A program can build a [`schedule::RunPlan`], pass it to
//! [`clients::run`] and read a [`report::Report`].

pub mod clients;
pub mod page;
pub mod record;
pub mod report;
pub mod schedule;
pub mod simulated;
pub mod wire;
