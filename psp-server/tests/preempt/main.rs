//! Preemption in a running server, one mechanism after the other.

#[path = "../common/mod.rs"]
mod common;
mod cooperative;
mod rig;
