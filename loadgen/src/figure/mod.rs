//! x
pub mod chart;
pub mod drawing;
mod ticks;
