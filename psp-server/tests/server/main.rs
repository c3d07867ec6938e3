//! Whole servers in this process.

#[path = "../common/mod.rs"]
mod common;
mod hints;
mod readme;
mod refused;
mod replies;
mod serving;
mod sockets;
mod starting;
mod switching;
mod tutorial;
