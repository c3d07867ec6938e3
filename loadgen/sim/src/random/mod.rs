//! Random numbers from seeds, and choices by weight.

mod choice;
mod stream;

pub use choice::WeightedChoice;
pub use stream::stream_rng;
