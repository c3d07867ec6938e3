//! Charts: panels of lines or curves, as SVG and as comma-separated values.

mod drawing;
mod svg;
mod ticks;

pub use drawing::{Axis, CSV_HEADER, Drawing, Panel};
pub use svg::{standalone_svg, svg};
pub use ticks::grouped;
