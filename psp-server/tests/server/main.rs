//! Whole servers in this process.

mod abandoned;
#[path = "../common/mod.rs"]
mod common;
mod deadlines;
mod readme;
mod refused;
mod serving;
mod starting;
mod switching;
mod tutorial;
