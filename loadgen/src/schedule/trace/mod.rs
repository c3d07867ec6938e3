//! Recorded requests: files of several formats.
//!
//! ```text
//!   Lines ──► Parse ─────────────► Reader ──────► Trace ──► Replay
//!   bounded   one for each format  order of       checked   arrivals,
//!                                  times          commands  read ahead
//! ```
//!
//! A file is read twice. Before the run all of it is checked. During the run a thread of its own
//! keeps a bounded number of arrivals ahead. A file may be larger than memory: only the different
//! commands are kept.

mod access_log;
pub(super) mod columns;
mod csv;
pub(super) mod file;
pub(super) mod format;
pub(super) mod lines;
mod own;
mod parse;
mod reader;
pub(super) mod replay;
mod seconds;
mod times;
mod vegeta;
