//! The dispatcher, and its account of the turns on each worker.

mod blocked;
pub(crate) mod dispatcher;
pub(crate) mod lengths;
mod places;
mod turns;
