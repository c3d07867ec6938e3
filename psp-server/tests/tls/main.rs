//! Servers with TLS.

#[path = "../common/mod.rs"]
mod common;
mod rig;
mod serving;
mod storm;
