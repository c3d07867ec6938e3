//! Simulated servers as targets.

mod run;
mod target;

pub use run::SimRun;
pub use target::{SimTarget, SimTargetError};
