//! Ideal policies as bounds. They know service times in advance or preempt at no cost, which no
//! server can.

mod driver;
mod ps;
mod srpt;

pub(super) use driver::simulate;
pub(super) use ps::ProcessorSharing;
pub(super) use srpt::ShortestRemaining;
