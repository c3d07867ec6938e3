//! The simulator against queueing theory, the papers, and itself.

mod analytic;
mod cluster;
mod custom;
mod figures;
mod finishing;
mod lending;
mod overload;
mod portfolio;
mod sim;
mod traces;
mod waiting;
mod worst;
