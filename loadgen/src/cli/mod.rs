//! The command line: one file for each subcommand.

mod capacity;
mod compare;
mod contestants;
mod experiment;
mod figure;
mod interrupt;
mod keyspace;
mod live;
mod measure;
mod measurement;
mod output;
mod pacing;
#[cfg(feature = "dpdk")]
mod port;
mod preload;
mod progress;
mod report;
mod run;
mod sim;
mod sweep;
mod target;
mod values;

use clap::{Parser, Subcommand};

/// Open-loop load generator that reports the tail latency of each request type.
#[derive(Debug, Parser)]
#[command(name = "psp-loadgen", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Send requests at a fixed rate and report latencies, counted from intended send times
    Run(Box<measure::MeasureArgs>),
    /// Raise the rate until an objective breaks, and report the highest that kept it
    Sweep(Box<sweep::SweepArgs>),
    /// Measure several targets in turn, in the same conditions, and report how they relate
    Compare(Box<compare::CompareArgs>),
    /// Turn results in JSON into one HTML page with plots
    Report(report::ReportArgs),
    /// Create the keys and collections that benchmarks use
    Preload(Box<preload::PreloadArgs>),
    /// Simulate policies at given loads, in virtual time, and report latencies and slowdowns
    Sim(Box<sim::SimArgs>),
    /// Find the highest load at which a policy keeps a slowdown, by simulation
    Capacity(Box<capacity::CapacityArgs>),
    /// Draw the figures of the papers from simulations of these policies
    Figure(figure::FigureArgs),
}

/// Why the program ends without success.
pub(crate) struct Failure {
    /// What went wrong.
    pub(crate) error: anyhow::Error,
    /// 1: the work failed. 2: the command line is wrong. 3: a demand is not met. 130: it was interrupted.
    pub(crate) exit_code: u8,
}

impl Failure {
    fn usage(error: impl Into<anyhow::Error>) -> Self {
        Self {
            error: error.into(),
            exit_code: 2,
        }
    }

    /// The work was done, and what it found is not as it was demanded.
    fn condition(error: impl Into<anyhow::Error>) -> Self {
        Self {
            error: error.into(),
            exit_code: 3,
        }
    }

    /// The work was stopped by a signal, and what there is was printed.
    fn interrupted(what_is_done: String) -> Self {
        Self {
            error: anyhow::anyhow!("interrupted; {what_is_done}"),
            exit_code: 130,
        }
    }

    fn work(error: impl Into<anyhow::Error>) -> Self {
        Self {
            error: error.into(),
            exit_code: 1,
        }
    }
}

/// Parses the command line and does what it says.
pub(crate) fn main() -> Result<(), Failure> {
    match Cli::parse().command {
        Command::Run(args) => measure::measure(&args),
        Command::Sweep(args) => sweep::sweep(&args),
        Command::Compare(args) => compare::compare(&args),
        Command::Report(args) => report::report(&args),
        Command::Preload(args) => preload::preload(&args),
        Command::Sim(args) => sim::sim(&args),
        Command::Capacity(args) => capacity::capacity(&args),
        Command::Figure(args) => figure::figure(&args),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
