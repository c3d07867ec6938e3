//! The dispatcher, and its account of the turns on each worker.

mod blocked;
pub(crate) mod dispatcher;
mod places;
mod turns;
