//! Results as an HTML page, and as a single picture.

mod html;
mod latency;
mod live;
mod measured;
mod plot;
mod results;
mod selection;
mod simulated;

pub use html::html;
pub use latency::{LatencyError, latency_svg};
pub use results::{Results, ResultsError};
