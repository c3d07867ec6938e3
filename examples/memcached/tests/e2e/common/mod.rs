//! Code that every end-to-end suite shares: a started server, and a blocking client that works with
//! raw bytes.
//!
//! The suites run against psp-memcached, or against memcached with `PSP_TEST_SERVER=memcached`.

// Every suite compiles this module and uses a different part of it.
#![allow(dead_code, unused_imports)]

mod connection;
mod datagrams;
mod server;

pub(crate) use connection::Connection;
pub(crate) use datagrams::Datagrams;
pub(crate) use psp_harness::{run_program, wait_until};
pub(crate) use server::{OF_WORKERS, Server, shapes};
