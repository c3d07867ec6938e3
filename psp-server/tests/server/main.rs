//! Whole servers in this process.

#[path = "../common/mod.rs"]
mod common;
mod readme;
mod refused;
mod serving;
mod sockets;
mod starting;
mod switching;
mod tutorial;
