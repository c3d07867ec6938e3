//! Reports of runs, and of several runs together: repetitions, sweeps and comparisons.

mod client;
mod comparison;
mod condition;
mod csv;
#[cfg(test)]
pub(crate) mod fixture;
mod live;
mod run_report;
mod runs;
mod simulation;
mod statistics;
mod summary;
mod sweep;
mod tables;
mod warnings;

pub use client::Client;
pub use comparison::{COMPARE_SCHEMA, CompareReport, Compared, Ratios};
pub use condition::{Condition, ConditionError, Verdict};
pub use run_report::{ClosedLoopReport, Mode, OVERALL, Report, SCHEMA, SCHEMA_VERSION, TraceReport, TypeReport};
pub use runs::{Folded, RUNS_SCHEMA, RunsReport};
pub use simulation::SimulationReport;
pub use statistics::{Estimate, Spread};
pub use summary::Summary;
pub use sweep::{Range, SWEEP_SCHEMA, Search, SweepPoint, SweepReport, Swept};

pub(crate) use summary::Offers;
