//! What every end-to-end suite shares: a server in a process of its own, and a blocking client that
//! sees the bytes.
//!
//! ```text
//!   suite ── Connection ──TCP──> server process (Server: started, watched and killed from here)
//! ```
//!
//! The suites run against psp-redis, or with `PSP_TEST_SERVER=redis-server` against Redis.

// Every suite compiles this module and uses its own part of it.
#![allow(dead_code, unused_imports)]

mod connection;
mod reply;
mod server;

pub(crate) use connection::{Connection, encode, encode_line};
pub(crate) use psp_harness::{DEADLINE, run_program, wait_until};
pub(crate) use reply::Reply;
pub(crate) use server::{Options, Server};
