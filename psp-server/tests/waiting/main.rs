//! Requests that wait in a running server, without their workers.

#[path = "../common/mod.rs"]
mod common;
mod costs;
mod many;
mod random;
mod rig;
mod sharing;
