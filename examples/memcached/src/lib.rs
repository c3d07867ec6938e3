//! A memcached-compatible server on psp-server.
//!
//! ```text
//!   frame ─► MemcachedHandler ─┬► text ───┐
//!                              ├► meta ───┼─► Operations ─► Cache
//!                              └► binary ─┘   (counters)
//! ```
//!
//! [`cache`] holds the items. [`operations`] defines the effects of commands on them. Each protocol
//! has a module that turns requests into operations and their outcomes into replies. [`report`]
//! contains the statistics.

pub mod allocator;
pub mod auth;
pub mod binary;
pub mod cache;
pub mod clock;
pub mod config;
pub mod connections;
pub mod counters;
pub mod dump;
pub mod exptime;
pub mod handler;
pub mod listen;
pub mod meta;
pub mod operations;
pub mod report;
pub mod size;
pub mod startup;
pub mod state;
pub mod text;

mod extended;
mod unsupported;
