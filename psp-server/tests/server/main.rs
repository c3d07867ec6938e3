//! Whole servers in this process.

mod abandoned;
#[path = "../common/mod.rs"]
mod common;
mod deadlines;
mod hints;
mod readme;
mod refused;
mod replies;
mod serving;
mod sockets;
mod starting;
mod switching;
mod tutorial;
