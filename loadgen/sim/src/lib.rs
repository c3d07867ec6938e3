//! Workloads, and a simulator of psp's scheduling policies in virtual time.
//!
//! The simulator drives the same policies as a live server. `psp-loadgen` sends the same workloads to live servers.
//!
//! ```text
//!   workload ─► simulator ─► experiment ─► figure,        tournament
//!   types,      SimPlan,     settings,     figures of     one policy beside
//!   arrivals    Outcome      capacity      the papers     all others
//! ```

pub mod chart;
pub mod experiment;
pub mod figure;
pub mod keys;
pub mod measure;
pub mod parallel;
pub mod random;
pub mod simulator;
pub mod text;
pub mod tournament;
pub mod workload;
