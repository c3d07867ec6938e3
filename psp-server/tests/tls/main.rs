//! Servers with TLS.

mod admin;
#[path = "../common/mod.rs"]
mod common;
mod rig;
mod serving;
mod storm;
