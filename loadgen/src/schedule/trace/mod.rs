//! Recorded arrivals: files with one arrival per line.
//!
//! ```text
//! # seconds  type, or command
//! 0.000000   GET
//! 0.000125   GET
//! 0.000130   LRANGE big 0 -1
//! ```
//!
//! A file is read twice. Before the run all of it is checked. During the run a thread of its own
//! keeps a bounded number of arrivals ahead. A file may be larger than memory.

pub(super) mod columns;
pub(super) mod file;
pub(super) mod lines;
pub(super) mod replay;
