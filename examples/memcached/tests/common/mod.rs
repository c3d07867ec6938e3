//! What every end-to-end suite shares: a started server, and a blocking client that sees the bytes.
//!
//! The suites run against psp-memcached, or with `PSP_TEST_SERVER=memcached` against memcached.

// Every suite compiles this module and uses its own part of it.
#![allow(dead_code, unused_imports)]

mod connection;
mod datagrams;
mod server;

pub(crate) use connection::Connection;
pub(crate) use datagrams::Datagrams;
pub(crate) use psp_harness::{run_program, wait_until};
pub(crate) use server::Server;
