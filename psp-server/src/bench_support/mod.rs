//! Internals of the crate for its benchmarks. Not part of the API.

mod stages;
mod stopwatch;

pub use stages::measure_stages;
pub use stopwatch::{Side, Stages};
