//! The simulator against queueing theory, the papers, and itself.

mod analytic;
mod custom;
mod figures;
mod finishing;
mod lending;
mod sim;
mod traces;
mod waiting;
