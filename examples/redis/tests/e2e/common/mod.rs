//! Code that every end-to-end suite shares: a server in its own process, and a blocking client that
//! works with raw bytes.
//!
//! ```text
//!   suite ── Connection ──TCP──> server process (Server: started, watched and killed from here)
//! ```
//!
//! The suites run against psp-redis, or against Redis with `PSP_TEST_SERVER=redis-server`.

// Every suite compiles this module and uses a different part of it.
#![allow(dead_code, unused_imports)]

mod beside;
mod connection;
mod reply;
mod server;
pub(crate) mod waiting;

pub(crate) use beside::{get, goes_on_beside};
pub(crate) use connection::{Connection, encode, encode_line, pipeline};
pub(crate) use psp_harness::{DEADLINE, raise_descriptor_limit, run_program, wait_until};
pub(crate) use reply::Reply;
pub(crate) use server::{Options, Server};

/// The topologies, each of which must pass the tests of bounds.
pub(crate) const TOPOLOGIES: [&str; 2] = ["inline", "dedicated"];
