//! Charts in one style, as SVG.

pub mod chart;
pub mod drawing;
mod ticks;
