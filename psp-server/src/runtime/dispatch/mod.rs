//! The dispatcher, and its account of the turns on each worker.

mod blocked;
mod brief;
mod control;
pub(crate) mod dispatcher;
pub(crate) mod late_turns;
pub(crate) mod lengths;
pub(crate) mod places;
mod studies;
pub(crate) mod turns;
